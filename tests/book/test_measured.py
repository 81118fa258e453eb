"""Numbers of runs come from files; what is damaged is refused by name; without a file nothing is claimed."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import as_json, measure
from benchmarks.rows import row
from derive.catalogue import find, load_file
from derive.errors import DeriveError
from derive.pipeline import derivation_of
from derive.show.book.page import op_page
from derive.show.book.render import Place, op_html
from derive.verify.measured import Measured, Measurement, check_target, read_measured, write_measured

GOOD: dict[str, Any] = {
    "handgrad": "measured/1",
    "command": "derive check tanh",
    "machine": "two cores",
    "errors": {"tanh": [{"of": "dx", "dtype": "float64", "relative": 2.5e-16, "against": "autograd"}]},
    "ratios": {"tanh": [{"of": "backward", "ratio": 1.75, "against": "autograd", "size": "n = 4096"}]},
}
MINE = '''from derive import *

n, d = axes("n d")


@op
def scaled(f, x: tensor[n, d], w: tensor[d]):
    """A product."""
    f.y[n, d] = x[n, d] * w[d]
    return f.y


@op
def cubes(f, x: tensor[..., d]):
    """A sum of cubes."""
    f.y[...] = sum(x[..., d] ** 3, over=d)
    return f.y
'''


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
    d = derivation_of(find("tanh"))
    bare = op_html(op_page(d, "family"), Place("", "title"))
    makes = "<code>derive verify --all --json runs/measured/verify.json</code> makes them, <code>make book</code> puts"
    assert bare.count("built without numbers of a run") == 2
    assert makes in bare and "<code>make bench</code> makes them" in bare
    measured = read_measured([written(tmp_path / "a.json", GOOD)])["tanh"]
    page = op_html(op_page(d, "family", measured=measured), Place("", "title"))
    assert "built without" not in page
    assert "<td>2.50e-16</td>" in page and "<td>1.75</td>" in page and "<code>derive check tanh</code>" in page
    half = op_html(op_page(d, "family", measured=Measured(errors=measured.errors)), Place("", "title"))
    assert half.count("built without") == 1
    mine = op_html(op_page(d, "family", file="my ops.py"), Place("", "title"))
    assert "<code>derive verify --from &#39;my ops.py&#39; --json verify.json</code>" in mine
    assert "<code>derive book --from &#39;my ops.py&#39; --measured runs/benchmarks.json</code>" in mine


def test_the_page_says_what_is_wrong(tmp_path: Path) -> None:
    verdict = {"situations": 25, "wrong in": 2, "wrong": ["dx[0] is 1, expected < 0"]}
    measured = read_measured([written(tmp_path / "a.json", GOOD | {"verified": {"tanh": verdict}})])["tanh"]
    page = op_html(op_page(derivation_of(find("tanh")), "family", measured=measured), Place("", "title"))
    assert "<b>Wrong</b> in 2 of 25 situations" in page and "<li>dx[0] is 1, expected &lt; 0</li>" in page
    assert "Right in all" not in page


def test_what_verify_and_the_benchmarks_find_stands_on_the_pages(tmp_path: Path) -> None:
    """As a user does it with a file of two ops, from the commands to the pages."""
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = [measure(row(op, "small"), 0.0, compiled=False, native=None, threads=1) for op in load_file(file)]
    written(tmp_path / "bench.json", as_json(found, {"PyTorch": "2"}, {}))
    verify = ["verify", "--from", "mine.py", "--json", "runs/verify.json"]
    show = ["book", "--from", "mine.py", "--measured", "runs/verify.json", "--measured", "bench.json", "--out", "site"]
    for arguments, last in ((verify, "runs/verify.json: written"), (show, "site/index.html: 7 files written")):
        command = [sys.executable, "-m", "derive.cli", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", last)
    for op, gradients in (("scaled", ["dx", "dw"]), ("cubes", ["dx"])):
        page = (tmp_path / "site" / "ops" / f"{op}.html").read_text()
        assert "Right in all 2" in page and "<code>derive verify --from mine.py</code>" in page
        assert "<code>make bench</code>, PyTorch 2." in page and "built without" not in page
        assert '<tr><th scope="row">forward + backward</th><td>' in page
        for name in gradients:
            half = rf'<th scope="row">{name}</th><td>bfloat16</td><td>[^<]+</td><td>float64</td><td>[^<]+</td></tr>'
            assert re.search(half, page)


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


def test_a_file_of_an_older_run_is_replaced_whole_and_anothers_stays(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "new" / "verify.json"
    write_measured(GOOD, file)
    write_measured(GOOD | {"command": "another"}, file)
    assert json.loads(file.read_text()) == GOOD | {"command": "another"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_measured(GOOD | {"ratios": math.inf}, file)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DeriveError, match=r"cannot write .*: No space left on device; name a file that can be written"):
        write_measured(GOOD, file)
    assert json.loads(file.read_text())["command"] == "another" and [*file.parent.iterdir()] == [file]
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    with pytest.raises(DeriveError, match=r"holds something else than measurements; delete it, or name another file"):
        write_measured(GOOD, tmp_path / "mine.json")
    with pytest.raises(DeriveError, match=r"is a folder; name a file in it, such as verify\.json"):
        check_target(tmp_path)
    assert (tmp_path / "mine.json").read_text() == '{"mine": 1}'
