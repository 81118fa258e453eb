"""The cost report counts what a statement moves and multiplies, and times the lines that are printed."""

import pytest
import torch

from derive.catalogue import find
from derive.errors import DeriveError
from derive.pipeline import derive_op
from derive.reports import cost_report as module
from derive.reports.cost_report import cost_report, cost_tables, least_bytes
from derive.reports.rates import Rates, _products

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
    assert scattered.bytes > 4 * 4 * 8


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
