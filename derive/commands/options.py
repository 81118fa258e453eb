"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Save(StrEnum):
    """What the forward keeps for the backward."""

    cost = "cost"
    least = "least"
    input = "input"
    output = "output"
    fused = "fused"


class Backend(StrEnum):
    """What runs: PyTorch, or C kernels for the CPU with PyTorch to fall back on."""

    torch = "torch"
    cpu = "cpu"


File = Annotated[Path | None, typer.Option("--from", metavar="FILE", help="A file of specs instead of the catalogue.")]
Device = Annotated[
    str, typer.Option(metavar="NAME", help="Where it runs, such as cuda; what is right is computed on the CPU.")
]
_KEEPING = "What the forward keeps: the cheapest, the least, its inputs or outputs, or what suits torch.compile."
Saving = Annotated[Save, typer.Option(help=_KEEPING)]
