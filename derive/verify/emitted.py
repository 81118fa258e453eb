"""What is emitted, proved before it is written: held against autograd of the equations as they are written.

In float64 with random cotangents: odd lengths, of values as they are drawn and with ties and repeated indices; and one
long row, with ties and repeated indices. Where right gradients are not finite there, or are all 0, which tells nothing,
or jump by rounding alone, the long row is taken again of values as they are drawn. What is of the second order is held
in the same situations against autograd of that, each of its cotangents also alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from derive.errors import OUR_FAULT, DeriveError
from derive.ir.equations import Op
from derive.verify import values
from derive.verify.cases import Case
from derive.verify.compare import Disagreement, Subject, disagreements, told
from derive.verify.orders import alone, gradient_map, of_gradients, of_tangents, tangent_map
from derive.verify.situations import Situation
from derive.verify.subjects import (
    of_descent,
    of_differentiable,
    of_functions,
    of_loss_over_old,
    of_loss_with_gradients,
    of_stepwise,
    of_workspace,
)

_TIED: dict[str, Any] = {"change": values.often_tied, "indices": "pairs"}
_LONG: dict[str, Any] = {"lengths": "one long row", "numbers": "other"}
SITUATIONS = (
    Situation("odd lengths", "no whole vector, no axis for another", lengths="odd"),
    Situation("odd lengths with ties", "equal values share a gradient, repeated places add up", lengths="odd", **_TIED),
    Situation("a long row with ties", "loops that are cut, and what is left of them", **_LONG, **_TIED),
)
LAST = Situation("a long row", "where ties are no points at which the gradient is finite", **_LONG)
"""Taken only where the one with ties tells nothing."""


class Unproven(Exception):
    """Why nothing can be said of an op."""


Cases = dict[str, tuple[Case, ...]]
"""The calls that an op's functions are proved by: of the first order, of gradients of gradients, of tangents."""


def prove(op: Op, functions: Mapping[str, Any], orders: Mapping[str, Any] | None = None) -> str:
    """Hold a module's functions, by name, against the equations; why that cannot be done, "" where they are right.

    `orders` are those of the module of its further derivatives. Raises DeriveError where one is wrong: the tensor, the
    place, what was found and what is right.
    """
    with _on_one_thread():
        cases, why = every_case_of(op, orders is not None)
        wrong = first_wrong_of(op, cases, functions, orders)
    if wrong is not None:
        raise refusal(op, f"{wrong.message} ({wrong.case})")
    return why


def every_case_of(op: Op, further: bool) -> tuple[Cases, str]:
    """The calls that an op's functions are proved by, those of its `further` derivatives among them.

    And why there are none of some, "" where there are.
    """
    out: Cases = {}
    try:
        out[op.name] = cases_of(op)
        for own in (gradient_map(op), tangent_map(op)) if further else ():
            out[own.name] = tuple(each for case in cases_of(own) for each in alone(case))
    except Unproven as unproven:
        return out, str(unproven) if not out else f"of its second derivatives: {unproven}"
    return out, ""


def first_wrong_of(
    op: Op,
    cases: Cases,
    functions: Mapping[str, Any],
    orders: Mapping[str, Any] | None,
    begins: Callable[[str], None] = lambda where: None,
) -> Disagreement | None:
    """The first thing that is wrong of an op's functions in these calls."""
    made = {op.name: lambda: subjects_of(op, functions)}
    if orders is not None:
        made[gradient_map(op).name] = lambda: of_gradients(op, functions[op.name], orders)
        made[tangent_map(op).name] = lambda: of_tangents(op, functions[op.name], orders)
    found = (first_wrong(own, made[name](), begins) for name, own in cases.items())
    return next((wrong for wrong in found if wrong is not None), None)


def refusal(op: Op, found: str) -> DeriveError:
    """The error that nothing is written for."""
    return DeriveError(
        f"what was derived is wrong, so that nothing is written: {found}",
        op=op.name,
        fix=f"{OUR_FAULT}; --unproven, or build(op, proven=False), does not ask",
    )


def cases_of(op: Op) -> tuple[Case, ...]:
    """The calls that an op is proved by. Raises Unproven where there are none."""
    out: list[Case] = []
    with _undisturbed():
        try:
            out += [case for s in SITUATIONS if (case := s.make(op)) is not None and case.is_steady]
            if not (out and out[-1].situation == SITUATIONS[-1].name and _tells(out[-1])):
                out += [case for case in (LAST.make(op),) if case is not None]
        except DeriveError as error:
            raise Unproven(error.cause) from None
    if not out:
        raise Unproven("found no inputs at which the op is finite")
    return tuple(out)


def _tells(case: Case) -> bool:
    """Whether every right gradient is finite, and somewhere not 0."""
    return all(bool(g.isfinite().all()) and bool(g.any()) for g in case.gradients.values())


def subjects_of(op: Op, functions: Mapping[str, Any]) -> dict[str, Subject]:
    """All of a module that computes gradients, by the function's name."""
    parts = {n.removeprefix(f"{op.name}_"): f for n, f in functions.items() if n.startswith(f"{op.name}_")}
    made: dict[str, Subject] = {
        "backward": of_functions(parts["forward"], parts["backward"]),
        "": of_differentiable(functions[op.name]),
    }
    if "backward_out" in parts:
        made["backward_out"] = of_workspace(parts)
    if "stepwise_backward" in parts:
        made["stepwise_backward"] = of_stepwise(parts["stepwise_forward"], parts["stepwise_backward"])
    if "with_gradients" in parts:
        made["with_gradients"] = of_loss_with_gradients(parts["with_gradients"])
    if "with_gradients_out" in parts:
        made["with_gradients_out"] = of_loss_over_old(parts["with_gradients"], parts["with_gradients_out"])
    if "sgd" in parts:
        made["sgd"] = of_descent(parts["sgd"])
    return {f"{op.name}_{n}" if n else op.name: subject for n, subject in made.items()}


def first_wrong(
    cases: Iterable[Case], subjects: Mapping[str, Subject], begins: Callable[[str], None] = lambda where: None
) -> Disagreement | None:
    """The first thing that is wrong of a subject; `begins` is told of each before it runs."""
    with _undisturbed():
        for case in cases:
            for name, subject in subjects.items():
                begins(f"{name} ({case})")
                for found in told(disagreements(case, subject), f"by {name}"):
                    return found
    return None


@contextmanager
def _on_one_thread() -> Iterator[None]:
    """On small tensors threads wait for each other longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """PyTorch as it is when it is imported, whatever a notebook has made of it."""
    elsewhere = torch.get_default_device().type != "cpu"
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu") if elsewhere else nullcontext():
        yield
