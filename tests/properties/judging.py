"""One random spec on trial: derived and run, its gradients beside autograd of the equations as they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from derive.emit.live import Live
from derive.errors import DeriveError
from derive.notation.spec import OpCall
from derive.output.live import build
from tests.properties import direct
from tests.properties.grammar import Example, Input

EXACT = 1e-10  # float64, relative to the largest element of what is expected


@dataclass(frozen=True)
class Verdict:
    """What became of an example: "right", "refused" with the error's line, or "wrong" with what differs.

    "rightly refused" are lengths that fit no equation, drawn by the grammar and refused by name as the op runs.
    """

    outcome: str
    detail: str = ""


class Refused(Exception):
    """The op refused lengths that do not fit its equations, by name."""


def judge(example: Example, live: Live | None = None) -> Verdict:
    """Derive the spec, run it forward and backward, and compare. Raises what the derivation raises but DeriveError."""
    try:
        live = live or built(example)
    except DeriveError as error:
        return Verdict("refused", str(error))
    try:
        wrong = differences(example, live)
    except Refused as refusal:
        return Verdict("rightly refused", str(refusal))
    return Verdict("wrong", "; ".join(wrong)) if wrong else Verdict("right")


def built(example: Example) -> Live:
    """The live functions of the example's op."""
    names: dict[str, Any] = {}
    exec(compile(example.source, "<spec>", "exec", dont_inherit=True), names)
    op: OpCall = names[example.name]
    return build(op, example.save, proven=False)  # which is judged here


def differences(example: Example, live: Live) -> list[str]:
    """What of outputs, gradients and inputs is not as the equations have it."""
    tensors, numbers = values(example)
    wanted = direct.load(example.source, example.lengths)[example.name]
    leaves = [t.clone().requires_grad_(i.kind == "tensor") for i, t in tensors]
    given = [t.clone() for _, t in tensors]
    arguments = [numbers.get(i.name, None) if i.kind in ("scalar", "length") else None for i in example.inputs]
    waiting = iter(given)
    call = [next(waiting) if a is None else a for a in arguments]
    try:
        expected = wanted.run(*leaves, **numbers)
    except direct.Unfit:
        _run_unfit(example, live, call)
        raise
    wrong_domain = [k for k, e in enumerate(expected) if not bool(e.isfinite().all())]
    assert not wrong_domain, f"the grammar let output {wrong_domain[0]} leave its domain"
    cotangents = [cotangent(e, example, k) for k, e in enumerate(expected)]
    real = [leaf for leaf in leaves if leaf.requires_grad]
    gradients = _autograd(expected, real, cotangents)
    *outputs, saved = live.forward(*call)
    found = live.backward(*cotangents, *saved)
    found = (found,) if isinstance(found, Tensor) else tuple(found)
    names = [i.name for i, _ in tensors if i.kind == "tensor"]
    out = [_unlike(f"output {k}", o, e.detach()) for k, (o, e) in enumerate(zip(outputs, expected, strict=True))]
    out += [_unlike(f"gradient of {n}", g, e) for n, g, e in zip(names, found, gradients, strict=True)]
    out += [f"{i.name} is written over" for (i, t), g in zip(tensors, given, strict=True) if not torch.equal(t, g)]
    wrong = [line for line in out if line]
    return wrong or [
        f"gradient of {n} differs the second time" for n in _unrepeated(live, cotangents, saved, found, names)
    ]


def _run_unfit(example: Example, live: Live, call: list[Any]) -> None:
    """Run the op on lengths that the equations do not allow. Raises Refused where it says so by name."""
    try:
        live.forward(*call)
    except ValueError as error:
        if re.match(rf"{example.name}, equation \w+: .*axis", str(error)):
            raise Refused(str(error)) from None
        raise


def _unrepeated(
    live: Live, cotangents: list[Tensor], saved: Any, found: tuple[Any, ...], names: list[str]
) -> list[str]:
    """The inputs whose gradient is another when the backward runs again on what it was given before."""
    again = live.backward(*cotangents, *saved)
    again = (again,) if isinstance(again, Tensor) else tuple(again)
    return [n for n, g, a in zip(names, found, again, strict=True) if not torch.equal(g, a)]


def values(example: Example) -> tuple[list[tuple[Input, Tensor]], dict[str, Any]]:
    """The tensors, each with its input, and the numbers by name."""
    generator = torch.Generator().manual_seed(example.seed)
    tensors, numbers = [], {}
    for i in example.inputs:
        if i.kind in ("scalar", "length"):
            numbers[i.name] = i.number
        elif i.kind == "index":
            tensors.append((i, torch.randint(int(i.low), int(i.high) + 1, i.shape, generator=generator)))
        else:
            t = torch.rand(i.shape, generator=generator, dtype=torch.float64) * (i.high - i.low) + i.low
            tensors.append(
                (i, (2 * t).round() / 2 + (0.5 if i.low > 0 else 0.0) * (t < 0.25) if example.rounded else t)
            )
    return tensors, numbers


def cotangent(of: Tensor, example: Example, number: int) -> Tensor:
    """A random incoming gradient in the example's layout."""
    generator = torch.Generator().manual_seed(1000 + 10 * example.seed + number)
    if example.layout == "expanded":
        return torch.randn((), generator=generator, dtype=torch.float64).expand(of.shape)
    plain = torch.randn(of.shape, generator=generator, dtype=torch.float64)
    if example.layout == "transposed":
        back = tuple(reversed(range(of.dim())))
        return plain.permute(back).contiguous().permute(back)
    return plain


def _autograd(outputs: tuple[Tensor, ...], leaves: list[Tensor], cotangents: list[Tensor]) -> list[Tensor]:
    attached = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    if not attached or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad([o for o, _ in attached], leaves, [c for _, c in attached], allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


def _unlike(what: str, got: Any, want: Tensor) -> str:
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        found = f"{getattr(got, 'dtype', type(got).__name__)} {list(getattr(got, 'shape', ()))}"
        return f"{what} is {found}, expected {list(want.shape)}"
    off = torch.where(want.isfinite(), (got - want).abs().nan_to_num(nan=torch.inf), 0.0)
    finite = want[want.isfinite()].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    if off.numel() == 0 or float(off.max()) <= EXACT * scale:
        return ""
    at = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
    return f"{what}{list(at)} is {float(got[at])!r}, expected {float(want[at])!r}"


_RIGHT_TO_REFUSE = (
    "no gradient can be read from an output",  # save="output" where nothing can be
    "the form from the output holds only where",  # save="output" under a condition that the spec does not declare
)


def expected_refusal(line: str) -> bool:
    """Whether a DeriveError is the right answer to a spec of this grammar."""
    return any(cause in line for cause in _RIGHT_TO_REFUSE)
