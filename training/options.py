"""The options that every training command has, under one wording."""

from pathlib import Path
from typing import Annotated

from typer import Option

Out = Annotated[Path, Option(help="Folder for the checkpoint, the metrics and the figures.")]
Every = Annotated[int, Option(help="Steps between two checkpoints.")]
Resume = Annotated[bool, Option("--resume", help="Go on from the checkpoint in --out, bit for bit.")]
Tensorboard = Annotated[bool, Option("--tensorboard", help="Write for TensorBoard too, if installed.")]
Figures = Annotated[bool, Option(help="Draw figures at the end.")]
Threads = Annotated[int, Option(help="PyTorch's threads; small batches want 1.")]
NamesFile = Annotated[
    Path | None,
    Option(help="One name a line, a-z.", show_default="NAMES_FILE, else a download, else a built-in list"),
]
