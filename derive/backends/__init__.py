"""Backends: a program over named axes becomes code. `torch` prints whole-tensor PyTorch."""
