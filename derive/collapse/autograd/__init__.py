"""What autograd would keep of the same forward, and the kernels that it would run."""
