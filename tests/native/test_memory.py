"""What a tensor says beyond its address: a kernel reads raw memory, and gives what PyTorch gives, or an error."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from tests.conftest import Package


@pytest.fixture(scope="module")
def made(package: Package) -> ModuleType:
    return package("l2_normalize", "mse", workspace=True, step=True)


@pytest.fixture(params=["at once", "by pointers"])
def native(request: pytest.FixtureRequest, made: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    runtime = importlib.import_module(f"{made.__name__}._native")
    if request.param == "by pointers":
        monkeypatch.setattr(runtime, "_hand", lambda: None)
    kernels = [k for name in ("l2_normalize", "mse") for k in vars(getattr(made, f"{name}_module")).values()]
    for kernel in (k for k in kernels if isinstance(k, runtime.Kernel)):
        kernel.plans.clear()
        kernel.last = None
    made.l2_normalize_forward(torch.randn(2, 4))  # a call that the next is like
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield made


class Mine(torch.Tensor):
    pass


def _at_an_odd_byte(x: Tensor) -> Tensor:
    return torch.frombuffer(bytearray(33), dtype=torch.float32, offset=1, count=8).view(2, 4).copy_(x)


SEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "negative bit": lambda x: torch._neg_view(-x),
    "imaginary part of a conjugate": lambda x: torch.complex(x, -x).conj().imag,
    "columns first": lambda x: x.t().contiguous().t(),
    "every other": lambda x: torch.stack([x, x + 1], -1)[..., 0],
    "an offset": lambda x: torch.cat([x, x])[2:],
    "at an odd byte": _at_an_odd_byte,
    "a parameter": torch.nn.Parameter,
    "a subclass": lambda x: x.as_subclass(Mine),
    "a view that asks for a gradient": lambda x: x.clone().requires_grad_()[:],
    "of inference": lambda x: torch.inference_mode()(x.clone)(),
    "in doubles": lambda x: x.double(),
}


@pytest.mark.parametrize("seen", SEEN)
def test_every_way_to_see_the_same_numbers(native: ModuleType, seen: str) -> None:
    """As an input, as a cotangent, as a saved tensor, and where a tensor is given to be written into."""
    x, dy = torch.randn(2, 4), torch.randn(2, 4)
    leaf = x.clone().requires_grad_()
    y = F.normalize(leaf, dim=1)
    (dx,) = torch.autograd.grad(y, leaf, dy)
    alike, kept = SEEN[seen](x.clone()), native.l2_normalize_forward(x)
    for found in (native.l2_normalize(alike), native.l2_normalize_forward(alike)[0]):
        torch.testing.assert_close(found.as_subclass(Tensor), y.to(found.dtype))
    fits = seen != "in doubles"
    saved = [SEEN[seen](s) if fits and isinstance(s, Tensor) and s.shape == x.shape else s for s in kept[1]]
    torch.testing.assert_close(native.l2_normalize_backward(dy, *saved).as_subclass(Tensor), dx)
    found = native.l2_normalize_backward(SEEN[seen](dy.clone()), *kept[1]).as_subclass(Tensor)
    torch.testing.assert_close(found, dx.to(found.dtype))
    if seen not in ("a view that asks for a gradient", "in doubles", "of inference", "a parameter"):
        place = SEEN[seen](torch.zeros(2, 4))
        with torch.no_grad():
            native.l2_normalize_module.l2_normalize_backward_out(dy, *kept[1], out=place)
        torch.testing.assert_close(place.as_subclass(Tensor), dx)


def test_a_loss_of_opposites(native: ModuleType) -> None:
    x, y = torch.randn(1, 1), torch.randn(1, 1)
    opposite = torch.complex(x, x).conj().imag
    assert opposite.is_neg() and opposite.is_contiguous()
    for _ in range(2):
        torch.testing.assert_close(native.mse(opposite, y), F.mse_loss(-x, y))
    loss, gradients = native.mse_module.mse_with_gradients(opposite, y)
    torch.testing.assert_close(loss, F.mse_loss(-x, y))
    torch.testing.assert_close(gradients[0] if isinstance(gradients, tuple) else gradients, -2 * (x + y))


def test_zeros_that_take_no_memory(native: ModuleType) -> None:
    zeros = torch._efficientzerotensor((2, 4))
    assert torch.equal(native.l2_normalize_forward(zeros)[0], torch.zeros(2, 4))


@pytest.mark.parametrize(
    "given",
    [Tensor.to_sparse, Tensor.to_sparse_csr, Tensor.to_mkldnn, lambda x: torch.nested.nested_tensor([x[0], x[1, :2]])],
    ids=["sparse", "csr", "mkldnn", "nested"],
)
def test_what_is_not_dense_is_refused(native: ModuleType, given: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(TypeError, match=r"^l2_normalize: x is .*, expected a dense tensor; give "):
        native.l2_normalize_forward(given(torch.randn(2, 4)))


def test_transforms_see_through_a_forward(native: ModuleType) -> None:
    x, t = torch.randn(3, 2, 4), torch.randn(2, 4)

    def forward(a: Tensor) -> Tensor:
        return native.l2_normalize_forward(a)[0]

    def plain(a: Tensor) -> Tensor:
        return F.normalize(a, dim=-1)

    for a, b in (
        (torch.func.vmap(forward)(x), plain(x)),
        (torch.func.jvp(forward, (x[0],), (t,))[1], torch.func.jvp(plain, (x[0],), (t,))[1]),
    ):
        torch.testing.assert_close(a, b)
    grads = [torch.func.grad(lambda a, f=f: f(a).pow(3).sum())(x[0]) for f in (forward, plain)]
    torch.testing.assert_close(*grads)


def test_a_tangent_is_not_lost(native: ModuleType) -> None:
    x, t = torch.randn(2, 4), torch.randn(2, 4)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        found, want = native.l2_normalize_forward(dual)[0], F.normalize(dual, dim=1)
        torch.testing.assert_close(forward_ad.unpack_dual(found).tangent, forward_ad.unpack_dual(want).tangent)
