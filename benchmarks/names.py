"""The step of the names network, parameter update included: one call a step, for each way that exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.jax_forms import jax, names_loss
from benchmarks.ways import AUTOGRAD, Pair, Way, Whole, forms
from derive.catalogue import find
from training.names.network import Network, initialise
from training.names.twin import autograd_loss

BATCHES = {"small": 32, "medium": 512, "large": 4096}
OP = "names_step"
TITLE = "names training step"

_RATE, _EPS = 1e-3, 1e-5
_LETTERS = 27


def whole(size: str, compiled: bool, native: Any = None) -> Whole:
    """The ways that exist for a step on a batch of this size."""
    return Whole(TITLE, f"batch {BATCHES[size]}", step_ways(BATCHES[size], compiled, native), {})


def step_ways(batch: int, compiled: bool, native: Any = None) -> dict[str, Way]:
    """A training step on one batch, again and again, as each way has it: outputs are the losses, no gradients."""
    generator = torch.Generator().manual_seed(0)
    ix = torch.randint(0, _LETTERS, (batch, 3), generator=generator)
    y = torch.randint(0, _LETTERS, (batch,), generator=generator)

    def network(tape: bool = False) -> Network:
        parameters = initialise(3, 10, 200, torch.Generator().manual_seed(1), torch.float32)
        return Network(*(p.requires_grad_(tape) for p in parameters))

    def taped(loss_of: Callable[..., Any]) -> Way:
        parameters = network(tape=True)

        def run() -> Any:
            loss = loss_of(parameters, ix, y, _EPS)
            gradients = torch.autograd.grad(loss, list(parameters))
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.sub_(gradient, alpha=_RATE)
            return (loss,), ()

        return run

    def by_hand(forward: Callable[..., Any], backward: Callable[..., Any]) -> Way:
        parameters, one = network(), torch.tensor(1.0)

        @torch.inference_mode()
        def run() -> Any:
            loss, saved = forward(*parameters, ix, y, _EPS)
            for parameter, gradient in zip(parameters, backward(one, *saved), strict=True):
                parameter.sub_(gradient, alpha=_RATE)
            return (loss,), ()

        return run

    def whole(forward: Callable[..., Any], backward: Callable[..., Any]) -> Way:
        parameters, one = network(), torch.tensor(1.0)

        def step(*p: Any) -> Any:
            loss, saved = forward(*p, ix, y, _EPS)
            for parameter, gradient in zip(p, backward(one, *saved), strict=True):
                parameter.sub_(_RATE * gradient)  # not with alpha: see tests/generated/test_compiled.py
            return loss

        fast = torch.compile(step, fullgraph=True, dynamic=False)

        @torch.no_grad()
        def run() -> Any:
            return (fast(*parameters),), ()

        return run

    def in_one(sgd: Callable[..., Any]) -> Way:
        parameters = network()
        return lambda: ((sgd(*parameters, ix, y, _RATE, _EPS),), ())

    own = forms(find(OP))
    live = own.live
    out = {AUTOGRAD: taped(autograd_loss)}
    if compiled:
        out["compiled autograd"] = taped(torch.compile(autograd_loss, fullgraph=True, dynamic=False))
    if jax is not None:
        out["JAX jit"] = _jax_step(network(), ix, y)
    out["generated"] = by_hand(live.forward, live.backward)
    out["generated out="] = by_hand(*_over((live.forward, live.backward), own.pair_out))
    if compiled:
        out["generated compiled"] = whole(own.fused.forward, own.fused.backward)
    found = None if native is None else native.functions(OP)
    if found is not None:
        out["native"] = by_hand(*found.pair)
        out["native out="] = by_hand(*_over(found.pair, found.pair_out))
        out["native, one call"] = in_one(found.sgd)
    return out


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


def _jax_step(parameters: Network, ix: Any, y: Any) -> Way:
    def step(p: Any, *batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda q: names_loss(*q, *batch))(p)
        return loss, [a - _RATE * g for a, g in zip(p, gradients, strict=True)]

    fast = jax.jit(step, donate_argnums=0)
    state = [[jax.numpy.asarray(p.numpy().copy()) for p in parameters]]
    batch = tuple(jax.numpy.asarray(t.numpy()) for t in (ix, y))

    def run() -> Any:
        loss, state[0] = jax.block_until_ready(fast(state[0], *batch))
        return (loss,), ()

    return run
