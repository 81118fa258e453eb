"""Statements as loops: which share a pass, in which order, along which axes."""
