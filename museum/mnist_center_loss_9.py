"""A loss averaged over the batch, with the gradient of its sum.

jxgu1016/MNIST_center_loss_pytorch, issue 9 (2018), https://github.com/jxgu1016/MNIST_center_loss_pytorch/issues/9.
Rebuilt here on cross-entropy, where the factor is forgotten as often: training goes on, at a learning rate that grows
with the batch.

    derive judge museum/mnist_center_loss_9.py:backward --op softmax_cross_entropy
"""

import torch.nn.functional as F

OP, VERDICT, ERROR = "softmax_cross_entropy", "wrong", "missing scale"


def backward(dloss, z, y):
    return dloss * (z.softmax(-1) - F.one_hot(y, z.shape[-1]))  # the fault: / len(z)
