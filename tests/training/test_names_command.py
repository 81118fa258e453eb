"""The commands, as a user runs them."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from training.data import BUILT_IN, PUBLIC_URL
from training.errors import InputError
from training.names.loop import Recipe
from training.names.run import run as train_names
from training.names.settings import Settings

ROOT = Path(__file__).parents[2]
QUICK = ("--steps", "40", "--hidden", "16", "--samples", "3")


def run(module: str, *arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a module offline: every download meets a proxy that is not there."""
    closed = "http://127.0.0.1:9"
    offline = {"https_proxy": closed, "HTTPS_PROXY": closed, "no_proxy": "", "NO_PROXY": ""}
    kept = {name: value for name, value in os.environ.items() if name != "NAMES_FILE"}
    plain = {"XDG_CACHE_HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**kept, **offline, **plain, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_offline_run_on_the_built_in_list(tmp_path: Path) -> None:
    home = tmp_path / "cache"
    home.mkdir()
    done = run("training.names", *QUICK, "--quiet", "--out", str(tmp_path / "run"), home=home)
    assert done.returncode == 0, done.stderr
    (note,) = done.stderr.splitlines()
    words = len(BUILT_IN.read_text().split())
    assert note.startswith(f"downloading names: cannot fetch {PUBLIC_URL} (")
    assert note.endswith(f"; using the {words:,} common given names that ship with the project")
    losses, samples = done.stdout.splitlines()[:3], done.stdout.splitlines()[3:]
    assert [re.sub(r"\d\.\d{4}$", "#", line) for line in losses] == [
        "train loss      #",
        "validation loss #",
        "test loss       #",
    ]
    assert len(samples) == 3
    assert not (home / "handgrad").exists()
    kept = {
        "activations.png",
        "checkpoint.pt",
        "dlogits.png",
        "gradients.png",
        "loss.png",
        "metrics.csv",
        "updates.png",
    }
    assert {file.name for file in (tmp_path / "run").iterdir()} == kept


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(seed: int) -> str:
        recipe = Recipe(steps=40)
        train_names(Settings(recipe, names=BUILT_IN, hidden=16, seed=seed, samples=3, quiet=True))
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    assert printed(7) == printed(7)
    assert printed(7) != printed(8)


def test_all_options_at_once(tmp_path: Path) -> None:
    options = "--context 4 --embedding 5 --batch 8 --lr 0.2 --lr-final 0.02 --lr-drop 0.25 --eps 1e-4 --seed 3"
    more = "--split-seed 4 --dtype float64 --threads 1 --gradients autograd"
    arguments = [*QUICK, *options.split(), *more.split(), "--no-figures", "--out", str(tmp_path)]
    done = run("training.names", *arguments, home=tmp_path, NAMES_FILE=str(BUILT_IN))
    assert done.returncode == 0, done.stderr
    # 27 * 5 + 20 * 16 + 3 * 16 + 16 * 27 + 27
    assert "network: 962 parameters, gradients: autograd" in done.stdout
    assert re.search(r"^training: 40 steps in \d+\.\d s, [\d,]+ steps/s$", done.stdout, re.MULTILINE)


def test_no_steps_and_no_samples(capsys: pytest.CaptureFixture[str]) -> None:
    train_names(Settings(Recipe(steps=0), names=BUILT_IN, hidden=8, samples=0))
    names, network, *losses = capsys.readouterr().out.splitlines()
    words = len(BUILT_IN.read_text().split())
    assert names.startswith(f"names: {words:,} from {BUILT_IN}; ")
    assert network == "network: 777 parameters, gradients: generated"
    assert len(losses) == 3


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    done = run("training.names", "--names", "no-such-file", home=tmp_path)
    message = (
        "error: reading names: cannot read no-such-file (No such file or directory); "
        "give a readable file with one name a line\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": 0}, "--context is 0, expected at least 1; change --context"),
        ({"hidden": -5}, "--hidden is -5, expected at least 1; change --hidden"),
        ({"seed": -1}, f"--seed is -1, expected between 0 and {2**62}; change --seed"),
        ({"recipe": Recipe(batch=1)}, "--batch is 1, expected at least 2; change --batch"),
        ({"recipe": Recipe(lr=math.nan)}, "--lr is nan, expected at least 0.0; change --lr"),
        ({"recipe": Recipe(eps=0.0)}, "--eps is 0.0, expected between 1e-12 and 1.0; change --eps"),
        ({"recipe": Recipe(lr_drop=1.5)}, "--lr-drop is 1.5, expected between 0.0 and 1.0; change --lr-drop"),
    ],
)
def test_a_number_outside_its_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**settings)
    assert str(caught.value) == f"reading options: {message}"


def test_help_names_a_quick_try(tmp_path: Path) -> None:
    done = run("training.names", "--help", home=tmp_path)
    assert done.returncode == 0
    assert "--steps 2000" in done.stdout


def test_compare_prints_both_tables(tmp_path: Path) -> None:
    arguments = ("--steps", "20", "--blocks", "1", "--quiet", "--names", str(BUILT_IN))
    done = run("training.compare", *arguments, home=tmp_path)
    assert done.returncode == 0, done.stderr
    for row in ("loss", "dC", "dW1", "db1", "dbngain", "dbnbias", "dW2", "db2", "generated", "autograd"):
        assert re.search(rf"\b{row}\b", done.stdout), row
    assert "ratio" in done.stdout
    assert "peak memory of a step" in done.stdout
    assert done.stderr == ""
