"""From a spec's function to its equations: what the author works with, and what is checked as it is written."""
