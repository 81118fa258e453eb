"""From expressions of SymPy to statements of a program."""
