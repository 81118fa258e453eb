"""`derive verify` and `derive judge`, as a user runs them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from derive.catalogue import find, load_file
from derive.verify.battery import cases
from derive.verify.cases import Call
from derive.verify.compare import Answer, disagreements
from derive.verify.record import record
from derive.verify.subjects import of_live, parts
from derive.verify.verify import verify

GOOD = "def backward(dy, x):\n    return dy * (1 - x.tanh() ** 2)\n"
BAD = "def backward(dy, x):\n    return dy * (1 - x.tanh())\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    return tmp_path


def test_verify_prints_the_familiar_line(derive, tmp_path: Path) -> None:
    done = derive("verify", "tanh")
    line, summary = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert line.startswith("dx               | exact: ") and "| approximate: True  | maxdiff: " in line
    assert summary == "tanh, 1 gradient: right in 28 situations"


def test_what_cannot_be_run_is_named_and_the_others_are_verified(derive, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(call: Call) -> Answer:
        raise RuntimeError("the size of tensor a must match the size of tensor b")

    made = of_live
    monkeypatch.setattr(
        "derive.verify.verify.of_live", lambda live: stopped if live.derivation.op.name == "tanh" else made(live)
    )
    done = derive("verify", "tanh", "relu")
    first, why = done.stdout.splitlines()[:2]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert first.split(" | ") == [f"{'tanh':34}", "cannot be run"]
    assert why == "    wrong: ordinary: RuntimeError: the size of tensor a must match the size of tensor b"
    assert done.stdout.splitlines()[-1] == "2 ops, 1 gradient: wrong: tanh"


NOWHERE = """from derive import *
d = axes("d")

@op
def nowhere(f, x: tensor[d]):
    f.y[d] = log(-abs(x[d]) - 1)
    return f.y

@op
def behind(f, x: tensor[d]):
    f.y[d] = x[d] ** 3
    return f.y
"""


def test_what_has_no_inputs_is_named_and_the_others_are_verified(derive, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NOWHERE)
    done = derive("verify", "--from", "mine.py")
    first, second, summary = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert first.startswith(f"{'nowhere':34} | not verified: found no inputs at which the op is finite; declare what")
    assert second.startswith("behind.dx ")
    assert summary == "behind, 1 gradient: right in 21 situations; not verified: nowhere"
    alone = derive("verify", "nowhere", "--from", "mine.py")
    assert alone.returncode == 2
    assert alone.stderr.startswith("derive: op nowhere: found no inputs at which the op is finite; ")


def test_verify_in_full_names_what_stands_beside_it(derive, tmp_path: Path) -> None:
    done = derive("verify", "gelu", "--full", "--native", "torch.nn.functional.gelu")
    assert done.returncode == 0
    assert "bfloat16   native" in " ".join(done.stdout.split("\n")[1:3]) or "native" in done.stdout
    assert "25/25  right" in done.stdout


def test_verify_takes_ops_from_a_file_and_draws(derive, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from derive import *\nd = axes('d')\n\n"
        "@op\ndef mine(f, x: tensor[..., d]):\n    f.y[...] = sum(x[..., d] ** 3, over=d)\n    return f.y\n"
    )
    done = derive("verify", "--from", "mine.py", "--plot", "u.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["mine, 1 gradient: right in 25 situations", "u.svg: written"]
    assert "finite differences against the derived gradient" in (tmp_path / "u.svg").read_text()


def test_verify_writes_its_numbers_as_data(derive, tmp_path: Path) -> None:
    done = derive("verify", "tanh", "--seed", "3", "--json", "out.json")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "out.json: written")
    text = (tmp_path / "out.json").read_text()
    data = json.loads(text)
    assert (data["handgrad"], data["command"]) == ("measured/1", "derive verify tanh --seed 3")
    assert data["verified"] == {"tanh": {"situations": 28, "wrong in": 0, "wrong": []}}
    assert [(e["of"], e["dtype"], e.get("they")) for e in data["errors"]["tanh"]] == [
        *[("dx", "float64", None)] * 3,
        ("dx", "float32", "autograd"),
        ("dx", "bfloat16", "autograd"),
    ]
    assert all(0 <= e["relative"] < 1e-10 for e in data["errors"]["tanh"] if e["dtype"] == "float64")
    derive("verify", "tanh", "--seed", "3", "--json", "out.json")
    assert (tmp_path / "out.json").read_text() == text
    (tmp_path / "out.json").write_text("mine")
    refused = derive("verify", "tanh", "--json", "out.json")
    assert (refused.returncode, refused.stdout) == (2, "")  # before anything was run
    assert "out.json holds something else than measurements" in refused.stderr
    assert (tmp_path / "out.json").read_text() == "mine"


def test_what_is_wrong_is_in_the_data_and_what_is_not_finite_is_not(tmp_path: Path) -> None:
    found = verify(find("tanh"))
    (row,) = found.rows
    missing = tuple(d for case in cases(found.op) for d in disagreements(case, lambda call: Answer({"x": None})))
    data = record([replace(found, rows=(replace(row, autograd=float("inf"), wrong=missing),))], "command")
    assert data["verified"]["tanh"]["wrong in"] > 0
    assert len(data["verified"]["tanh"]["wrong"]) == len(missing)
    assert [e["against"] for e in data["errors"]["tanh"] if e["dtype"] == "float64"] == [
        "finite differences",
        "the stepwise form",
    ]


@pytest.mark.parametrize("name", ["forward_out", "backward_out"])
def test_memory_that_is_used_again_is_verified_too(monkeypatch, name: str) -> None:
    kept = {name: lambda *given, out, **numbers: out}  # which writes nothing
    monkeypatch.setattr("derive.verify.verify.parts", lambda live: parts(live) | kept)
    found = verify(find("tanh"))
    told = [d.message for d in (*found.wrong, *found.rows[0].wrong)]
    assert told and not found.right and all(text.endswith(" by tanh_backward_out") for text in told)


def test_an_op_with_an_input_called_out_is_verified_without(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from derive import *\nn = axes('n')\n@op\ndef mine(f, out: tensor[n]):\n"
        "    f.y[n] = tanh(out[n])\n    return f.y\n"
    )
    (op,) = load_file(tmp_path / "mine.py")
    assert verify(op).right


def test_judge_ends_with_0_for_right_and_1_for_wrong(derive, file: Path) -> None:
    good = derive("judge", "good.py:backward", "--op", "tanh")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout == "tanh: right\n  agrees with the derived backward in 28 situations\n"
    bad = derive("judge", "bad.py:backward", "--op", "tanh")
    assert (bad.returncode, bad.stderr) == (1, "")
    assert bad.stdout.startswith("tanh: wrong (") and "smallest counterexample" in bad.stdout


def test_judge_proves_a_formula(derive, tmp_path: Path) -> None:
    done = derive("judge", "--formula", "dx[...] = dy[...]*(1 - y[...]**2)", "--op", "tanh")
    assert done.returncode == 0
    assert "proved: dx: the difference from the derived gradient has the normal form 0" in done.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["verify"], "no op to verify; name one, or give --all"),
        (["verify", "tahn"], "there is no op tahn; did you mean tanh?"),
        (["verify", "--all", "--plot", "u.png"], "--plot is for one op; name one op"),
        (["verify", "tanh", "--plot", "u.foo"], "--plot u.foo: no such format; end the name in one of "),
        (["verify", "tanh", "--native", "torch.nn.functional.tahn"], "there is no function torch.nn.functional.tahn"),
        (["verify", "tanh", "--native", "torch.sin"], "op tanh: the native forward computes another y"),
        (["judge", "good.py:backward"], "backward is a function, whose forward is not known; give --forward FILE"),
        (["judge", "--formula", "dx = dy"], "no op to judge a formula by; name it with --op OP"),
        (["judge", "good.py:backward", "--op", "tanh", "--inputs", "x: [d]"], "--inputs is for what no op is named"),
        (["judge", "--op", "tanh"], "nothing to judge, or two things; give FILE.py:NAME or --formula TEXT"),
        (["judge", "good.py:backwards", "--op", "tanh"], "good.py has no backwards; did you mean backward?"),
        (["judge", "good.py:backward", "--op", "layernorm"], "write it as backward(dy, x, gamma, beta)"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_2(derive, file: Path, arguments: list[str], message: str) -> None:
    done = derive(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1
