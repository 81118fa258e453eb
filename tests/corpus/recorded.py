"""What was recorded of every spec, and what is measured now, by several processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import torch

from derive.errors import DeriveError
from tests.corpus import HERE, Spec, corpus
from tests.corpus.measured import Entry, as_text, from_text, measured

ROOT = HERE.parents[1]
RECORD = HERE / "record"
MEASURED = ROOT / "runs" / "corpus"


# --- what was recorded ------------------------------------------------------------------------------------


def path_of(family: str, name: str) -> Path:
    """The file that holds an entry."""
    return RECORD / family / f"{name}.json"


def recorded(spec: Spec) -> Entry | None:
    """The entry that is committed, or None."""
    path = path_of(spec.family, spec.name)
    return from_text(path.read_text(encoding="utf-8")) if path.exists() else None


def write(path: Path, content: str) -> bool:
    """Bring a file up to date and say whether it differed."""
    if path.exists() and path.read_text(encoding="utf-8") == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")
    return True


# --- measuring --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failed:
    """A spec that is not derived, and why."""

    name: str
    message: str


def entries(specs: list[Spec], jobs: int, again: bool) -> Iterator[Entry | Failed]:
    """The entry of each spec, those that stand in `runs/corpus/` first."""
    keys = {s.name: _key(s) for s in specs}
    left = []
    for spec in specs:
        entry = None if again else _kept(spec.name, keys[spec.name])
        if entry is None:
            left.append(spec.name)
        else:
            yield entry
    for entry in _fresh(left, jobs):
        if isinstance(entry, Entry):
            kept = json.dumps({"key": keys[entry.name], "entry": as_text(entry)})
            write(MEASURED / f"{entry.name}.json", kept)
        yield entry


def _fresh(names: list[str], jobs: int) -> Iterator[Entry | Failed]:
    if jobs < 2 or len(names) < 2:
        yield from map(_entry, names)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_entry, name) for name in names]):
            yield done.result()


def _entry(name: str) -> Entry | Failed:
    torch.set_num_threads(1)
    try:
        return measured(next(s for s in corpus() if s.name == name))
    except DeriveError as error:
        return Failed(name, str(error))


def _kept(name: str, key: str) -> Entry | None:
    path = MEASURED / f"{name}.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    return from_text(data["entry"]) if data["key"] == key else None


def _key(spec: Spec) -> str:
    """What an entry depends on: the file of its spec, its inputs, and all that derives, emits and measures."""
    file = HERE.parent / "unseen" / "specs.py" if spec.family == "unseen" else HERE / "specs" / f"{spec.family}.py"
    source = _digest((file,)) if file.exists() else ""  # the catalogue is part of derive/
    said = [spec.name, source, [s.name for s in spec.hostile], tools(), torch.__version__]
    return hashlib.sha256(repr(said).encode()).hexdigest()


@lru_cache(maxsize=1)
def tools() -> str:
    return _digest(
        [
            *(ROOT / "derive").rglob("*.py"),
            *(ROOT / "templates").rglob("*.*"),
            *(HERE / f"{name}.py" for name in ("hostile", "measured")),
        ]
    )


def _digest(files: Iterable[Path]) -> str:
    parts = (f"{f.relative_to(ROOT)} {hashlib.sha256(f.read_bytes()).hexdigest()}" for f in sorted(files))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
