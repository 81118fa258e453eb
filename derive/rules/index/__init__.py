"""Which places of which tensors an equation reads: gathers, windows, padding, the ends of axes."""
