"""The benchmarks compute what they claim to time; nothing here looks at a duration."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
import typer

pytest.importorskip("matplotlib")

from benchmarks import block, names, second_order
from benchmarks.__main__ import main
from benchmarks.clock import Times, by_turns
from benchmarks.kernels import NativePackage, native_package
from benchmarks.measure import measure
from benchmarks.memory import distinct_bytes, peak_bytes, saved_by_tape
from benchmarks.rows import SIZES, composite, lengths_of, operations, row
from benchmarks.ways import AUTOGRAD, agree, forms, ways
from derive import *
from derive.catalogue import catalogue, find

a, b = axes("a b")


@op
def gap(f, u: tensor[..., a, b], v: tensor[b]):
    """A distance."""
    f.y[..., a] = sum(abs(u[..., a, b] - v[b]), over=b)
    return f.y


COMPOSITE = [o for o in catalogue() if composite(o)]
QUICK = {"layernorm", "batchnorm", "softmax_cross_entropy", "names_step"}


@pytest.mark.parametrize(
    "op", [pytest.param(o, id=o.name, marks=() if o.name in QUICK else pytest.mark.slow) for o in COMPOSITE]
)
def test_every_way_agrees_and_no_more_is_saved_than_by_autograd(op) -> None:
    small = row(op, "small")
    agree({name: way() for name, way in ways(small, compiled=False).items()})
    own = forms(op)
    leaves = [a.clone().requires_grad_(w) for a, w in zip(small.args, small.wanted, strict=True)]
    *_, saved = own.live.forward(*small.args, **small.numbers)
    assert distinct_bytes(saved) <= saved_by_tape(own.primitives, leaves, **small.numbers)


def test_a_way_that_computes_something_else_is_named() -> None:
    one, two = (torch.ones(3),), (2 * torch.ones(3),)
    with pytest.raises(ValueError, match=r"^native op: output or gradient 1 differs by 1\.0e"):
        agree({AUTOGRAD: (one, one), "native op": (one, two)})


def test_where_autograd_gives_no_number_nothing_is_compared() -> None:
    """As at a distance of 0, whose gradient is one; infinities have to be the same."""
    nan, inf = math.nan, math.inf
    want, right = torch.tensor([nan, inf, 1.0]), torch.tensor([0.0, inf, 1.0])
    agree({AUTOGRAD: ((want,), ()), "generated": ((right,), ())})
    for wrong in ([0.0, inf, 2.0], [0.0, 5.0, 1.0], [0.0, inf, nan]):
        with pytest.raises(ValueError, match=r"^generated: output or gradient 0 differs by"):
            agree({AUTOGRAD: ((want,), ()), "generated": ((torch.tensor(wrong),), ())})


def test_every_way_of_the_names_step_takes_the_same_step() -> None:
    with native_package([find(names.OP)]) as native:
        found = names.step_ways(32, compiled=False, native=native)
        assert {"native", "native out=", "native, one call"} <= set(found)
        for _ in range(3):
            agree({name: way() for name, way in found.items()})


def test_every_way_of_the_gpt_block_agrees_and_no_more_is_saved_than_by_autograd() -> None:
    with native_package([find(name) for name in block.OPS]) as native:
        whole = block.whole("small", compiled=False, native=native)
        found = {name: way() for name, way in whole.ways.items()}
    assert {AUTOGRAD, "native op", "generated", "native"} <= set(found)
    assert {len(gradients) for _, gradients in found.values()} == {17}  # of the input and of all parameters
    agree(found)
    assert max(whole.saved["generated"], whole.saved["native"]) <= whole.saved[AUTOGRAD]


@pytest.mark.parametrize("name", ["softmax_cross_entropy", "mse", "layernorm"])
def test_the_native_ways_agree_and_write_where_they_wrote_before(name: str) -> None:
    small = row(find(name), "small")
    with native_package([small.op]) as native:
        found = {k: w for k, w in ways(small, compiled=False, native=native).items() if k == AUTOGRAD or "native" in k}
        assert ("native, one call" in found) is (name != "layernorm")
        agree({k: way() for k, way in found.items()})
        for k in {"native out=", "native, one call"} & set(found):
            (_, first), (_, again) = found[k](), found[k]()
            assert [g.data_ptr() for g in first] == [g.data_ptr() for g in again]


def test_composite_is_more_than_one_operation() -> None:
    counts = {name: operations(find(name)) for name in ("exp", "matmul", "linear", "embedding", "silu", "softmax")}
    assert counts == {"exp": 1, "matmul": 1, "linear": 2, "embedding": 1, "silu": 2, "softmax": 5}


def test_an_op_that_nobody_described_has_sizes() -> None:
    assert [lengths_of(gap.op, s) for s in SIZES] == [
        {"...": (64,), "a": 8, "b": 8}, {"...": (512,), "a": 32, "b": 32}, {"...": (4096,), "a": 64, "b": 64}
    ]  # fmt: skip


def test_ways_are_timed_in_turn_the_same_number_of_times() -> None:
    order: list[str] = []
    times = by_turns({k: lambda k=k: order.append(k) for k in "ab"}, seconds=0, fewest=3)
    assert [len(t.rounds) for t in times.values()] == [3, 3]
    assert Times((1.0, 2.0, 4.0)).over(Times((2.0, 2.0, 16.0))) == 2.0


def test_bytes() -> None:
    x = torch.zeros(100)
    assert distinct_bytes([x, x[:50], 3]) == 400
    assert peak_bytes(lambda: torch.zeros(1000).sum()) >= 4000
    assert saved_by_tape(torch.exp, [torch.zeros(10, requires_grad=True)]) == 40


def test_the_command_writes_a_table_a_file_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["silu"], size=["small"], quick=True, threads=1, out=tmp_path)
    assert "silu" in capsys.readouterr().out
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    (only,) = written["rows"]
    assert (only["op"], only["size"], only["shapes"]) == ("silu", "small", "64 x 64")
    assert set(only["seconds"]) >= {AUTOGRAD, "native op", "generated"}
    assert only["floor"] > 0 and only["saved bytes"]["generated"] == 64 * 64 * 4
    assert {"native", "native out="} <= set(only["seconds"]) and only["saved bytes"]["native"] == 64 * 64 * 4
    page = (tmp_path / "benchmarks.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| silu |"))
    head = next(line for line in page.splitlines() if line.startswith("| op |"))
    assert line.count("|") == head.count("|") and "| 64 x 64 |" in line
    assert "<svg" in (tmp_path / "benchmarks.svg").read_text()


def test_what_does_not_exist_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        main(["silu"], size=["huge"], out=tmp_path)
    assert capsys.readouterr().err == "benchmarks: there is no size huge; choose from small, medium, large\n"
    with pytest.raises(typer.Exit):
        main(["silo"], out=tmp_path)
    assert "did you mean silu?" in capsys.readouterr().err


m, p, r, s = axes("m p r s")
two = axes("two=2")


@op
def merged_window(f, u: tensor[m, p], v: tensor[r], z: tensor[m, s].positive):
    """A merge, a window, and what must be above 0: lengths and values that nobody gives."""
    f.apart[m, two, s] = u[m, (two, s)]
    f.y[m, s] = sum(v[r] * f.apart[m, 0, s], over=r) * log(z[m, s]) + f.apart[m, 1, s]
    f.seen[m, a] = sum(u[m, a + r] * v[r], over=r)
    return f.y, f.seen


def test_lengths_fit_together_and_values_are_of_the_domain() -> None:
    for size in SIZES:
        found = row(merged_window.op, size)
        assert found.lengths["p"] == 2 * found.lengths["s"] and found.lengths["r"] < found.lengths["p"]
        agree({name: way() for name, way in ways(found, compiled=False).items()})
    assert lengths_of(merged_window.op, "small", {"s": 5, "elsewhere": 3})["p"] == 10
    assert lengths_of(find("rotary"), "small", {"d": 64}) == {"...": (2, 2), "t": 16, "d": 64, "h": 32}


def test_lengths_are_given_and_one_that_nobody_has_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["silu"], size=["small"], length=["...=12"], quick=True, threads=1, out=tmp_path)
    (only,) = json.loads((tmp_path / "benchmarks.json").read_text())["rows"]
    assert only["shapes"] == "12"
    with pytest.raises(typer.Exit):
        main(["silu"], length=["zz=12"], out=tmp_path)
    assert "--length zz=12 is no length of an axis; write it as n=4096; the axes are ..." in capsys.readouterr().err


def test_a_row_that_fails_is_named_and_the_others_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(row, *rest):
        if row.op.name == "silu":
            raise ValueError("native op: 3 outputs and gradients, expected 2")
        return measure(row, *rest)

    monkeypatch.setattr("benchmarks.__main__.measure", measured)
    with pytest.raises(typer.Exit) as stopped:
        main(["silu", "swiglu"], size=["small"], quick=True, threads=1, out=tmp_path)
    assert stopped.value.exit_code == 1
    assert "benchmarks: silu, small: native op: 3 outputs and gradients, expected 2\n" in capsys.readouterr().err
    assert [r["op"] for r in json.loads((tmp_path / "benchmarks.json").read_text())["rows"]] == ["swiglu"]


@pytest.mark.slow
def test_every_way_of_a_step_made_of_derivatives_computes_the_same() -> None:
    for step in (second_order.penalty_row(7, NativePackage()), second_order.residual_row(9)):
        agree({name: way() for name, way in step.ways.items()}, tolerance=1e-3)
        assert step.saved["one spec"] <= min(step.saved.values())
