"""Two representations, equations of SymPy and programs of nodes: data, validity, traversal, substitution, printing."""
