"""What programs cost, for a reader: counted, measured, beside published derivations."""
