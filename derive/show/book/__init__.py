"""The formula book: a static site with a page for every op, made from its derivation."""
