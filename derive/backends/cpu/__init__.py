"""The CPU backend: a program over named axes becomes loops in C, as few passes over memory as its reductions allow."""
