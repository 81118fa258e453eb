"""Numbers of runs come from files; what is damaged is refused by name; without a file nothing is claimed."""

import json
from pathlib import Path
from typing import Any

import pytest

from derive.book.measured import Measured, Measurement, read_measured
from derive.book.page import op_page
from derive.book.render import Place, op_html
from derive.catalogue import find
from derive.errors import DeriveError

GOOD: dict[str, Any] = {
    "handgrad": "measured/1",
    "command": "derive check tanh",
    "machine": "two cores",
    "errors": {"tanh": [{"of": "dx", "dtype": "float64", "relative": 2.5e-16, "against": "autograd"}]},
    "ratios": {"tanh": [{"of": "backward", "ratio": 1.75, "against": "autograd", "size": "n = 4096"}]},
}


def written(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_numbers_are_read_and_files_add_up(tmp_path: Path) -> None:
    file = written(tmp_path / "a.json", GOOD)
    found = read_measured([file, written(tmp_path / "b.json", GOOD | {"errors": {}, "command": "another"})])
    error = Measurement("dx", "float64", 2.5e-16, "autograd", "derive check tanh", "two cores")
    ratio = Measurement("backward", "n = 4096", 1.75, "autograd", "derive check tanh", "two cores")
    assert found["tanh"].errors == (error,)
    assert found["tanh"].ratios[0] == ratio and len(found["tanh"].ratios) == 2
    assert found["tanh"].runs == (("derive check tanh", "two cores"), ("another", "two cores"))


def test_the_page_shows_the_numbers_or_that_there_are_none(tmp_path: Path) -> None:
    d = find("tanh").derivation
    bare = op_html(op_page(d, "family"), Place("", "title"))
    assert bare.count("Not measured") == 2
    measured = read_measured([written(tmp_path / "a.json", GOOD)])["tanh"]
    page = op_html(op_page(d, "family", measured=measured), Place("", "title"))
    assert "Not measured" not in page
    assert "<td>2.50e-16</td>" in page and "<td>1.75</td>" in page and "<code>derive check tanh</code>" in page
    half = op_html(op_page(d, "family", measured=Measured(errors=measured.errors)), Place("", "title"))
    assert half.count("Not measured") == 1


def test_what_the_benchmarks_write_is_read(tmp_path: Path) -> None:
    times = {"autograd": {"median": 3.0}, "native op": {"median": 1.0}, "generated": {"median": 2.0}}
    times["generated compiled"] = {"median": 0.5}
    row = {"op": "tanh", "size": "small", "shapes": "n = 8", "seconds": times}
    file = written(tmp_path / "bench.json", {"about": {"PyTorch": "2", "threads": "1"}, "rows": [row]})
    found = read_measured([file])["tanh"]
    assert [(m.against, m.value, m.setting) for m in found.ratios] == [
        ("autograd", 1.5, "n = 8"),
        ("native op", 0.5, "n = 8"),
    ]
    assert found.runs == (("make bench", "PyTorch 2, threads 1"),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is not JSON; make it again with the command that wrote it"),
        ([], 'holds no measurements; a file of them says "handgrad": "measured/1"'),
        (GOOD | {"handgrad": "measured/2"}, 'holds no measurements; a file of them says "handgrad": "measured/1"'),
        ({"handgrad": "measured/1", "command": "c"}, "holds a measurement without 'machine'; make it again"),
        ({"about": {}, "rows": [{"op": "tanh"}]}, "holds a measurement without 'seconds'; make it again"),
        (GOOD | {"errors": {"tanh": [{"of": "dx"}]}}, "holds a measurement without 'relative'; make it again"),
        (
            GOOD | {"ratios": {"tanh": [{"of": "dx", "ratio": float("nan"), "against": "a"}]}},
            "holds a measurement without a finite number; make it again",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: Any, message: str) -> None:
    file = written(tmp_path / "a.json", data)
    with pytest.raises(DeriveError) as refused:
        read_measured([file])
    assert str(refused.value) == f"{file} {message}"
    with pytest.raises(DeriveError, match="cannot read"):
        read_measured([tmp_path / "none.json"])
