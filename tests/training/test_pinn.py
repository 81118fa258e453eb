"""Burgers' equation: the solution solves it, the residual is autograd's, a run goes on where it was stopped."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.stopping import same
from training import checkpoint
from training.errors import InputError
from training.keeping import CHECKPOINT, METRICS, Keep
from training.names.settings import Dtype
from training.pinn.__main__ import Settings, run
from training.pinn.loop import ByHand, Recipe, descend, error
from training.pinn.network import initialise
from training.pinn.problem import batches, draw, solution
from training.pinn.twin import ByAutograd


def test_the_solution_solves_the_equation() -> None:
    viscosity, x, t, step = 0.05, np.linspace(-0.9, 0.9, 7), 0.4, 1e-4
    u = solution(x, t, viscosity)
    ut = (solution(x, t + step, viscosity) - solution(x, t - step, viscosity)) / (2 * step)
    right, left = (solution(x + s * step, t, viscosity) for s in (1, -1))
    ux, uxx = (right - left) / (2 * step), (right - 2 * u + left) / step**2
    np.testing.assert_allclose(ut + u * ux, viscosity * uxx, atol=1e-5)
    np.testing.assert_allclose(solution(np.array([-1.0, 1.0]), t, viscosity), 0, atol=1e-12)
    np.testing.assert_allclose(solution(x, 1e-9, viscosity), -np.sin(np.pi * x), atol=1e-7)


def test_points_lie_where_they_are_said_to() -> None:
    points = draw(50, 21, torch.Generator().manual_seed(0), torch.float64)
    assert points.x.shape == (50, 2) and points.x[:, 0].abs().max() <= 1 and points.x[:, 1].min() >= 0
    start = points.z[:, 1] == 0
    assert int(start.sum()) == 10 and torch.equal(points.z[~start, 0].abs(), torch.ones(11, dtype=torch.float64))
    torch.testing.assert_close(points.known[start], -torch.sin(math.pi * points.z[start, 0]))
    assert not points.known[~start].any()


def test_points_are_known_from_the_number_of_a_step() -> None:
    late = next(batches(5, 4, range(7, 8), 3, torch.float64))
    *_, also = batches(5, 4, range(8), 3, torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(late, also, strict=True))


def test_every_step_is_that_of_the_twin() -> None:
    recipe = Recipe(steps=15, batch=33, known=7)
    sides = [
        descend(kind(initialise(9, torch.Generator().manual_seed(1), torch.float64), recipe), recipe, 1, torch.float64)
        for kind in (ByHand, ByAutograd)
    ]
    for ours, twin in zip(*sides, strict=True):
        assert ours.loss == pytest.approx(twin.loss, rel=1e-10)
        for a, b in zip(ours.gradients, twin.gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_it_comes_nearer_to_the_solution() -> None:
    recipe = Recipe(steps=300, batch=64, known=32, lr=1e-2, viscosity=0.1)
    learner = ByHand(initialise(16, torch.Generator().manual_seed(0)), recipe)
    before = error(learner.network, recipe.viscosity)
    for _ in descend(learner, recipe, 0, torch.float32):
        pass
    assert error(learner.network, recipe.viscosity) < 0.3 < 0.8 < before


def test_a_resumed_run_ends_like_one_that_was_not_stopped(tmp_path: Path) -> None:
    def settings(steps: int, out: str, resume: bool = False) -> Settings:
        keep = Keep(tmp_path / out, every=4, resume=resume)
        return Settings(Recipe(steps, batch=8, known=4, viscosity=0.1), keep, hidden=4, quiet=True)

    run(settings(10, "whole"))
    whole = checkpoint.load(tmp_path / "whole" / CHECKPOINT)

    class Stop(Exception):
        pass

    def stopping(self: ByHand, *arguments: object, step=ByHand.step) -> object:
        stopping.count += 1
        if stopping.count > 6:
            raise Stop
        return step(self, *arguments)

    stopping.count = 0
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(ByHand, "step", stopping)
        run(settings(10, "part"))
    run(settings(10, "part", resume=True))
    assert same(whole, checkpoint.load(tmp_path / "part" / CHECKPOINT))
    assert (tmp_path / "whole" / METRICS).read_text() == (tmp_path / "part" / METRICS).read_text()


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    keep = Keep(tmp_path, every=10, figures=True)
    run(Settings(Recipe(12, batch=8, known=4, viscosity=0.1), keep, hidden=4, dtype=Dtype.float64, quiet=True))
    assert {"loss.png", "solution.png"} <= {file.name for file in tmp_path.iterdir()}


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"--viscosity is 1e-05"):
        Settings(Recipe(viscosity=1e-5))
