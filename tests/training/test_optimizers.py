"""Optimizers and clipping beside PyTorch's own, and what they remember."""

from collections.abc import Callable

import pytest
import torch

from training.optimizers import SGD, Adam, Momentum, Optimizer, RMSprop, clip_global_norm

PAIRS = [
    pytest.param(SGD, torch.optim.SGD, {}, id="sgd"),
    pytest.param(Momentum, torch.optim.SGD, {"momentum": 0.9}, id="momentum"),
    pytest.param(RMSprop, torch.optim.RMSprop, {}, id="rmsprop"),
    pytest.param(Adam, torch.optim.Adam, {}, id="adam"),
    pytest.param(lambda: Adam(decay=0.1), torch.optim.AdamW, {"weight_decay": 0.1}, id="adamw"),
]


def drawn(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 4), (2, 5))]


@pytest.mark.parametrize(("ours", "theirs", "options"), PAIRS)
def test_fifty_steps_beside_pytorch(ours: Callable[[], Optimizer], theirs: type, options: dict[str, float]) -> None:
    mine, native = drawn(0), [p.requires_grad_() for p in drawn(0)]
    optimizer, reference = ours(), theirs(native, lr=0.01, **options)
    for step in range(50):
        gradients = drawn(step + 1)
        for parameter, gradient in zip(native, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step(mine, gradients, 0.01)
        reference.step()
        # What it remembers is all there is: another one goes on from it.
        if step == 25:
            state, optimizer = optimizer.state(), ours()
            optimizer.restore(state)
    for parameter, expected in zip(mine, native, strict=True):
        torch.testing.assert_close(parameter, expected.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("most", [0.5, 1e9])
def test_clipping_beside_pytorch(most: float) -> None:
    gradients, parameters = drawn(3), drawn(0)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    expected = torch.nn.utils.clip_grad_norm_(parameters, most).item()
    before, after = clip_global_norm(gradients, most)
    assert before == pytest.approx(expected, rel=1e-12)
    assert after == pytest.approx(min(expected, most), rel=1e-5)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-12, atol=0)
