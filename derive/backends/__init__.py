"""Backends: a program over named axes becomes code, `torch` of whole tensors, `cpu` loops in C."""
