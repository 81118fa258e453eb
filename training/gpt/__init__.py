"""A small decoder-only transformer on names (Radford et al., 2018)."""
