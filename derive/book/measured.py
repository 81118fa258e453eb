"""What runs have measured of the ops: read from files, never made up. Without a file nothing is shown as measured.

A file is one JSON object, as a run of the checks or of the benchmarks may write it beside its report:

    {"handgrad": "measured/1",
     "command": "the command that made it",
     "machine": "where it ran, in words",
     "errors": {"an op": [{"of": "dx", "dtype": "float64", "relative": 1.1e-16, "against": "autograd"}]},
     "ratios": {"an op": [{"of": "forward + backward", "ratio": 1.9, "against": "autograd", "size": "n=4096, d=1024"}]}}

`errors` and `ratios` may each be left out. A ratio is the other's time over ours: above 1, ours is faster. The file
that `make bench` writes is read as well: an object with `about` and `rows`, each row the seconds of one op at one size
by way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.errors import DeriveError

FORMAT = "measured/1"
_OURS = "generated"
"""How the ways begin that run what was generated; all others are compared with the first of them."""


@dataclass(frozen=True)
class Measurement:
    """One number: what it is of, in which type or size, what it was compared with, and the run it is from."""

    of: str
    setting: str
    value: float
    against: str
    command: str
    machine: str


@dataclass(frozen=True)
class Measured:
    """The numbers of one op."""

    errors: tuple[Measurement, ...] = ()
    ratios: tuple[Measurement, ...] = ()

    @property
    def runs(self) -> tuple[tuple[str, str], ...]:
        """The command and the machine of each run that the numbers come from."""
        return tuple(dict.fromkeys((m.command, m.machine) for m in (*self.errors, *self.ratios)))


def read_measured(files: Iterable[Path]) -> dict[str, Measured]:
    """The numbers of each op in the files; a later file adds to an earlier one.

    Raises DeriveError, with the file, for what cannot be read or has another form.
    """
    out: dict[str, Measured] = {}
    for file in files:
        for name, found in _one(file).items():
            old = out.get(name, Measured())
            out[name] = Measured(old.errors + found.errors, old.ratios + found.ratios)
    return out


def _one(file: Path) -> dict[str, Measured]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeriveError(f"cannot read {file}: {error.strerror}", fix="name a file of measurements") from None
    except ValueError:
        raise DeriveError(f"{file} is not JSON", fix="make it again with the command that wrote it") from None
    is_bench = isinstance(data, dict) and {"about", "rows"} <= set(data)
    if not is_bench and (not isinstance(data, dict) or data.get("handgrad") != FORMAT):
        raise DeriveError(f"{file} holds no measurements", fix=f'a file of them says "handgrad": "{FORMAT}"')
    try:
        if is_bench:
            return _bench(data)
        command, machine = str(data["command"]), str(data["machine"])
        errors = {n: tuple(_error(row, command, machine) for row in rows) for n, rows in data.get("errors", {}).items()}
        ratios = {n: tuple(_ratio(row, command, machine) for row in rows) for n, rows in data.get("ratios", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DeriveError(f"{file} holds a measurement without {error}", fix="make it again") from None
    return {n: Measured(errors.get(n, ()), ratios.get(n, ())) for n in dict.fromkeys([*errors, *ratios])}


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
    return Measurement(str(row["of"]), str(row["dtype"]), value, str(row["against"]), command, machine)


def _ratio(row: dict[str, Any], command: str, machine: str) -> Measurement:
    value = _number(row["ratio"])
    return Measurement(str(row["of"]), str(row.get("size", "")), value, str(row["against"]), command, machine)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number
