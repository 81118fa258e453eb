"""A derivation for its readers: on the terminal, as a docstring, as a LaTeX document."""
