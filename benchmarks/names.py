"""The step of the names network, parameter update included: one call a step, for each way that exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.jax_forms import jax, names_loss
from benchmarks.kernels import NativePackage, Pair
from benchmarks.ways import AUTOGRAD, Way, Whole, forms, one_graph
from derive.catalogue import find
from training.names.network import Network, initialise
from training.names.twin import autograd_loss

BATCHES = {"small": 32, "medium": 512, "large": 4096}
OP = "names_step"
TITLE = "names training step"

_RATE, _EPS = 1e-3, 1e-5
_LETTERS = 27


def whole(size: str, compiled: bool, native: NativePackage | None = None) -> Whole:
    """The ways that exist for a step on a batch of this size."""
    return Whole(TITLE, f"batch {BATCHES[size]}", step_ways(BATCHES[size], compiled, native), {})


def step_ways(batch: int, compiled: bool, native: NativePackage | None = None) -> dict[str, Way]:
    """A training step on one batch, again and again, as each way has it: outputs are the losses, no gradients."""
    generator = torch.Generator().manual_seed(0)
    ix = torch.randint(0, _LETTERS, (batch, 3), generator=generator)
    step = _Step(ix, torch.randint(0, _LETTERS, (batch,), generator=generator))
    own = forms(find(OP))
    pair = own.live.forward, own.live.backward
    out = {AUTOGRAD: step.taped(autograd_loss)}
    if compiled:
        out["compiled autograd"] = step.taped(one_graph(autograd_loss))
    if jax is not None:
        out["JAX jit"] = step.in_jax()
    out["generated"] = step.by_hand(pair)
    out["generated out="] = step.by_hand(_over(pair, own.pair_out))
    if compiled:
        out["generated compiled"] = step.in_one_graph((own.fused.forward, own.fused.backward))
    found = None if native is None else native.functions(OP)
    if found is not None:
        out["native"] = step.by_hand(found.pair)
        out["native out="] = step.by_hand(_over(found.pair, found.pair_out))
        assert found.sgd is not None, "the package was generated with --step"
        out["native, one call"] = step.in_one_call(found.sgd)
    return out


@dataclass(frozen=True)
class _Step:
    """A step of descent on one batch: letters seen, and those that follow. Every way has parameters of its own."""

    ix: Tensor
    y: Tensor

    def _parameters(self, tape: bool = False) -> Network:
        parameters = initialise(3, 10, 200, torch.Generator().manual_seed(1), torch.float32)
        return Network(*(p.requires_grad_(tape) for p in parameters))

    def taped(self, loss_of: Callable[..., Any]) -> Way:
        """By autograd."""
        parameters = self._parameters(tape=True)

        def run() -> Any:
            loss = loss_of(parameters, self.ix, self.y, _EPS)
            gradients = torch.autograd.grad(loss, list(parameters))
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(gradient, alpha=_RATE)
            return (loss,), ()

        return run

    def by_hand(self, pair: Pair) -> Way:
        """By a forward and a backward, as a hand-written loop calls them."""
        (forward, backward), parameters, one = pair, self._parameters(), torch.tensor(1.0)

        @torch.inference_mode()
        def run() -> Any:
            loss, saved = forward(*parameters, self.ix, self.y, _EPS)
            for parameter, gradient in zip(parameters, backward(one, *saved), strict=True):
                parameter.sub_(gradient, alpha=_RATE)
            return (loss,), ()

        return run

    def in_one_graph(self, pair: Pair) -> Way:
        """The same, all of the step compiled at once."""
        (forward, backward), parameters, one = pair, self._parameters(), torch.tensor(1.0)

        def step(*p: Any) -> Any:
            loss, saved = forward(*p, self.ix, self.y, _EPS)
            for parameter, gradient in zip(p, backward(one, *saved), strict=True):
                parameter.sub_(_RATE * gradient)  # not with alpha: see tests/generated/test_compiled.py
            return loss

        fast = one_graph(step)

        @torch.no_grad()
        def run() -> Any:
            return (fast(*parameters),), ()

        return run

    def in_one_call(self, sgd: Callable[..., Any]) -> Way:
        """By a kernel that is a whole step."""
        parameters = self._parameters()
        return lambda: ((sgd(*parameters, self.ix, self.y, _RATE, _EPS),), ())

    def in_jax(self) -> Way:
        """By JAX, which compiles the step and writes over the parameters."""

        def step(p: Any, *batch: Any) -> Any:
            loss, gradients = jax.value_and_grad(lambda q: names_loss(*q, *batch))(p)
            return loss, [a - _RATE * g for a, g in zip(p, gradients, strict=True)]

        fast = jax.jit(step, donate_argnums=0)
        state = [[jax.numpy.asarray(p.numpy().copy()) for p in self._parameters()]]
        batch = tuple(jax.numpy.asarray(t.numpy()) for t in (self.ix, self.y))

        def run() -> Any:
            loss, state[0] = jax.block_until_ready(fast(state[0], *batch))
            return (loss,), ()

        return run


def _over(pair: Pair, pair_out: Pair) -> Pair:
    """The forward and the backward over the memory of their first calls."""
    (forward, backward), (forward_out, backward_out) = pair, pair_out
    held: dict[str, Any] = {}

    def ahead(*args: Any) -> Any:
        held["forward"] = forward_out(*args, out=held["forward"]) if "forward" in held else forward(*args)
        return held["forward"]

    def back(*args: Any) -> Any:
        held["backward"] = backward_out(*args, out=held["backward"]) if "backward" in held else backward(*args)
        return held["backward"]

    return ahead, back
