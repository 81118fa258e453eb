"""Closed forms: the stepwise backward made short by laws that know no op."""
