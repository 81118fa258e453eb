"""Several processes together, and the drop-in module under DistributedDataParallel and torch.compile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.stopping import same
from training import checkpoint
from training.data import BUILT_IN, load_names
from training.keeping import CHECKPOINT, METRICS
from training.metrics import read_rows
from training.names.examples import split_examples
from training.names.loop import GENERATED, Recipe, batches, descend
from training.names.module import NamesModule
from training.names.network import Network, initialise

ROOT = Path(__file__).parents[2]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What two processes saw; the program is together.py."""
    file = tmp_path_factory.mktemp("together") / "seen.json"
    command = [*TORCHRUN, str(Path(__file__).with_name("together.py")), str(file)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, float]] = json.loads(file.read_text())
    return found


def test_two_processes_of_16_equal_one_of_32(seen: dict[str, dict[str, float]]) -> None:
    assert seen["even"]["steps"] == 500
    assert seen["even"]["losses"] < 3e-6
    assert seen["even"]["parameters"] < 3e-6


def test_shards_of_two_lengths(seen: dict[str, dict[str, float]]) -> None:
    assert seen["uneven"]["losses"] < 3e-6
    assert seen["uneven"]["parameters"] < 3e-6


def test_the_drop_in_module_under_distributed_data_parallel(seen: dict[str, dict[str, float]]) -> None:
    assert seen["drop-in"]["losses"] < 3e-6


@pytest.mark.slow
def test_two_processes_stopped_and_resumed(tmp_path: Path) -> None:
    """A signal to the launcher reaches both, they stop after the same step, and go on bit for bit."""

    def command(out: str, *more: str) -> list[str]:
        options = f"--steps 1200 --hidden 8 --batch 4 --samples 0 --no-figures --quiet --names {BUILT_IN}"
        return [*TORCHRUN, "-m", "training.names", *options.split(), "--out", str(tmp_path / out), *more]

    def whole(*arguments: str) -> None:
        subprocess.run(command(*arguments), cwd=ROOT, env=environment(), check=True, capture_output=True, timeout=300)

    running = subprocess.Popen(command("cut"), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL)
    while running.poll() is None and not read_rows(tmp_path / "cut" / METRICS):
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    running.wait(timeout=60)
    assert 0 < checkpoint.load(tmp_path / "cut" / CHECKPOINT)["step"] < 1200
    whole("cut", "--resume")
    whole("whole")
    assert same(*(checkpoint.load(tmp_path / name / CHECKPOINT) for name in ("cut", "whole")))


@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]  # which needs a C++ compiler
)
def test_the_drop_in_module_under_compile(backend: str) -> None:
    by_hand = [loss for block in descend(*beginning(), stop=lambda: False) for loss in block]
    for wrap in (lambda module: module, lambda module: torch.compile(module, backend=backend, fullgraph=True)):
        for loss, expected in zip(losses_of(wrap), by_hand, strict=True):
            assert abs(loss - expected) < 3e-6


def beginning() -> tuple[Network, Any, Recipe, Any, torch.Generator]:
    generator = torch.Generator().manual_seed(3)
    network = initialise(3, 10, 32, generator, torch.float32)
    train = split_examples(load_names(BUILT_IN).words).train
    return network, train, Recipe(30), GENERATED, generator


def losses_of(wrap: Callable[[NamesModule], Any]) -> list[float]:
    network, train, recipe, _, generator = beginning()
    module = NamesModule(network)
    wrapped, optimizer = wrap(module), torch.optim.SGD(module.parameters())
    losses = []
    for step, (ix, y) in enumerate(batches(train, recipe.batch, recipe.steps, generator)):
        optimizer.param_groups[0]["lr"] = recipe.rate(step)
        optimizer.zero_grad()
        loss = wrapped(ix, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
