"""From one expression of SymPy to nodes, in reading order: behind it there is no SymPy."""
