"""Images of one channel: PyTorch's convolution where they are small, slice by slice where they are large, and the same."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from generated import _functions
from generated._functions import correlated_images, filtered_images

LENGTHS, TAPS = (9, 7, 6), (3, 2, 4)


def read(x: Tensor, at: tuple[int, ...], places: list[int]) -> Tensor:
    return x[(..., *(slice(k, k + n) for k, n in zip(at, places, strict=True)))]


@pytest.fixture(params=[0, 2**40], ids=["slices", "a convolution"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """From how many elements an image is large, and whether these are."""
    monkeypatch.setattr(_functions, "_IMAGE", request.param)
    return request.param == 0


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_both_are_the_sums_that_they_say(large: bool, dims: int, leading: tuple[int, ...]) -> None:
    lengths, taps = LENGTHS[:dims], TAPS[:dims]
    places = [n - k + 1 for n, k in zip(lengths, taps, strict=True)]
    x = torch.randn(*leading, *lengths, dtype=torch.float64)
    w = torch.randn(taps, dtype=torch.float64)
    y = torch.randn(*leading, *places, dtype=torch.float64)
    every = list(product(*map(range, taps)))
    image = sum(w[at] * read(x, at, places) for at in every)
    torch.testing.assert_close(filtered_images(x, w), image, rtol=1e-13, atol=1e-13)
    weights = torch.stack([(read(x, at, places) * y).sum() for at in every]).reshape(taps)
    torch.testing.assert_close(correlated_images(x, y, dims), weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(8, 256, 256), (2**17 + 4,)], ids=str)
def test_what_is_large_is_not_convolved(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Tensor:
        raise AssertionError("a convolution")

    for name in ("conv1d", "conv2d"):
        monkeypatch.setattr(torch.nn.functional, name, refused)
    x, dims = torch.randn(shape), min(len(shape), 2)
    found = filtered_images(x, torch.ones((3,) * dims))
    assert found.shape == (*shape[:-dims], *(n - 2 for n in shape[-dims:]))


def test_a_compiler_is_given_a_convolution() -> None:
    x, w = torch.randn(2, 300, 300), torch.randn(3, 3)
    calls: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        calls.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    torch.testing.assert_close(torch.compile(filtered_images, backend=backend, fullgraph=True)(x, w), filtered_images(x, w))
    assert sum("conv2d" in name for name in calls) == 1 and len(calls) < 8, calls
