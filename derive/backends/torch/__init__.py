"""Whole-tensor PyTorch: named axes become dimensions."""
