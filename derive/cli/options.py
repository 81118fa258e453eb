"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperOption
from typer.main import get_command

from derive.errors import DeriveError


class Save(StrEnum):
    """What the forward keeps for the backward."""

    cost = "cost"
    least = "least"
    input = "input"
    output = "output"
    fused = "fused"


class Instructions(StrEnum):
    """Which of PyTorch's calls: formulas; also one line of a derivation; also several."""

    plain = "plain"
    line = "line"
    all = "all"


class Backend(StrEnum):
    """What runs: PyTorch, or C kernels for the CPU with PyTorch to fall back on."""

    torch = "torch"
    cpu = "cpu"


class Dtype(StrEnum):
    """What a candidate is judged in; auto: the widest that it accepts, or what it computes in there."""

    auto = "auto"
    float64 = "float64"
    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


File = Annotated[Path | None, typer.Option("--from", metavar="FILE", help="A file of specs instead of the catalogue.")]
Seed = Annotated[int, typer.Option(help="Where all random numbers start from.", min=0, max=2**32 - 1)]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Where it runs, such as cuda; what is right is computed on the CPU.")
]
_KEEPING = "What the forward keeps: the cheapest, the least, its inputs or outputs, or what suits torch.compile."
Saving = Annotated[Save, typer.Option(help=_KEEPING)]


def check_options(app: typer.Typer, arguments: Sequence[str]) -> None:
    """No option is given nothing, and none that takes one value two, of which only the last would count.

    An empty path would be the folder one is in. Raises DeriveError.
    """
    commands = getattr(get_command(app), "commands", {})
    command = commands.get(arguments[0]) if arguments else None
    given = [argument.partition("=") for argument in arguments]
    for option in (p for p in getattr(command, "params", ()) if isinstance(p, TyperOption) and not p.is_flag):
        places = [k for k, (name, _, _) in enumerate(given) if name in option.opts]
        values = [given[k][2] if given[k][1] else "".join(arguments[k + 1 : k + 2]) for k in places]
        if not all(values):
            fix = "give it a value; where it is a path, this folder is ."
            raise DeriveError(f"{option.opts[0]} is given nothing", fix=fix)
        if len(values) > 1 and not option.multiple:
            raise DeriveError(f"{option.opts[0]} is given twice", fix="give it once")
