"""Mutants that no battery can catch, because what they compute is the same: by op and a part of the statement."""

from __future__ import annotations

from tests.mutation.mutants import Mutant

_PRODUCT = "the two are only ever multiplied with one another"
_ONCE = "no two values are added at one place, and what is there before is 0"

_WHY: tuple[tuple[str, str, str, str], ...] = (
    ("exp", "saved tensor exchanged", "y: Tensor, dy: Tensor", _PRODUCT),
    *(
        (op, "saved tensor exchanged", "dy_dx: Tensor, dy: Tensor", _PRODUCT)
        for op in ("elu", "silu", "gelu", "gelu_tanh")
    ),
    ("bias_gelu", "saved tensor exchanged", "dy_dh: Tensor, dy: Tensor", _PRODUCT),
    ("square", "saved tensor exchanged", "x: Tensor, dy: Tensor", _PRODUCT),
    ("dropout", "saved tensor exchanged", "mask: Tensor, dy: Tensor", _PRODUCT),
    ("batchnorm", "saved tensor exchanged", "dy: Tensor, gamma: Tensor, xhat: Tensor, rstd", _PRODUCT),
    (
        "names_step",
        "saved tensor exchanged",
        "bngain: Tensor, bnraw: Tensor, h: Tensor, probs: Tensor, W1: Tensor, bnvar_inv",
        _PRODUCT,
    ),
    ("names_step", "sign", "db1 = -dhprebn.sum(0)", "a bias in front of a batch normalisation: its gradient is 0"),
    ("nll", "= for accumulate", "scatter_(1, y", "a row has one place; " + _ONCE),
    ("rotary", "= for accumulate", "dz[..., :, ", _ONCE),
    ("rotary_interleaved", "= for accumulate", "dz[..., :, :, ", _ONCE),
    ("diagonal", "= for accumulate", "copy_(dy)", _ONCE),
    ("trace", "= for accumulate", "copy_(dy)", _ONCE),
)


def why_equivalent(op: str, mutant: Mutant) -> str | None:
    """Why a mutant is no mistake, or None."""
    found = [why for name, kind, part, why in _WHY if (name, kind) == (op, mutant.kind) and part in mutant.after]
    return found[0] if found else None
