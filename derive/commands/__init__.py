"""The commands behind `derive`, each a function whose annotations are its options."""
