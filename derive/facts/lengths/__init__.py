"""How long each axis is, and what reads ask of lengths."""
