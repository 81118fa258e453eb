"""The battery against mutants: which of them it catches, and in which situation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import Tensor

import generated
from derive.ir.equations import Op
from derive.verify.battery import cases
from derive.verify.cases import Case
from derive.verify.compare import disagreements
from derive.verify.subjects import of_functions
from tests.mutation.mutants import Mutant, mutants, pairs

FOLDER = Path(generated.__file__).parent


@dataclass(frozen=True)
class Trial:
    """A mutant of an op's backward and the first situation that catches it; None: it survives."""

    op: str
    mutant: Mutant
    caught: str | None


def trials(op: Op, every: int = 1, start: int = 0) -> Iterator[Trial]:
    """Every mutant of the op's committed module (or each `every`-th, from `start`) on trial."""
    source = (FOLDER / f"{op.name}.py").read_text(encoding="utf-8")
    battery = tuple(cases(op))
    sound = loaded(op.name, source)
    assert not [d for case in battery for d in _wrong(case, sound, op.name)], f"{op.name} fails the battery as it is"
    made = mutants(source, op.name, pairs(_shapes(op, sound, battery[0])))
    for mutant in made[start::every]:
        module = loaded(op.name, mutant.source)
        caught = next((case.situation for case in battery if _wrong(case, module, op.name)), None)
        yield Trial(op.name, mutant, caught)


def loaded(name: str, source: str) -> ModuleType:
    """A module of the generated package with this text, which is not put among the imported ones."""
    module = ModuleType(f"generated.{name}")
    module.__package__ = "generated"
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), vars(module))
    return module


def _wrong(case: Case, module: ModuleType, name: str) -> tuple[object, ...]:
    subject = of_functions(vars(module)[f"{name}_forward"], vars(module)[f"{name}_backward"])
    return disagreements(case, subject)


def _shapes(op: Op, module: ModuleType, case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of what the backward is given, by the names of its arguments."""
    *_, saved = vars(module)[f"{op.name}_forward"](*case.call.arguments())
    given = (*case.call.cotangents, *saved)
    code = vars(module)[f"{op.name}_backward"].__wrapped__.__code__
    named = dict(zip(code.co_varnames[: code.co_argcount], given, strict=True))
    return {n: tuple(t.shape) for n, t in named.items() if isinstance(t, Tensor) and t.is_floating_point()}
