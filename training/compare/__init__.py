"""Each loop beside its plain-PyTorch twin: the same seed, the same batches, and how far apart they are."""
