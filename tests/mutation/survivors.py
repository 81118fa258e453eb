"""Mutants that no battery can catch, and why: what they compute is the same."""

EQUIVALENT: dict[tuple[str, str], str] = {}
