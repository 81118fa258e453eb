"""A program made better by passes that know no op: each takes a program and returns one of the same values."""
