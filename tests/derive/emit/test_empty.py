"""Where no incoming gradient has an element, every gradient is 0, whatever the statistics of nothing are."""

import pytest
import torch

from derive.catalogue import find
from derive.ir.equations import Op
from derive.notation import axes, mean, op, rsqrt, scalar, sqrt, sum, tensor
from derive.verify.verify import verify, verify_kernels
from tests.derive.against_loops import code_of
from tests.derive.live import module

n, c, d = axes("n c d")


@op
def normed(f, x: tensor[n, d], w: tensor[d, c], g: tensor[c], o: tensor[c], eps: scalar = 1e-5):
    """The gradient of the scale is a statistic times a sum over the batch."""
    f.z[n, c] = sum(x[n, d] * w[d, c], over=d)
    f.mu[c] = mean(f.z[n, c], over=n)
    f.v[c] = mean((f.z[n, c] - f.mu[c]) ** 2, over=n)
    f.y[n, c] = (f.z[n, c] - f.mu[c]) * rsqrt(f.v[c] + eps) * g[c] + o[c]
    return f.y


@op
def two_results(f, x: tensor[n, c], g: tensor[c]):
    """Each result may come with no gradient of its own."""
    f.s[c] = sqrt(mean(x[n, c] ** 2, over=n))
    f.y[n, c] = g[c] * x[n, c] / f.s[c]
    f.z[n, c] = x[n, c] - f.s[c]
    return f.y, f.z


@op
def with_its_mean(f, x: tensor[n, c], g: tensor[c]):
    """The mean is a result, whose gradient has elements: that of nothing is nan then, as autograd has it."""
    f.mu[c] = mean(x[n, c], over=n)
    f.y[n, c] = g[c] * f.mu[c] * x[n, c]
    return f.y, f.mu


@pytest.mark.parametrize("made", [normed.op, two_results.op], ids=lambda made: made.name)
def test_gradients_of_nothing_are_0(made: Op) -> None:
    found = verify(made)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]
    assert code_of(made).count("numel()") == len(made.outputs)


def test_so_they_are_of_kernels() -> None:
    found = verify_kernels(normed.op)
    assert found.right, [(r.line, [str(d) for d in r.wrong]) for r in found.rows if r.wrong]


def test_what_has_elements_is_asked_nothing() -> None:
    """A scale's gradient that is summed with the statistic inside; a mean that is a result as well."""
    assert "numel()" not in code_of(find("batchnorm"))
    assert "numel()" not in code_of(with_its_mean.op)


def test_lengths_are_not_compiled_anew() -> None:
    spec = module(normed.op)
    compiled = torch.compile(spec.normed_backward, fullgraph=True, dynamic=True)
    for k, length in enumerate((6, 9, 11)):
        _, saved = spec.normed_forward(*(torch.randn(s) for s in ((length, 3), (3, 4), (4,), (4,))))
        dy = torch.randn(length, 4)
        with torch._dynamo.config.patch(error_on_recompile=k > 0):
            found = compiled(dy, *saved)
        for ours, expected in zip(found, spec.normed_backward(dy, *saved), strict=True):
            torch.testing.assert_close(ours, expected)
