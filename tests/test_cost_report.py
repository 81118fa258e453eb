"""The cost report counts what a statement moves and multiplies, and times the lines that are printed."""

import io

import pytest
import torch
from rich.console import Console

from derive import axes, eq, index, op, sum, tensor, where
from derive.catalogue import find
from derive.errors import DeriveError
from derive.pipeline import derivation_of, derive_op
from derive.show import cost_report as module
from derive.show.cost_report import cost_report, least_bytes
from derive.show.cost_tables import cost_tables, shown
from derive.show.rates import Rates, _products

n, k, d = axes("n k d")


@op
def added_to_some(f, x: tensor[n, d], z: tensor[n, k], to: index(d)[n, k]):
    f.y[n, d] = x[n, d] + sum(where(eq(to[n, k], d), z[n, k], 0), over=k)
    return f.y


SIZES = {"...": 8, "d": 16}


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measured", lambda threads: Rates(threads, {2**14: 1e9}, {64: 2e9}))


def test_a_line_is_counted_by_its_statement() -> None:
    report = cost_report(derive_op(find("layernorm")), SIZES, 1)
    lines = {p.code.partition(" = ")[0]: p for p in (*report.forward, *report.backward)}
    assert lines["mu"].bytes == 4 * (8 * 16 + 8)  # read x, write mu
    assert lines["y"].bytes == 4 * (2 * 8 * 16 + 2 * 16)  # read xhat, gamma and beta, write y
    assert lines["dx"].bytes == 4 * (3 * 8 * 16 + 3 * 8 + 16)  # read dy, xhat, gamma, three numbers a row, write dx
    assert lines["dx"].floor == lines["dx"].bytes / 1e9
    assert all(p.taken > 0 for p in lines.values())


def test_products_and_scatters_are_counted() -> None:
    d = derive_op(find("linear"))
    report = cost_report(d, {"...": 4, "i": 8, "o": 16}, 1)
    assert [p.multiply_adds for p in (*report.forward, *report.backward) if p.multiply_adds] == [512, 512, 512]
    d = derive_op(find("softmax_cross_entropy"))
    report = cost_report(d, {"n": 4, "c": 8}, 1)
    scattered = next(p for p in report.backward if "scatter" in p.code)
    assert scattered.bytes == 4 * 8 + 4 + 4 * 2 * 4  # four labels, dloss, and where they are added to what is there


def test_a_copy_and_what_is_added_to_it_are_counted() -> None:
    report = cost_report(derivation_of(added_to_some.op), {"n": 8, "k": 4, "d": 16}, 1)
    assert [(p.code.partition("(")[0], p.bytes) for p in report.forward if p.bytes] == [
        ("y = x.clone", 4 * 2 * 8 * 16),
        ("y.scatter_add_", 4 * (8 * 4 + 2 * 8 * 4) + 8 * 8 * 4),
    ]


def test_the_code_of_every_line_is_there_in_full() -> None:
    report = cost_report(derive_op(find("layernorm")), SIZES, 1)
    narrow, file = (Console(file=io.StringIO(), width=80, force_terminal=t, color_system=None) for t in (True, False))
    for console in (narrow, file):
        shown(report, console)
    wrapped, whole = (c.file.getvalue() for c in (narrow, file))  # type: ignore[attr-defined]
    assert max(map(len, wrapped.splitlines())) <= 80 and "…" not in wrapped + whole
    for p in (*report.forward, *report.backward):
        assert f" {p.code} " in whole
    words = "".join(line.strip().split("  ")[0] for line in wrapped.splitlines())
    assert all("".join(p.code.split()) in "".join(words.split()) for p in report.backward)


def test_the_least_is_what_comes_in_and_goes_out() -> None:
    table, row, vector = 4 * 8 * 16, 4 * 8, 4 * 16
    forward = 2 * table + 2 * vector  # x, gamma, beta; y
    backward = 3 * table + row + 3 * vector  # dy, xhat, rstd, gamma; dx, dgamma, dbeta
    assert least_bytes(derive_op(find("layernorm")), SIZES) == forward + backward


@pytest.mark.parametrize("name", ["names_step", "conv2d", "groupnorm", "cross_entropy_ignore_index", "split_heads"])
def test_lengths_that_nobody_gave_fit_together(name: str) -> None:
    assert list(cost_tables(cost_report(derive_op(find(name)), {}, 1)))


def test_an_axis_that_is_not_there() -> None:
    with pytest.raises(DeriveError, match="there is no axis q; its axes are"):
        cost_report(derive_op(find("layernorm")), {"q": 3}, 1)


def test_a_product_is_timed_by_every_library_that_pytorch_brings() -> None:
    products = [way() for way in _products(8)]
    assert len(products) == 1 + torch.backends.mkldnn.is_available()
    for found in products:
        assert isinstance(found, torch.Tensor)
        dense = found.to_dense() if found.is_mkldnn else found
        assert torch.equal(dense, torch.full((8, 8), 8.0))
