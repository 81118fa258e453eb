"""Measurements: forward and backward against autograd, torch.compile, JAX and native ops; how long derivation takes."""

import os

# PyTorch's profiler, which counts peak memory, else writes to the standard error whenever it starts and stops.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
