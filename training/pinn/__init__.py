"""A perceptron that solves Burgers' equation: its residual is made of derivatives, whose gradients are derived."""
