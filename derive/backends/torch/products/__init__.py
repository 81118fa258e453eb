"""Sums of products: `@`, `einsum`, and convolutions."""
