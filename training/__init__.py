"""Hand-written loops whose gradients come from `generated` alone, each beside a plain-PyTorch twin."""
