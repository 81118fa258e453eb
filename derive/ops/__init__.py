"""The catalogue: specs and nothing else, a file per family."""
