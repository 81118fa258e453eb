"""An op known by its forward alone: a function of PyTorch, whose gradient is autograd's, or finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation.running import FailedError, Someones

_PROBED = {torch.float64: 48, torch.float32: 8}  # places of one input: what is for float32 may be interpreted
_MANY = 500  # elements, of which a quarter of the places is taken
_STEPS = {torch.float64: (1e-3, 1e-4, 1e-5), torch.float32: (0.1, 0.03)}
_SURE = {torch.float64: 1e-8, torch.float32: 1e-3}  # relative: what two stencils of one gradient may differ by
_GRANTED = 10  # times that, is what a gradient may be off by
_STENCIL = (3 / 4, -3 / 20, 1 / 60)
_SHORTER = (2 / 3, -1 / 12, 0.0)
_KINK = 0.6  # of two second differences over steps h and 3h: smooth, the first is a third of the second


@dataclass(frozen=True)
class Constant:
    """What a forward is given in every call: no tensor, or one that always is the same."""

    value: Any


@dataclass(frozen=True, kw_only=True)
class Opaque(Op):
    """An op whose forward is a function; it has no equations, and situations are made of its inputs.

    `given` is what the function is called with, in order: operands by name, and constants. Without `outputs` all
    floating point tensors that it returns are. `takes` is the widest dtype that it computes in.
    """

    function: Callable[..., Any]
    given: tuple[str | Constant, ...] = ()
    by_differences: bool = False
    takes: torch.dtype = torch.float64
    __hash__ = Op.__hash__

    def called_with(self, arguments: Sequence[Any]) -> list[Any]:
        """The function's arguments, from the operands' in order."""
        by_name = dict(zip((o.name for o in self.operands), arguments, strict=True))
        return [g.value if isinstance(g, Constant) else by_name[g] for g in self.given]

    def named(self, returned: Any) -> dict[str, Tensor]:
        """What the function returned, by the outputs' names."""
        several = list(returned) if isinstance(returned, tuple | list) else [returned]
        names = ["y"] if len(several) == 1 else [f"y{k}" for k in range(len(several))]
        names = list(self.outputs) if len(self.outputs) == len(several) else names
        real = {
            n: t for n, t in zip(names, several, strict=True) if isinstance(t, Tensor) and t.is_floating_point()
        }
        return {n: t for n, t in real.items() if not self.outputs or n in self.outputs}

    def outputs_of(self, arguments: Sequence[Any]) -> dict[str, Tensor]:
        """The outputs for copies of the operands' tensors. Raises DeriveError for whatever the function raises."""
        mine = [self._taken(a) if isinstance(a, Tensor) else a for a in arguments]
        try:
            with Someones():
                return self.named(self.function(*self.called_with(mine)))
        except FailedError as failed:
            raise DeriveError(f"its forward fails: {failed.line}", op=self.name) from None

    def _taken(self, t: Tensor) -> Tensor:
        wide = t.is_floating_point() and t.dtype.itemsize > self.takes.itemsize
        return t.to(self.takes) if wide else t.clone()

    @property
    def granted(self) -> float:
        """The relative error of its own gradients."""
        if self.by_differences:
            return _GRANTED * _SURE[self.takes]
        return 0.0 if self.takes == torch.float64 else 64 * torch.finfo(self.takes).eps

    def differences(self, arguments: Sequence[Any], cotangents: Sequence[Tensor]) -> dict[str, Tensor]:
        """Finite differences of the loss along some places of each input, in float64; not a number elsewhere.

        Nor where they do not settle, or the loss has two slopes, as a maximum at a tie.
        """
        places = {o.name: k for k, o in enumerate(self.operands)}
        arguments = [a.double() if isinstance(a, Tensor) and a.is_floating_point() else a for a in arguments]

        def loss(k: int, moved: Tensor) -> float:
            outputs = self.outputs_of([*arguments[:k], moved, *arguments[k + 1 :]])
            terms = (o.double() * c.double() for o, c in zip(outputs.values(), cotangents, strict=True))
            return float(sum(torch.where(t.isfinite(), t, 0.0).sum() for t in terms))

        return {o.name: self._gradient(arguments[places[o.name]], places[o.name], loss) for o in self.differentiable}

    def _gradient(self, at: Tensor, k: int, loss: Callable[[int, Tensor], float]) -> Tensor:
        out = torch.full(at.shape, torch.nan, dtype=torch.float64)
        if not at.numel():
            return out
        most = _PROBED[self.takes] // (4 if at.numel() > _MANY else 1)
        here, count = loss(k, at), min(most, at.numel())
        probed = sorted({i * (at.numel() - 1) // max(count - 1, 1) for i in range(count)})
        found = {i: self._surest(at, i, here, k, loss) for i in probed}
        size = max(max(abs(s) for s, _, _ in found.values()), 1e-3)
        for i, (slope, unsure, kink) in found.items():
            if unsure <= _SURE[self.takes] * size and kink <= _SURE[self.takes] ** 0.5 * size:
                out.view(-1)[i] = slope
        return out

    def _surest(
        self, at: Tensor, i: int, here: float, k: int, loss: Callable[[int, Tensor], float]
    ) -> tuple[float, float, float]:
        """The first slope whose stencils agree, else that at which they are nearest."""
        found = []
        for step in _STEPS[self.takes]:
            found.append(self._slope(at, i, step, here, k, loss))
            if found[-1][1] <= _SURE[self.takes] * abs(found[-1][0]):
                break
        return min(found, key=lambda s: s[1])

    def _slope(
        self, at: Tensor, i: int, step: float, here: float, k: int, loss: Callable[[int, Tensor], float]
    ) -> tuple[float, float, float]:
        """The slope along one place, how far two stencils are apart there, and by how much it jumps."""
        step *= max(1.0, abs(float(at.flatten()[i])))

        def moved(by: float) -> float:
            there = at.clone(memory_format=torch.contiguous_format)
            there.view(-1)[i] += by
            return loss(k, there)

        up, down = ([moved(sign * n * step) for n in (1, 2, 3)] for sign in (1, -1))
        odd = [(u - d) / step for u, d in zip(up, down, strict=True)]
        slope, other = (sum(c * o for c, o in zip(s, odd, strict=True)) for s in (_STENCIL, _SHORTER))
        bends = [abs(up[n - 1] + down[n - 1] - 2 * here) / (n * step) for n in (1, 3)]
        return slope, abs(slope - other), bends[0] if bends[0] > _KINK * bends[1] else 0.0
