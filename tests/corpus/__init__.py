"""The corpus: specs of many kinds, each named for what it is, with the inputs that are hard for it.

The catalogue and `tests/unseen/specs.py` are part of it as they stand; `specs/` holds the rest, a file a family. What
the code makes of each is recorded in `record/`; `python -m tests.corpus` writes that and compares with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from derive.catalogue import catalogue, load_file
from derive.ir.equations import Op
from derive.notation.spec import OpCall
from derive.verify.situations import Situation
from tests.corpus.elsewhere import CATALOGUE, UNSEEN
from tests.corpus.hostile import situations

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Spec:
    """One spec: its family, its op, and the situations, in float32, that its rules were made for."""

    name: str
    family: str
    op: Op
    hostile: tuple[Situation, ...]


@lru_cache(maxsize=1)
def corpus() -> tuple[Spec, ...]:
    """Every spec, family by family. Raises ValueError where two share a name, or inputs are named of no spec."""
    found = (*_of_catalogue(), *_of_unseen(), *_of_families())
    names = [spec.name for spec in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"specs of one name: {', '.join(sorted(twice))}")
    return found


def _of_catalogue() -> Iterator[Spec]:
    for op in catalogue():
        family = Path(op.source).stem
        yield Spec(op.name, f"catalogue/{family}", op, situations(CATALOGUE.get(op.name, CATALOGUE.get(family, ""))))


def _of_unseen() -> Iterator[Spec]:
    yield from _with_inputs("unseen", load_file(HERE.parent / "unseen" / "specs.py"), UNSEEN)


def _of_families() -> Iterator[Spec]:
    for path in sorted((HERE / "specs").glob("*.py")):
        module = importlib.import_module(f"tests.corpus.specs.{path.stem}")
        ops = [call.op for call in vars(module).values() if isinstance(call, OpCall)]
        yield from _with_inputs(path.stem, [op for op in ops if Path(op.source).name == path.name], module.HOSTILE)


def _with_inputs(family: str, ops: list[Op], hostile: Mapping[str, str]) -> Iterator[Spec]:
    unknown = hostile.keys() - {op.name for op in ops}
    if unknown:
        raise ValueError(f"inputs of no spec of {family}: {', '.join(sorted(unknown))}")
    for op in ops:
        yield Spec(op.name, family, op, situations(hostile.get(op.name, "")))
