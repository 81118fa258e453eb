"""The laws, each a row."""
