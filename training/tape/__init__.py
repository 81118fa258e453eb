"""A small autograd engine whose every rule is a derived one."""

from training.tape.tensor import Tensor, no_grad, zero_grad

__all__ = ["Tensor", "no_grad", "zero_grad"]
