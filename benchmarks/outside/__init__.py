"""Problems that others set: their mathematics as specs of ours, held against the PyTorch that a person writes."""
