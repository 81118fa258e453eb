"""KernelBench, level 2: fused operators. The specs are ours, from the mathematics; shapes are smaller.

Parameters of modules are inputs. Batch normalisation is that of training, by the statistics of the batch, and dropout
takes its mask. They stand in a file for each layer that they begin with.
"""

from benchmarks.outside.kernelbench_2_conv import *
from benchmarks.outside.kernelbench_2_gemm import *
from benchmarks.outside.kernelbench_2_transposed import *
