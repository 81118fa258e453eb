"""What runs have measured of the ops: read from files, never made up. Without a file nothing is shown as measured.

A file is one JSON object. `derive verify --json FILE` writes it, and so may any other run:

    {"handgrad": "measured/1",
     "command": "the command that made it",
     "machine": "where it ran, in words",
     "verified": {"an op": {"situations": 28, "wrong in": 0, "wrong": []}},
     "errors": {"an op": [{"of": "dx", "dtype": "float64", "relative": 1.1e-16, "against": "autograd"}]},
     "ratios": {"an op": [{"of": "forward + backward", "ratio": 1.9, "against": "autograd", "size": "n=4096, d=1024"}]}}

`verified`, `errors` and `ratios` may each be left out. `verified` counts the situations in which an op was tried and
those in which something was wrong, and says what. An error is relative to the largest element; it may say what
another made of the same: `"theirs": 1.3e-7, "they": "autograd"`. A ratio is the other's time over ours: above 1, ours
is faster. The file that `make bench` writes is read as well: an object with `about` and `rows`, each row the seconds
of one op at one size by way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.emit.files import put
from derive.errors import DeriveError

FORMAT = "measured/1"
_OURS = "generated"
"""How the ways begin that run what was generated; all others are compared with the first of them."""


@dataclass(frozen=True)
class Measurement:
    """One number: what it is of, in which type or size, what it was compared with, and the run it is from.

    `theirs` is the same number of another, named by `they`, where the run has it.
    """

    of: str
    setting: str
    value: float
    against: str
    command: str
    machine: str
    theirs: float | None = None
    they: str = ""


@dataclass(frozen=True)
class Verdict:
    """In how many situations a run has tried an op, in how many of them something was wrong, and what."""

    situations: int
    wrong_in: int
    wrong: tuple[str, ...]
    command: str
    machine: str

    @property
    def right(self) -> bool:
        return not self.wrong and not self.wrong_in


@dataclass(frozen=True)
class Measured:
    """The numbers of one op."""

    errors: tuple[Measurement, ...] = ()
    ratios: tuple[Measurement, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def runs(self) -> tuple[tuple[str, str], ...]:
        """The command and the machine of each run that the numbers come from."""
        of_verdicts = [(v.command, v.machine) for v in self.verdicts]
        return tuple(dict.fromkeys(of_verdicts + [(m.command, m.machine) for m in (*self.errors, *self.ratios)]))

    def __add__(self, other: Measured) -> Measured:
        return Measured(self.errors + other.errors, self.ratios + other.ratios, self.verdicts + other.verdicts)


def read_measured(files: Iterable[Path]) -> dict[str, Measured]:
    """The numbers of each op in the files; a later file adds to an earlier one.

    Raises DeriveError, with the file, for what cannot be read or has another form.
    """
    out: dict[str, Measured] = {}
    for file in files:
        for name, found in _one(file).items():
            out[name] = out.get(name, Measured()) + found
    return out


def check_target(file: Path) -> None:
    """That measurements can be written there. Raises DeriveError for a folder, and for another's file."""
    if file.is_dir():
        raise DeriveError(f"{file} is a folder", fix="name a file in it, such as verify.json")
    if file.exists():
        try:
            _load(file)
        except DeriveError:
            fix = "delete it, or name another file"
            raise DeriveError(f"{file} holds something else than measurements", fix=fix) from None


def write_measured(data: Mapping[str, Any], file: Path) -> None:
    """Write a run's measurements, in the form above, in place of an older run's. The file is whole at any time.

    Raises DeriveError as `check_target` does, and where the file cannot be written.
    """
    check_target(file)
    try:
        put(file, json.dumps(data, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise DeriveError(f"cannot write {file}: {error.strerror}", fix="name a file that can be written") from None


def _load(file: Path) -> dict[str, Any]:
    """The object in the file, of one of the two forms."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeriveError(f"cannot read {file}: {error.strerror}", fix="name a file of measurements") from None
    except ValueError:
        raise DeriveError(f"{file} is not JSON", fix="make it again with the command that wrote it") from None
    if not isinstance(data, dict) or not (_is_bench(data) or data.get("handgrad") == FORMAT):
        raise DeriveError(f"{file} holds no measurements", fix=f'a file of them says "handgrad": "{FORMAT}"')
    return data


def _is_bench(data: dict[str, Any]) -> bool:
    return {"about", "rows"} <= set(data)


def _one(file: Path) -> dict[str, Measured]:
    data = _load(file)
    try:
        if _is_bench(data):
            return _bench(data)
        run = str(data["command"]), str(data["machine"])
        errors = {n: tuple(_error(row, *run) for row in rows) for n, rows in data.get("errors", {}).items()}
        ratios = {n: tuple(_ratio(row, *run) for row in rows) for n, rows in data.get("ratios", {}).items()}
        verdicts = {n: (_verdict(row, *run),) for n, row in data.get("verified", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DeriveError(f"{file} holds a measurement without {error}", fix="make it again") from None
    names = dict.fromkeys([*verdicts, *errors, *ratios])
    return {n: Measured(errors.get(n, ()), ratios.get(n, ()), verdicts.get(n, ())) for n in names}


def _bench(data: dict[str, Any]) -> dict[str, Measured]:
    """What `make bench` measured: what is generated against every other way, at each size."""
    machine = ", ".join(f"{name} {value}" for name, value in data["about"].items())
    found: dict[str, list[Measurement]] = {}
    for row in data["rows"]:
        seconds = {way: _number(times["median"]) for way, times in row["seconds"].items()}
        for way, theirs in seconds.items():
            if not way.startswith(_OURS):
                value = theirs / seconds[_OURS]
                new = Measurement("forward + backward", str(row["shapes"]), value, way, "make bench", machine)
                found.setdefault(str(row["op"]), []).append(new)
    return {op: Measured(ratios=tuple(rows)) for op, rows in found.items()}


def _error(row: dict[str, Any], command: str, machine: str) -> Measurement:
    value = _number(row["relative"])
    theirs = _number(row["theirs"]) if "theirs" in row else None
    they = "" if theirs is None else str(row.get("they", "another"))
    return Measurement(str(row["of"]), str(row["dtype"]), value, str(row["against"]), command, machine, theirs, they)


def _ratio(row: dict[str, Any], command: str, machine: str) -> Measurement:
    value = _number(row["ratio"])
    return Measurement(str(row["of"]), str(row.get("size", "")), value, str(row["against"]), command, machine)


def _verdict(row: dict[str, Any], command: str, machine: str) -> Verdict:
    return Verdict(int(row["situations"]), int(row["wrong in"]), tuple(map(str, row["wrong"])), command, machine)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number
