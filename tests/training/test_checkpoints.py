"""Runs that are killed, interrupted, or out of disk; checkpoints that are damaged; metrics that go on."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from tests.training.stopping import same, signal_at_call
from training import checkpoint, files
from training.data import BUILT_IN
from training.errors import InputError
from training.keeping import CHECKPOINT, METRICS, PREVIOUS, Keep
from training.metrics import read_rows
from training.names.loop import GENERATED, Recipe
from training.names.run import run
from training.names.settings import Settings

ROOT = Path(__file__).parents[2]
STEPS = 6000


def command(out: Path, *more: str) -> list[str]:
    options = f"--steps {STEPS} --hidden 16 --every 300 --samples 0 --no-figures --quiet --names {BUILT_IN} --out {out}"
    return [sys.executable, "-m", "training.names", *options.split(), *more]


def settings(out: Path | None, steps: int = 1000, resume: bool = False, **others: Any) -> Settings:
    keep = Keep(out, every=200, resume=resume)
    return Settings(Recipe(steps, batch=8, **others), names=BUILT_IN, hidden=8, samples=0, quiet=True, keep=keep)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole")
    subprocess.run(command(out), cwd=ROOT, check=True, capture_output=True)
    return out


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_run_stopped_anywhere_goes_on_bit_for_bit(whole: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "run"
    enough = random.SystemRandom().randrange(600, 1500)
    running = subprocess.Popen(command(out), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and len(read_rows(out / METRICS)) < enough:
        time.sleep(0.002)
    # Rows are written a block at a time: somewhere in the next one.
    time.sleep(random.SystemRandom().uniform(0, 0.3))
    running.send_signal(number)
    _, message = running.communicate(timeout=60)
    state = checkpoint.load(out / CHECKPOINT)
    assert 0 < state["step"] < STEPS
    if number == signal.SIGKILL:
        assert running.returncode == -signal.SIGKILL
    else:
        assert running.returncode == 128 + number
        assert message == (
            f"interrupted after {state['step']:,} of 6,000 steps; "
            f"{out / CHECKPOINT} holds the run as it was after {state['step']:,} steps\n"
        )
    subprocess.run(command(out, "--resume"), cwd=ROOT, check=True, capture_output=True)
    assert same(checkpoint.load(out / CHECKPOINT), checkpoint.load(whole / CHECKPOINT))
    assert (out / METRICS).read_bytes() == (whole / METRICS).read_bytes()


def test_an_unfinished_run_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(400, tmp_path, monkeypatch)
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path))
    assert str(caught.value) == (
        f"starting: {tmp_path / CHECKPOINT} is an unfinished run, at step 400 of 1,000; "
        "continue it with --resume, or choose another --out"
    )


def test_a_finished_run_is_put_aside(tmp_path: Path) -> None:
    run(settings(tmp_path, steps=20))
    first = (tmp_path / CHECKPOINT).read_bytes()
    run(settings(tmp_path, steps=30))
    assert (tmp_path / PREVIOUS).read_bytes() == first
    assert checkpoint.load(tmp_path / CHECKPOINT)["step"] == 30
    assert len(read_rows(tmp_path / METRICS)) == 30


def test_metrics_that_are_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(400, tmp_path, monkeypatch)
    file = tmp_path / METRICS
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:3], "2,abc,0.1\n", *lines[4:]]))
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path, resume=True))
    assert str(caught.value) == (
        f"reading metrics: line 4 of {file} is '2,abc,0.1', expected numbers; "
        "remove the line or start anew in another --out"
    )


def interrupted_at(step: int, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that gets SIGINT once it has taken `step` steps."""
    with monkeypatch.context() as patch:
        signal_at_call(patch, GENERATED, "step", step, signal.SIGINT)
        with pytest.raises(typer.Exit) as caught:
            run(settings(out))
    assert caught.value.exit_code == 130


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(400, tmp_path, monkeypatch)
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path, resume=True, lr=0.2))
    assert str(caught.value) == (
        f"resuming: --lr is 0.2 here, but 0.1 in {tmp_path / CHECKPOINT}; "
        "give --lr as it was, or choose another --out"
    )


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path, resume=True))
    assert str(caught.value) == (
        f"reading a checkpoint: cannot read {tmp_path / CHECKPOINT} (No such file or directory); "
        "leave out --resume to start anew"
    )


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / CHECKPOINT
    checkpoint.save(file, {"step": 1, "parameters": {"W": torch.arange(1000.0)}})
    raw = file.read_bytes()
    remedy = "start anew in another --out, or put back an undamaged copy"
    damaged = {
        b"": "is cut short",
        raw[:20]: "is cut short",
        b"PK\x03\x04" + raw: "is no checkpoint of this program",
        raw[:-100]: f"is damaged: its {len(raw) - 100:,} bytes are not those that were written",
        raw[:2000] + bytes([raw[2000] ^ 1]) + raw[2001:]: f"is damaged: its {len(raw):,} bytes are not those that "
        "were written",
    }
    for content, cause in damaged.items():
        file.write_bytes(content)
        with pytest.raises(InputError) as caught:
            checkpoint.load(file)
        assert str(caught.value) == f"reading a checkpoint: {file} {cause}; {remedy}"


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def full_the_second_time(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:  # the heading of the metrics, rows and checkpoint of 200 steps, rows of 400 steps
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full_the_second_time)
    file = tmp_path / CHECKPOINT
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path, steps=2000))
    assert str(caught.value) == (
        f"saving a checkpoint: cannot write {file} (No space left on device); free some space or choose another "
        f"--out; the checkpoint before it, {file}, is whole"
    )
    assert checkpoint.load(file)["step"] == 500
    assert {f.name for f in tmp_path.iterdir()} == {CHECKPOINT, METRICS}
    monkeypatch.undo()
    run(settings(tmp_path, steps=2000, resume=True))
    other = tmp_path / "other"
    run(settings(other, steps=2000))
    assert same(checkpoint.load(file), checkpoint.load(other / CHECKPOINT))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_metrics_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(500, tmp_path, monkeypatch)
    before = (tmp_path / CHECKPOINT).read_bytes()
    full = Path("/dev/full")
    opened = Path.open
    monkeypatch.setattr(
        Path, "open", lambda file, mode="r", **more: opened(full if mode == "a" else file, mode, **more)
    )
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path, resume=True))
    assert str(caught.value) == (
        f"writing metrics: cannot write {tmp_path / METRICS} (No space left on device); "
        "free some space or choose another --out; checkpoints are as they were"
    )
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_a_loss_that_is_not_a_number_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = Recipe.rate
    monkeypatch.setattr(Recipe, "rate", lambda recipe, step: 1e38 if step >= 700 else rate(recipe, step))
    with pytest.raises(InputError) as caught:
        run(settings(tmp_path))
    assert str(caught.value).startswith("training: the loss is nan at step 70")
    assert "; the first gradient that is not finite is d" in str(caught.value)
    kept = f"; lower --lr; {tmp_path / CHECKPOINT} holds the run as it was after 500 steps"
    assert str(caught.value).endswith(kept)
    assert all(p.isfinite().all() for p in checkpoint.load(tmp_path / CHECKPOINT)["parameters"].values())
    assert 700 <= len(read_rows(tmp_path / METRICS)) < 710


def test_tensorboard_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    keep = Keep(tmp_path, tensorboard=True)
    run(Settings(Recipe(50, batch=4), names=BUILT_IN, hidden=4, samples=0, quiet=True, keep=keep))
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))
