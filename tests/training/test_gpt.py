"""The decoder: beside its twin, tied and untied; what it reads; that it can be stopped."""

import signal
from pathlib import Path

import pytest
import torch
import typer

from tests.training.stopping import same, signal_at_call
from training import checkpoint
from training.data import BUILT_IN, load_names
from training.gpt import loop
from training.gpt.__main__ import Settings, run
from training.gpt.examples import Sequences, build_sequences
from training.gpt.loop import ByHand, Recipe, descend, mean_loss, sample
from training.gpt.network import GPT, initialise, logits_forward, loss_forward
from training.gpt.twin import ByAutograd, autograd_loss
from training.keeping import CHECKPOINT, METRICS, Keep


def decoder(tied: bool, dtype: torch.dtype = torch.float64, longest: int = 16) -> GPT:
    return initialise(27, longest, 16, 4, 2, tied, torch.Generator().manual_seed(1), dtype)


@pytest.fixture(scope="module")
def train() -> Sequences:
    words = load_names(BUILT_IN).words[:300]
    return build_sequences(words, 16, torch.float64)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_ten_steps_beside_the_twin(train: Sequences, tied: bool) -> None:
    recipe = Recipe(steps=10, batch=8, warmup=2)
    ours, twin = (
        descend(learner(decoder(tied), recipe), train, recipe, torch.Generator().manual_seed(2))
        for learner in (ByHand, ByAutograd)
    )
    names = [name for name, _ in decoder(tied).named()]
    for mine, theirs in zip(ours, twin, strict=True):
        assert abs(mine.loss - theirs.loss) < 1e-11
        for name, gradient, expected in zip(names, mine.gradients, theirs.gradients, strict=True):
            apart = (gradient - expected).abs().max() / expected.abs().max().clamp_min(1e-6)
            assert apart < 1e-9, f"d{name} differs by {apart}"


def test_names_as_sequences() -> None:
    sequences = build_sequences(["ab", "a"], 4, torch.float32)
    assert sequences.ix.tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert sequences.y.tolist() == [[1, 2, 0, 0], [1, 0, 0, 0]]
    assert sequences.weight.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    trimmed = sequences.rows(torch.tensor([1, 1]))
    assert trimmed.ix.tolist() == [[0, 1], [0, 1]]


def test_a_letter_depends_on_those_before_it_alone() -> None:
    gpt, ix = decoder(False), torch.randint(0, 27, (1, 9), generator=torch.Generator().manual_seed(0))
    logits, _ = logits_forward(gpt, ix)
    ix[0, 6] = (ix[0, 6] + 1) % 27
    changed, _ = logits_forward(gpt, ix)
    assert torch.equal(changed[0, :6], logits[0, :6])
    assert (changed[0, 6:] != logits[0, 6:]).any(1).all()


def test_the_loss_over_a_split_counts_every_letter_once(train: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    gpt = decoder(True)
    monkeypatch.setattr(loop, "EVALUATION_ROWS", 37)
    whole, _ = loss_forward(gpt, train.ix, train.y, train.weight)
    assert mean_loss(gpt, train) == pytest.approx(whole.item(), rel=1e-12)
    assert autograd_loss(gpt, train.ix, train.y, train.weight).item() == pytest.approx(whole.item(), rel=1e-12)


def test_samples_come_to_an_end() -> None:
    gpt = decoder(False, torch.float32)
    gpt.head.b[0] = -1e4
    assert len(sample(gpt, torch.Generator().manual_seed(1))) == 16


def test_stopped_and_resumed_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def settings(name: str, resume: bool = False) -> Settings:
        recipe, keep = Recipe(40, batch=4, warmup=5), Keep(tmp_path / name, 15, resume)
        return Settings(recipe, keep, BUILT_IN, width=8, heads=2, blocks=1, samples=2, evaluate=10, quiet=True)

    run(settings("whole"))
    printed = capsys.readouterr().out
    with monkeypatch.context() as patch, pytest.raises(typer.Exit):
        signal_at_call(patch, loop, "clip_global_norm", 22, signal.SIGINT)
        run(settings("cut"))
    assert checkpoint.load(tmp_path / "cut" / CHECKPOINT)["step"] == 22
    run(settings("cut", resume=True))
    assert same(*(checkpoint.load(tmp_path / name / CHECKPOINT) for name in ("cut", "whole")))
    assert (tmp_path / "cut" / METRICS).read_bytes() == (tmp_path / "whole" / METRICS).read_bytes()
    assert capsys.readouterr().out == printed
