"""What cancels once a sum goes by the name of the adjoint that it is, is not computed, and nothing is kept for it."""

from torch import Tensor
from torch.nn import functional

from derive import axes, mean, op, rsqrt, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

n, c, s = axes("n c s")


@op
def scale_and_shift(f, x: tensor[n, c, s], w: tensor[c], b: tensor[c]):
    """Normalisation as it is often written: a scale and a shift for each row."""
    f.mu[n, c] = mean(x[n, c, s], over=s)
    f.r[n, c] = rsqrt(mean((x[n, c, s] - f.mu[n, c]) ** 2, over=s) + 1e-5)
    f.a[n, c] = w[c] * f.r[n, c]
    f.sh[n, c] = b[c] - f.mu[n, c] * f.a[n, c]
    f.y[n, c, s] = f.a[n, c] * x[n, c, s] + f.sh[n, c]
    return f.y


@op
def scale_less_shift(f, x: tensor[n, c, s], w: tensor[c], b: tensor[c]):
    """The same with the shift taken off, twice its half: the sum that is known has a number."""
    f.mu[n, c] = mean(x[n, c, s], over=s)
    f.r[n, c] = rsqrt(mean((x[n, c, s] - f.mu[n, c]) ** 2, over=s) + 1e-5)
    f.a[n, c] = w[c] * f.r[n, c]
    f.sh[n, c] = (f.mu[n, c] * f.a[n, c] - b[c]) / 2
    f.y[n, c, s] = f.a[n, c] * x[n, c, s] - 2 * f.sh[n, c]
    return f.y


def test_a_sum_with_a_number_is_known_too() -> None:
    derivation = derivation_of(scale_less_shift.op)
    assert "mu" not in derivation.kept, derivation.kept
    assert "known" in {step.law for step in derivation.closed.steps}


def test_a_sum_less_itself_is_not_computed_and_the_mean_is_not_kept() -> None:
    derivation = derivation_of(scale_and_shift.op)
    lines = [str(line) for line in derivation.backward.statements]
    assert "da[n, c] = sum(dy[n, c, s] * x_minus_mu[n, c, s], over=s)" in lines, lines
    assert "mu" not in derivation.kept, derivation.kept
    (known,) = [step for step in derivation.closed.steps if step.law == "known"]
    assert known.reason == "dsh[n, c] = sum(dy[n, c, s'], over=s')", known


def test_the_gradients_are_right() -> None:
    def right(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return functional.instance_norm(x, weight=w, bias=b, eps=1e-5)

    for made in (scale_and_shift, scale_less_shift):
        assert_derived(made.op, right, {"x": (5, 3, 7), "w": (3,), "b": (3,)})
