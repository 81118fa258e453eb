"""Commands that ask whether a gradient is right: ours, or anyone's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from derive.catalogue import catalogue, find, load_file
from derive.cli.options import Backend, Device, Dtype, File, Save, Saving, Seed
from derive.errors import DeriveError
from derive.ir.equations import Op


def verify_ops(
    ops: Annotated[list[str] | None, typer.Argument(metavar="[OPS]...", help="Ops to verify.")] = None,
    file: File = None,
    everything: Annotated[bool, typer.Option("--all", help="Every op of the catalogue, or of the file.")] = False,
    full: Annotated[bool, typer.Option("--full", help="A table of all that each gradient was held against.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the error of finite differences against their step.")
    ] = None,
    native: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A forward to round beside: torch.nn.functional.NAME or FILE.py:NAME."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers there, for derive book --measured.")
    ] = None,
    seed: Seed = 0,
    save: Saving = Save.cost,
    backend: Annotated[
        Backend, typer.Option(help="What is verified: the code for PyTorch, or the kernels in C, compiled.")
    ] = Backend.torch,
    device: Device = "cpu",
    order: Annotated[int, typer.Option(help="2: second derivatives and tangents as well.", min=1, max=2)] = 1,
) -> None:
    """Hold derived gradients against autograd, finite differences, their stepwise form and lower precisions.

    Exit status 1 if any gradient is wrong.
    """
    known = catalogue() if file is None else load_file(file)
    if not ops and not everything and file is None:
        raise DeriveError("no op to verify", fix="name one, or give --all")
    if ops and everything:
        raise DeriveError("ops are named, and --all is given", fix="leave out one of the two")
    wanted = [find(name, known) for name in dict.fromkeys(ops)] if ops else known
    if (plot or native) and len(wanted) > 1:
        raise DeriveError(f"{'--plot' if plot else '--native'} is for one op", fix="name one op")
    if device != "cpu" and backend is Backend.cpu:
        raise DeriveError(f"the kernels are for the CPU, not for {device}", fix="leave out --device, or --backend cpu")
    if order > 1 and backend is Backend.cpu:
        raise DeriveError("further derivatives have no kernels", fix="leave out --order, or --backend cpu")
    from derive.cli import verdicts
    from derive.verify import record

    asked: dict[str, Any] = {"seed": seed, "save": save.value, "backend": backend.value, "device": device}
    asked["order"] = order
    said = record.command_line(ops or (), file, everything, native, **asked)
    right = verdicts.verify(wanted, **asked, full=full, plot=plot, native=native, json=json, said=said)
    if not right:
        raise typer.Exit(1)


def judge_candidate(
    candidate: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE.py:NAME]",
            help="backward(d_output, *inputs), a torch.autograd.Function, or FILE.py:namespace::op of torch.library.",
        ),
    ] = None,
    op: Annotated[str, typer.Option("--op", metavar="OP", help="The op whose backward it claims to be.")] = "",
    file: File = None,
    formula: Annotated[
        str | None, typer.Option(metavar="TEXT", help='A formula in place of a function: "dx[..., d] = …".')
    ] = None,
    forward: Annotated[
        str, typer.Option(metavar="FILE.py:NAME", help="Without an op: the forward in PyTorch whose gradient it is.")
    ] = "",
    inputs: Annotated[
        str, typer.Option(metavar="TEXT", help='Without an op: what it takes, as "x: [..., d], w: [d], eps: 1e-5".')
    ] = "",
    dtype: Annotated[
        Dtype, typer.Option(help="What it is judged in; auto: the widest it accepts, or computes in, and those below.")
    ] = Dtype.auto,
    strict: Annotated[bool, typer.Option("--strict", help="Findings of precision make the exit status 1.")] = False,
    order: Annotated[
        int, typer.Option(help="2: double_backward(ddx, …, *inputs, dy, …), or a class for it.", min=1, max=2)
    ] = 1,
    jvp: Annotated[
        bool, typer.Option("--jvp", help="A function jvp(tx, …, *inputs), or a class that has one.")
    ] = False,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Hold a backward that someone else wrote against the derived one, or without --op and --from against its forward.

    Exit status 0 if it is right, 1 if it is wrong, or right only somewhere, 2 if it could not be run.
    """
    if (candidate is None) == (formula is None):
        raise DeriveError("nothing to judge, or two things", fix="give FILE.py:NAME or --formula TEXT")
    if formula is not None and device != "cpu":
        raise DeriveError("a formula is judged on the CPU", fix="leave out --device")
    if formula is not None and dtype is not Dtype.auto:
        raise DeriveError("a formula has no dtype", fix="leave out --dtype")
    by = None if not op and file is None else _op_of(op, file)
    further = "--jvp" if jvp else "--order 2" if order > 1 else ""
    if further and (by is None or formula is not None or (jvp and order > 1)):
        fix = "give FILE.py:NAME and --op OP, and one of the two"
        raise DeriveError(f"{further} is for a function beside an op", fix=fix)
    if by is None and candidate is None:
        raise DeriveError("no op to judge a formula by", fix="name it with --op OP")
    if by is not None and (forward or inputs):
        said = "--forward" if forward else "--inputs"
        raise DeriveError(f"{said} is for what no op is named for", fix=f"leave out {said}, or --op and --from")
    from derive.cli import verdicts

    if by is None:
        assert candidate is not None
        right = verdicts.judge_by_forward(candidate, forward, inputs, dtype, strict, seed, device)
    else:
        right = verdicts.judge(by, candidate, formula, dtype, strict, seed, device, order, jvp)
    if not right:
        raise typer.Exit(1)


def _op_of(name: str, file: Path | None) -> Op:
    """The op of that name, in the catalogue or the file, whose only op needs no name."""
    known = None if file is None else load_file(file)
    if name:
        return find(name, known)
    if known is None or len(known) > 1:
        raise DeriveError("no op to judge by", fix="name it with --op OP")
    return known[0]
