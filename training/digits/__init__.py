"""A four-layer perceptron that reads handwritten digits."""
