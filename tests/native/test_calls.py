"""How tensors reach a kernel: at once through DLPack where PyTorch offers it, else pointer by pointer."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.native.conftest import Package


@pytest.fixture(params=["at once", "by pointers"])
def native(request: pytest.FixtureRequest, package: Package, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = package("layernorm", "embedding", workspace=True)
    runtime = importlib.import_module(f"{made.__name__}._native")
    assert runtime._hand() is not None, "this PyTorch has the interface"
    if request.param == "by pointers":
        monkeypatch.setattr(runtime, "_hand", lambda: None)
    return made


def _inputs(rows: int = 6, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows, 5, dtype=dtype), torch.randn(5, dtype=dtype), torch.randn(5, dtype=dtype)


def _right(made: ModuleType, *given: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, _ = made.layernorm_forward(*given)
    want = torch.nn.functional.layer_norm(given[0], (5,), given[1], given[2])
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_calls_may_change_in_every_way_from_one_to_the_next(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    _right(native, x, gamma, beta)
    _right(native, *_inputs(rows=7))
    _right(native, *_inputs(dtype=torch.float64))
    _right(native, x, torch.nn.Parameter(gamma), beta)
    _right(native, x.expand(4, 6, 5), gamma, beta)
    _right(native, torch.randn(5, 6).t(), gamma, beta)
    _right(native, x[::2], gamma[:1].expand(5), beta)
    _right(native, torch.randn(1, 5, 1).transpose(1, 2), gamma, beta)
    _right(native, x, gamma, beta)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_memory_that_fits_is_written_into(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    y, _ = results = native.layernorm_forward(x, gamma, beta)
    for given in (x, x + 1, x):
        again, _ = native.layernorm_forward_out(given, gamma, beta, out=results)
        assert again is y
        torch.testing.assert_close(y, torch.nn.functional.layer_norm(given, (5,), gamma, beta), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_memory_that_does_not_fit_is_left_to_the_torch_form(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    y, saved = native.layernorm_forward(x, gamma, beta)
    for other in (torch.full((6, 5), torch.nan, dtype=torch.float64), torch.full((5, 6), torch.nan).t()):
        again, _ = native.layernorm_forward_out(x, gamma, beta, out=(other, saved))
        assert again is other
        torch.testing.assert_close(other.float(), y)


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_indices_of_fewer_bits_are_widened(native: ModuleType) -> None:
    table, places = torch.randn(7, 3), torch.tensor([3, 0, 6])
    for index in (places, places.int(), places):
        y, _ = native.embedding_forward(table, index)
        assert torch.equal(y, table[places])


class Mine(torch.Tensor):
    """A class of somebody's own, whose operations may be anything."""


@torch.no_grad()
def test_other_classes_are_not_handed_over(native: ModuleType) -> None:
    x, gamma, beta = _inputs()
    native.layernorm_forward(x, gamma, beta)
    with pytest.warns(UserWarning, match="layernorm_forward runs as PyTorch"):
        y, _ = native.layernorm_forward(x.as_subclass(Mine), gamma, beta)
    assert type(y) is Mine
    _right(native, x, gamma, beta)


@pytest.mark.usefixtures("kernels")
def test_threads_may_call_at_once(native: ModuleType) -> None:
    failed: list[Exception] = []

    def work(rows: int) -> None:
        try:
            with torch.no_grad():
                given = _inputs(rows=rows)
                _, saved = native.layernorm_forward(*given)
                dy = torch.randn_like(given[0])
                want = native.layernorm_backward(dy, *saved)
                for _ in range(50):
                    _right(native, *_inputs(rows=rows))
                    for g, w in zip(native.layernorm_backward(dy, *saved), want, strict=True):
                        assert torch.equal(g, w)  # memory that a call leaves to the next is one call's at a time
        except Exception as error:  # handed to the main thread
            failed.append(error)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in (3, 4, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("half", [(0,), (1,), (0, 1, 2)], ids=str)
def test_half_precision_after_float32_and_before(native: ModuleType, half: tuple[int, ...]) -> None:
    """The kernel says that a tensor is half precision; the call is made again in float32."""
    full = _inputs()
    mixed = [t.bfloat16() if k in half else t for k, t in enumerate(full)]
    with torch.no_grad():
        for given in (full, mixed, full, mixed):
            y, saved = native.layernorm_forward(*given)
            want = torch.nn.functional.layer_norm(given[0].float(), (5,), given[1].float(), given[2].float())
            assert y.dtype == given[0].dtype
            assert saved.rstd.dtype == torch.float32
            torch.testing.assert_close(y, want.to(y.dtype))


def test_half_precision_that_autograd_follows_is_computed_in_float32(native: ModuleType) -> None:
    given = [t.bfloat16() for t in _inputs()]
    with pytest.warns(UserWarning, match="autograd is recording") as said:
        y, saved = native.layernorm_forward(given[0].requires_grad_(), *given[1:])
    assert y.dtype == torch.bfloat16
    assert saved.rstd.dtype == torch.float32
    assert native.__path__[0] not in [os.path.dirname(w.filename) for w in said], "the line is the caller's"


@pytest.mark.parametrize("number", ["1e-5", None, [1.0]], ids=str)
@torch.no_grad()
def test_what_is_no_number_is_refused(native: ModuleType, number: Any) -> None:
    x, gamma, beta = _inputs()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"layernorm_forward: eps is a \w+, expected a number"):
            native.layernorm_forward(x, gamma, beta, number)
