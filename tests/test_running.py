"""A user's file is run as a script is: what it imports and defines beside its ops works there too."""

from pathlib import Path

import pytest
import torch

from derive.catalogue import load_file
from derive.errors import DeriveError
from derive.verify.candidates import function

SETTINGS = """from __future__ import annotations

from dataclasses import dataclass

from neighbour import TWICE


@dataclass(frozen=True)
class Settings:
    factor: int = TWICE


def scale(x):
    return Settings().factor * x
"""
SPEC = """

from derive import *

n = axes("n")


@op
def scaled(f, x: tensor[n]):
    f.y[n] = Settings().factor * x[n]
    return f.y
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("TWICE = 2\n")
    return tmp_path / "mine.py"


def test_a_file_of_specs_may_define_dataclasses(mine: Path) -> None:
    mine.write_text(SETTINGS + SPEC)
    (op,) = load_file(mine)
    assert str(op.equations[0]) == "y[n] = 2*x[n]"


def test_a_candidate_may_raise_anything_as_it_is_read(mine: Path) -> None:
    for raised, told in (
        ("raise Exception('boom')", "Exception: boom"),
        ("exit()", "it ends Python, as exit() does"),
        ("next(iter([]))", "StopIteration"),
    ):
        mine.write_text(f"{raised}\n")
        with pytest.raises(DeriveError) as refused:
            function(f"{mine}:scale")
        assert str(refused.value) == f"{mine} cannot be run: {told}; correct the file"


def test_ctrl_c_goes_through(mine: Path) -> None:
    mine.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_file(mine)


def test_so_may_a_file_with_a_function(mine: Path) -> None:
    mine.write_text(SETTINGS)
    assert function(f"{mine}:scale")(torch.ones(())) == 2
