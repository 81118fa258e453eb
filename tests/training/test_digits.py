"""The perceptron: what it reads, that it learns, that it equals its twin, that it goes on where it was stopped."""

import gzip
import signal
import struct
from pathlib import Path

import pytest
import torch
import typer

from tests.training.stopping import same, signal_at_call
from training import checkpoint
from training.digits import loop
from training.digits.__main__ import Settings, run
from training.digits.data import FILES, Digits, bundled, mnist
from training.digits.layers import perceptron
from training.digits.loop import ByHand, Descent, Recipe, batches, descend
from training.digits.twin import ByAutograd
from training.errors import InputError
from training.keeping import CHECKPOINT, METRICS, Keep


def idx(values: torch.Tensor) -> bytes:
    return bytes((0, 0, 8, values.dim())) + struct.pack(f">{values.dim()}I", *values.shape) + bytes(values.flatten())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty pictures of 3 x 2 to learn from, ten to test, in MNIST's four files; one of them compressed."""
    generator = torch.Generator().manual_seed(0)
    for part, count in (("train", 40), ("test", 10)):
        images, labels = FILES[part]
        (tmp_path / images).write_bytes(idx(torch.randint(0, 256, (count, 3, 2), generator=generator)))
        (tmp_path / labels).write_bytes(idx(torch.randint(0, 10, (count,), generator=generator)))
    plain = tmp_path / FILES["train"][0]
    plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return tmp_path


def error_of(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        mnist(folder, 0)
    return str(caught.value)


def test_idx_files(folder: Path) -> None:
    split = mnist(folder, seed=0)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [36, 4, 10]
    raw = (folder / FILES["test"][0]).read_bytes()[16:]
    assert split.test.x.shape == (10, 6)
    assert torch.equal(
        (split.test.x * 255).round().to(torch.uint8).flatten(), torch.tensor(list(raw), dtype=torch.uint8)
    )
    assert split.test.y.tolist() == list((folder / FILES["test"][1]).read_bytes()[8:])


def test_damaged_idx_files(folder: Path) -> None:
    file = folder / FILES["test"][0]
    raw = file.read_bytes()
    for content, cause in {
        raw[:-1]: "is cut short: 75 bytes, 76 for 10 x 3 x 2; download the file again",
        raw + b"\0": "is too long: 77 bytes, 76 for 10 x 3 x 2; download the file again",
        raw[:9]: "is cut short: 9 bytes, its heading alone has 16; download the file again",
        b"\x89PNG" + raw[4:]: "begins with 89504e47, expected 00000803; give an IDX file of bytes",
    }.items():
        file.write_bytes(content)
        assert error_of(folder) == f"reading digits: {file} {cause}"
    packed = folder / f"{FILES['train'][0]}.gz"
    packed.write_bytes(packed.read_bytes()[:-12])
    assert error_of(folder).startswith(f"reading digits: {packed} is damaged (")


def test_idx_files_that_do_not_fit(folder: Path) -> None:
    images, labels = (folder / name for name in FILES["test"])
    right = labels.read_bytes()
    labels.write_bytes(right[:8] + bytes([3, 1, 10]) + right[11:])
    assert error_of(folder) == f"reading digits: label 2 of {labels} is 10; labels are 0 to 9: correct the file"
    labels.write_bytes(idx(torch.zeros(9, dtype=torch.int64)))
    assert error_of(folder) == (
        f"reading digits: {images} has 10 pictures, but {labels} 9 labels; give files that belong together"
    )
    labels.unlink()
    assert error_of(folder) == f"reading digits: there is no {labels}; put the four IDX files, or their .gz, there"


def test_a_label_outside_the_classes_is_named_by_the_loss() -> None:
    network = perceptron((6, 4, 10), torch.Generator().manual_seed(0))
    batch = Digits(torch.zeros(2, 6), torch.tensor([3, 10]))
    with pytest.raises(IndexError, match="y holds 10, but axis c has length 10; give values 0 to 9"):
        ByHand(network, Recipe()).step(batch, 0.1)


@pytest.mark.parametrize("descent", list(Descent))
def test_two_hundred_steps_beside_the_twin(descent: Descent) -> None:
    recipe, train = Recipe(200, optimizer=descent), bundled(0).train
    train = Digits(train.x.double(), train.y)
    ours, twin = (
        descend(
            learner(perceptron((64, 32, 32, 32, 10), torch.Generator().manual_seed(1), torch.float64), recipe),
            train,
            recipe,
            0,
        )
        for learner in (ByHand, ByAutograd)
    )
    for mine, theirs in zip(ours, twin, strict=True):
        assert abs(mine.loss - theirs.loss) < 1e-10
        assert mine.norm == pytest.approx(theirs.norm, rel=1e-9)
        for gradient, expected in zip(mine.gradients, theirs.gradients, strict=True):
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-11)


def test_every_picture_once_an_epoch() -> None:
    train = Digits(torch.arange(10.0)[:, None], torch.zeros(10, dtype=torch.int64))
    seen = [batch.x.flatten().tolist() for batch in batches(train, 5, range(6), seed=0)]
    for epoch in (0, 2, 4):
        assert sorted(seen[epoch] + seen[epoch + 1]) == list(range(10))
    assert seen[0] != seen[2]
    assert seen[3:] == [batch.x.flatten().tolist() for batch in batches(train, 5, range(3, 6), seed=0)]


def test_at_least_97_percent_and_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Settings(keep=Keep(tmp_path, figures=True), quiet=True))
    *_, tested = capsys.readouterr().out.splitlines()
    assert tested.startswith("test accuracy        9")
    assert float(tested.split()[-1].rstrip("%")) >= 97
    figures = ("accuracy", "activations", "gradients", "loss", "moments", "norms", "updates")
    assert {f"{figure}.png" for figure in figures} == {file.name for file in tmp_path.glob("*.png")}


def test_stopped_and_resumed_bit_for_bit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(out: Path, resume: bool = False) -> Settings:
        return Settings(Recipe(400, batch=8), Keep(out, 100, resume), mnist=folder, hidden=8, quiet=True)

    run(settings(folder / "whole"))
    with monkeypatch.context() as patch, pytest.raises(typer.Exit) as caught:
        signal_at_call(patch, loop, "clip_global_norm", 237, signal.SIGTERM)
        run(settings(folder / "cut"))
    assert caught.value.exit_code == 143
    assert checkpoint.load(folder / "cut" / CHECKPOINT)["step"] == 237
    run(settings(folder / "cut", resume=True))
    assert same(*(checkpoint.load(folder / name / CHECKPOINT) for name in ("cut", "whole")))
    for file in (METRICS, "gradients.csv"):
        assert (folder / "cut" / file).read_bytes() == (folder / "whole" / file).read_bytes()


def test_a_gradient_that_is_not_finite_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Recipe.rate
    monkeypatch.setattr(Recipe, "rate", lambda recipe, step: 1e38 if step == 150 else right(recipe, step))
    recipe = Recipe(400, batch=8, optimizer=Descent.sgd)
    with pytest.raises(InputError) as caught:
        run(Settings(recipe, Keep(folder / "run", 100), mnist=folder, hidden=8, quiet=True))
    kept = f"{folder / 'run' / CHECKPOINT} holds the run as it was after 100 steps"
    assert str(caught.value) == (
        "training: the loss is nan at step 151; the first gradient that is not finite is db4; " f"lower --lr; {kept}"
    )
