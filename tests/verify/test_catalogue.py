"""`derive verify --all`: every op of the catalogue, every gradient, every situation."""

from dataclasses import replace

import pytest
import torch

from derive.catalogue import catalogue, find
from derive.output.live import build
from derive.verify import verify as module
from derive.verify.verify import verify


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in catalogue()])
def test_every_gradient_is_right(op) -> None:
    found = verify(op)
    assert found.right, [str(d) for d in found.wrong] + [(r.line, [str(d) for d in r.wrong]) for r in found.rows]
    assert len(found.rows) == len(op.differentiable)


def test_a_wrong_gradient_is_told_by_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    live = build(find("tanh"), workspace=True)
    off = replace(live, backward=lambda dy, y: dy * (1 - y))
    monkeypatch.setattr(module, "live_of", lambda op, save, workspace: off)
    found = verify(find("tanh"))
    (row,) = found.rows
    assert not found.right and not row.close and row.wrong
    assert min(row.autograd, row.differences.error, row.stepwise, row.float32.ours, row.bfloat16.ours) > 1e-3
    assert max(row.float32.theirs, row.bfloat16.theirs) < 0.1


def test_a_backward_that_holds_only_in_float64_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    live = build(find("tanh"), workspace=True)

    def coarse(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        exact = live.backward(dy, y)
        return exact if dy.dtype == torch.float64 else exact * 1.001

    monkeypatch.setattr(module, "live_of", lambda op, save, workspace: replace(live, backward=coarse))
    found = verify(find("tanh"))
    assert {d.case.situation for d in found.rows[0].wrong} == {"float32"}
    assert not found.right
