"""Laws of what a spec says: the engine and its tables of rows, and what is said in short, said in full."""
