"""The reason that judge gives is the one that each candidate was made with, and its counterexample shows it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from derive.catalogue import find, load_file
from derive.ir.equations import Op
from derive.verify.judge import Verdict, judge
from derive.verify.subjects import of_backward

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")  # of a variance of one

OWN = {op.name: op for op in load_file(Path(__file__).parent / "specs_of_reasons.py")}


def op_of(name: str) -> Op:
    return OWN.get(name) or find(name)


def found(op: str, backward: Callable[..., Any]) -> Verdict:
    return judge(op_of(op), of_backward(backward, op_of(op)))


def rows(t, like):
    return t.reshape(-1, len(like)).sum(0)


# --- the candidates --------------------------------------------------------------------------------------------------


def softmax(dp, x):
    p = torch.softmax(x, -1)
    return p * (dp - (dp * p).sum(-1, keepdim=True))


def whole_columns(block: int):
    def backward(dp, x):
        dx = softmax(dp, x)
        dx[..., dx.shape[-1] // block * block :] = 0
        return dx

    return backward


def whole_rows(dp, x):
    dx = softmax(dp, x)
    flat = dx.reshape(-1, x.shape[-1]).clone()
    flat[len(flat) // 16 * 16 :] = 0
    return flat.reshape(dx.shape)


def as_a_matrix(dp, x):
    flat = softmax(dp.reshape(len(x), -1), x.reshape(len(x), -1)) if x.dim() > 1 else torch.zeros_like(x)
    return flat.reshape(x.shape)


def as_if_contiguous(dp, x):
    steps = torch.empty(dp.shape).stride()
    whole = dp.untyped_storage().nbytes() >= dp.element_size() * dp.numel()
    return softmax(torch.as_strided(dp, dp.shape, steps if whole else [0] * dp.dim(), dp.storage_offset()), x)


def layernorm(dy, x, gamma, beta, eps, correction=0, held=False):
    var, mu = torch.var_mean(x, -1, correction=correction, keepdim=True)
    r = torch.rsqrt(var + eps)
    xhat, g = (x - mu) * r, gamma * dy
    rest = 0 if held else g.mean(-1, keepdim=True) + xhat * (g * xhat).mean(-1, keepdim=True)
    return r * (g - rest), rows(dy * xhat, gamma), rows(dy, gamma)


def unbiased(dy, x, gamma, beta, eps):
    return layernorm(dy, x, gamma, beta, eps, correction=1)


def held(dy, x, gamma, beta, eps):
    return layernorm(dy, x, gamma, beta, eps, held=True)


def parameters_exchanged(dy, x, gamma, beta, eps):
    dx, dgamma, dbeta = layernorm(dy, x, gamma, beta, eps)
    return dx, dbeta, dgamma


def operands_exchanged(dy, x, w, b):
    flat, g = x.flatten(0, -2), dy.flatten(0, -2)
    return (flat.T @ g), dy @ w.T, g.sum(0)


def without_dw(dy, x, w, b):
    return dy @ w.T, None, dy.flatten(0, -2).sum(0)


def trained(dy, x, mu, var):
    r = torch.rsqrt(var.abs() + 0.1)
    xhat = (x - mu) * r
    return r * (dy - dy.mean(0) - xhat * var.sign() * (dy * xhat).mean(0))


def masks_exchanged(dy, x, s):
    return torch.where(x > s, dy, 0), torch.where(x > s, 0, dy)


def mask_reversed(dy, x, s):
    return torch.where(x > s, dy, 0), torch.where(x > s, dy, 0)


def tanh_before(dy, x, r):
    a = x.tanh()
    return dy @ r.T * (1 - a * a), a.T @ dy


def scale_after_cap(dy, z, cap, s):
    return s * dy * (1 - (z / cap).tanh() ** 2)


def far_apart(dy, z):
    y = z.log_softmax(-1)
    return dy - y.exp() * (y.exp() * dy / y.exp()).sum(-1, keepdim=True)


def without_dlse(dp, dlse, z):
    return softmax(dp, z)


def padding_left(dy, x, m):
    return 2 / x.shape[1] * x * (dy * torch.where(m == 0, 1.0, m))[:, None]


def windows_overwritten(dy, x, w):
    dx = torch.zeros_like(x)
    for u in range(dy.shape[1]):
        dx[:, u : u + len(w)] = dy[:, u : u + 1] * w
    return dx, torch.stack([(x[:, k : k + dy.shape[1]] * dy).sum() for k in range(len(w))])


def neighbours_overwritten(dy, x):
    dx = torch.zeros_like(x)
    dx[:, 1:] = 2 * x[:, 1:] * dy
    dx[:, :-1] = -dy
    return dx


def table_overwritten(dy, table, ix):
    out = torch.zeros_like(table)
    out[ix] = dy
    return out


def root_before_eps(dy, q, eps):
    s = q.norm(dim=-1, keepdim=True) + eps
    return dy / s - q * (dy * q).sum(-1, keepdim=True) / s**3


def of_gelu(approximate: str):
    def backward(dy, x):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            y = torch.nn.functional.gelu(leaf, approximate=approximate)
            return torch.autograd.grad(y, leaf, dy)[0]

    return backward


WRONG: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "operands exchanged": ("linear", operands_exchanged, "gradients exchanged", "are exchanged"),
    "parameters exchanged": ("layernorm", parameters_exchanged, "gradients exchanged", "are exchanged"),
    "masks exchanged": ("learned_step", masks_exchanged, "gradients exchanged", "are exchanged"),
    "one mask reversed": ("learned_step", mask_reversed, "gradients exchanged", "equals ds"),
    "unbiased": ("layernorm", unbiased, "degrees of freedom", "size(d) - 1 instead of size(d)"),
    "held": ("layernorm", held, "held constant", "mu and var held constant"),
    "not held": ("with_given_statistics", trained, "not held constant", "mu taken as the mean of x, var taken as the"),
    "before": ("rotated_tanh", tanh_before, "wrong order", "y taken of x[n, d] before z instead of after"),
    "after": ("capped", scale_after_cap, "wrong order", "s*tanh(z[n]/cap) in place of tanh(s*z[n]/cap)"),
    "a cotangent": ("with_log_sum", without_dlse, "cotangent ignored", "with dlse ignored"),
    "windows": ("windows", windows_overwritten, "overwritten instead of accumulated", "x[n, k + u] adds at one place"),
    "neighbours": ("one_before", neighbours_overwritten, "overwritten instead of accumulated", "x[n, u + 1], x[n, u]"),
    "none": ("linear", without_dw, "missing gradient", ""),
    "a root": ("unit", root_before_eps, "term outside of the root", "1/(eps + sqrt(y_sum[n]))"),
    "a slope": ("tanh", lambda dy, x: dy * x.tanh() * (1 - x.tanh()), "another function's formula", "of sigmoid, by"),
    "a function": ("tanh", lambda dy, x: dy * x.cos(), "another function's formula", "sin in place of"),
    "by tanh": ("gelu", of_gelu("tanh"), "another function's formula", "approximation by tanh in place of erf"),
    "an echo": ("late_echo", lambda dy, x, w: (w * dy, x * dy), "missing term", "dy[n, t_inner' + 20]"),
}

ONLY_WHERE: dict[str, tuple[str, Callable[..., Any], str, str]] = {
    "far apart": ("log_softmax_as_written", far_apart, "the values of z are less than 700 apart", "overflow"),
    "columns of 4": ("softmax", whole_columns(4), "size(d) is a multiple of 4", "last block dropped"),
    "columns of 64": ("softmax", whole_columns(64), "size(d) is a multiple of 64", "last block dropped"),
    "rows of 16": ("softmax", whole_rows, "size(...) is a multiple of 16", "last block dropped"),
    "a matrix": ("softmax", as_a_matrix, "there is one leading axis", "leading axes"),
    "contiguous": ("softmax", as_if_contiguous, "the incoming gradient is contiguous", "strides"),
    "padding": ("masked_mean", padding_left, "m is nowhere 0", "rows of padding"),
    "a table": ("embedding", table_overwritten, "no value of ix is repeated", "overwritten instead of accumulated"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_reason_is_found(name: str) -> None:
    op, backward, error, words = WRONG[name]
    verdict = found(op, backward)
    assert (verdict.word, verdict.error) == ("wrong", error)
    assert words in " ".join(e.text for e in verdict.explanations)


@pytest.mark.parametrize("name", ONLY_WHERE)
def test_the_condition_is_found(name: str) -> None:
    op, backward, where, error = ONLY_WHERE[name]
    verdict = found(op, backward)
    assert (verdict.word, verdict.error) == ("right only where", error)
    assert verdict.where.removesuffix(", or by chance") == where


@pytest.mark.parametrize("name", [n for n, (_, _, error, _) in WRONG.items() if error != "missing gradient"])
def test_the_counterexample_shows_the_reason(name: str) -> None:
    """The form that is named gives the candidate's values there, and what is right is something else."""
    op, backward, _, _ = WRONG[name]
    verdict = found(op, backward)
    example, explanation = verdict.counterexample, verdict.explanations[0]
    assert example is not None and example.tensor == explanation.gradient
    given = of_backward(backward, op_of(op))(example.case.call).gradients
    operand = explanation.gradient.removeprefix("d")
    form, right = explanation.form.value(example.case), example.case.gradients[operand]
    torch.testing.assert_close(form, given[operand], rtol=1e-7, atol=1e-9)
    assert form.shape != right.shape or float((form - right).abs().max()) > 1e-6
    assert bool(right.any())


def test_a_counterexample_is_as_long_as_its_reason_needs() -> None:
    """One column says nothing of a variance, and three of none of blocks of four."""
    example = found("layernorm", unbiased).counterexample
    assert example is not None and example.case.call.lengths["d"] == 3, "two columns are 1 and -1 apart from their mean"
    for block in (4, 64):
        example = found("softmax", whole_columns(block)).counterexample
        assert example is not None and example.case.call.lengths["d"] == block + 1


def test_an_identity_is_no_reason() -> None:
    """A term counted twice and halved again is what is right: rounding alone is between the two."""

    def narrow(dy, x, gamma, eps):
        z, g = x.float(), dy.float() * gamma.float()
        r = torch.rsqrt((z * z).mean(-1, keepdim=True) + eps)
        dx = r * (g - z * r * (g * z * r).mean(-1, keepdim=True))
        return dx.to(x.dtype), rows(dy.float() * z * r, gamma).to(x.dtype)

    assert found("rmsnorm", narrow).explanations == ()


def test_a_condition_that_fresh_calls_refute_is_not_printed() -> None:
    """Wrong where the first column is the largest: no property that is known, whatever the battery leaves standing."""

    def backward(dp, x):
        return softmax(dp, x) + (x.argmax(-1, keepdim=True) == 0) * dp

    verdict = found("softmax", backward)
    assert (verdict.word, verdict.where) == ("wrong", "")
