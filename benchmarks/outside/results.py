"""What was found so far, kept in a file so that a run goes on where the last one ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import derive
from benchmarks.outside.problem import HERE, Problem

PARTS = ("right", "counts", "time")

Found = dict[str, Any]
"""What one part found of one problem: its data, or `error`, and `of`, what it was found of."""


@dataclass
class Results:
    """Found by suite, number and part. The file is written anew after every part."""

    path: Path
    found: dict[str, dict[str, dict[str, Found]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """What a file holds; nothing where there is none."""
        return cls(path, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})

    def of(self, suite: str, number: int) -> Mapping[str, Found]:
        """What was found of a problem, by part."""
        return self.found.get(suite, {}).get(str(number), {})

    def put(self, suite: str, number: int, part: str, found: Found) -> None:
        """Keep what a part found, and write the file."""
        self.found.setdefault(suite, {}).setdefault(str(number), {})[part] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        aside.replace(self.path)


def digest(suite: str, problem: Problem, engine: str) -> str:
    """What a result rests on: the problem as it is written, and the engine."""
    told = (problem.title, problem.op, dict(problem.lengths), problem.by_hand, problem.odd, problem.long)
    forward = _told(getattr(problem.forward, "__code__", problem.forward))
    return hashlib.sha256(f"{suite} {told} {forward} {engine}".encode()).hexdigest()[:16]


def _told(code: Any) -> object:
    """Code as what is the same in every process: not where it lies in memory."""
    if isinstance(code, CodeType):
        return code.co_code, code.co_names, [_told(c) for c in code.co_consts]
    return getattr(code, "__qualname__", code)


def engine_digest() -> str:
    """The files that derive, emit, try and time."""
    root = Path(derive.__file__).parent
    files = [*sorted(root.rglob("*.py")), *sorted((root.parent / "templates").rglob("*.j2"))]
    files += [HERE / "trial.py", HERE / "timing.py"]
    told = hashlib.sha256()
    for file in files:
        told.update(file.read_bytes())
    return told.hexdigest()
