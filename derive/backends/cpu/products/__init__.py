"""Matrix products, and chains of them that are taken in tiles of rows."""
