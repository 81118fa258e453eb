"""`python -m derive.cli` is the command `derive`."""

from derive.cli import main

main()
