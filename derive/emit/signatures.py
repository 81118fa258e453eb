"""The parameters of an op's functions, as Python writes them."""

from __future__ import annotations

import math

from derive.ir.equations import Op


def signature(op: Op, *required: str) -> str:
    """The parameters of an op's functions; `required` ones come before those with defaults."""
    parts = []
    for o in op.operands:
        if not o.is_tensor:
            kind = "int" if o.kind == "length" else "float"
            parts.append(f"{o.name}: {kind}" + (f" = {_default(o.default)}" if o.has_default else ""))
        else:
            parts.append(f"{o.name}: Tensor")
    first = next((k for k, o in enumerate(op.operands) if o.has_default), len(parts))
    return ", ".join([*parts[:first], *required, *parts[first:]])


def _default(value: object) -> str:
    """A default as Python has it."""
    infinite = isinstance(value, float) and math.isinf(value)
    return f"{'-' if value < 0 else ''}math.inf" if infinite else repr(value)  # type: ignore[operator]
