"""What shares a pass over memory, and the ways in which a pass may run: data, free of C."""
