"""Statements in order, and what a program is made of after passes that know no op."""
