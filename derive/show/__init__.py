"""A derivation for its readers: on the terminal, as LaTeX, as specs, as a book; and what programs cost."""
