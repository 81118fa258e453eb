"""How tensors are read at their indices: as views where views serve, else by index tensors."""
