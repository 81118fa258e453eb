"""Choices by a condition."""
