"""What a program costs, counted and measured, and what autograd's would."""
