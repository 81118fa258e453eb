"""`torch.arange(n, …)` under a name, `n_range`, where it is written more than once; of real numbers, `n_numbers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from derive.backends.values import Line

_RANGE = re.compile(r"torch\.arange\((\w+), device=[\w.]+(, dtype=[\w.]+)?\)")


def ranges_named(lines: Sequence[Line], unused: Callable[[str], str]) -> list[Line]:
    """The lines with each such range made once, in front of its first use; `unused` makes a name that nothing has."""
    out = list(lines)
    counts: dict[tuple[str, str], int] = {}
    for line in out:
        for found in _RANGE.finditer(line.code):
            named = found[0], f"{found[1]}_{'numbers' if found[2] else 'range'}"
            counts[named] = counts.get(named, 0) + 1
    for (code, wanted), count in counts.items():
        if count < 2:
            continue
        name = unused(wanted)
        first = next(k for k, line in enumerate(out) if code in line.code)
        while out[first].code.startswith(" "):  # inside a loop
            first -= 1
        out = [replace(line, code=line.code.replace(code, name)) for line in out]
        out.insert(first, Line(f"{name} = {code}"))
    return out
