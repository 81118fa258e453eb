"""The command `derive`, as a user runs it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest

from derive.catalogue import catalogue, find, load_file
from derive.output.package import HEADER, write_package
from tests.shell import derive, files

ROOT = Path(__file__).resolve().parents[1]

SPEC = '''
from derive import *
from derive.ops.activations import tanh

n, d = axes("n d")


@op
def scaled(f, x: tensor[n, d], w: tensor[d]):
    """A product."""
    f.y[n, d] = x[n, d] * w[d]
    return f.y


@op
def squashed(f, x: tensor[n, d], w: tensor[d]):
    """A product, squashed."""
    f.s = scaled(x, w)
    f.y = tanh(f.s)
    return f.y
'''


# --- what it prints ---------------------------------------------------------------------------------------------------


def test_version_and_list(tmp_path: Path) -> None:
    assert derive("--version", cwd=tmp_path).stdout == f"derive {version('handgrad')}\n"
    listed = derive("list", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in listed] == [op.name for op in catalogue()]
    assert next(line for line in listed if line.startswith("tanh ")).endswith("The hyperbolic tangent.")


def test_explain_prints_the_derivation_and_nothing_else(tmp_path: Path) -> None:
    done = derive("explain", "softmax_cross_entropy", "--size", "n=32", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "because sum(p[n, c'], over=c') = 1   by s, p" in done.stdout
    assert "bytes where n = 32, c = 64" in done.stdout
    assert files(tmp_path) == {}


def test_explain_goes_on_to_further_orders_and_to_tangents(tmp_path: Path) -> None:
    """Steps, closed form, what is saved; in LaTeX; the code as it is generated; as specs."""

    def shown(*arguments: str) -> str:
        return derive("explain", "softmax", *arguments, cwd=tmp_path).stdout

    second = shown("--order", "2")
    assert "whose backward is the double backward of softmax" in second
    assert "relation: sum(p[..., d'], over=d') = 1" in second
    assert "ddp[..., d] = p[..., d] * (ddx[..., d] - sum(ddx[..., d'] * p[..., d']," in second
    assert "softmax_gradients(ddx[..., d], dp[..., d], p[..., d]):" in second and "what could be kept" in second
    tangents = shown("--jvp", "--show", "program")
    assert "softmax_gradients(tx[..., d], p[..., d]):" in tangents and "return tp" in tangents
    assert r"\mathrm{tx}" in shown("--jvp", "--latex") and r"\documentclass" in shown("--order", "2", "--latex")
    code = (ROOT / "generated" / "orders" / "softmax.py").read_text(encoding="utf-8")
    assert shown("--order", "2", "--show", "code") == shown("--jvp", "--show", "code") == code
    assert "def softmax_gradients_jvp(f, x: tensor[..., d]," in shown("--order", "2", "--show", "specs")
    assert "return dddx, grad_x_, grad_dp" in shown("--order", "3", "--show", "program")
    page, both = ("--order", "2", "--html"), ("--jvp", "--cost")
    for refused, said in ((page, "op softmax: --html shows the page"), (both, "--jvp and --cost show different")):
        done = derive("explain", "softmax", *refused, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith(f"derive: {said}")


def test_a_schedule_is_of_the_kernels_that_are_generated(tmp_path: Path) -> None:
    """Which keep statistics alone, where the torch form keeps xhat."""
    forward, _ = derive("explain", "layernorm", "--show", "schedule", cwd=tmp_path).stdout.split("layernorm_backward")
    assert "in memory: mu, rstd, y\n" in forward and "made as read: x_minus_mu, xhat\n" in forward


def test_explain_writes_latex_and_code_that_can_be_piped(tmp_path: Path) -> None:
    source = derive("explain", "tanh", "--latex", cwd=tmp_path).stdout
    assert source.startswith("\\documentclass") and source.endswith("\\end{document}\n")
    write_package([find("tanh")], tmp_path / "package")
    code = derive("explain", "tanh", "--show", "code", cwd=tmp_path).stdout
    assert code == (tmp_path / "package" / "tanh.py").read_text()


def test_it_starts_without_torch(tmp_path: Path) -> None:
    script = "import sys, derive.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == 0


# --- what it writes ---------------------------------------------------------------------------------------------------


def package_of(*ops: str) -> set[str]:
    """The files of a package of the second order."""
    shared = {"__init__.py", "_derivatives.py", "_support.py", "orders/__init__.py", "orders/_transforms.py"}
    return shared | {f"{folder}{op}.py" for op in ops for folder in ("", "orders/")}


def test_a_package_of_the_first_order_is_what_it_was(tmp_path: Path) -> None:
    write_package([find("tanh")], tmp_path / "once")
    derive("generate", "tanh", "--out", "package", cwd=tmp_path)
    assert set(files(tmp_path / "package")) == package_of("tanh")
    again = derive("generate", "tanh", "--out", "package", "--order", "1", cwd=tmp_path)
    assert again.returncode == 0 and files(tmp_path / "package") == files(tmp_path / "once")
    third = derive("generate", "tanh", "--out", "package", "--order", "3", cwd=tmp_path)
    assert third.returncode == 2
    assert third.stderr.startswith("derive: op tanh: packages have derivatives of the first and second order")


def test_a_package_from_a_file_grows_and_is_left_alone_when_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SPEC)
    first = derive("generate", "scaled", "--from", "mine.py", "--out", "package", cwd=tmp_path)
    assert (first.returncode, first.stdout, first.stderr) == (0, "package: 7 files written\n", "")
    second = derive("generate", "squashed", "--from", "mine.py", "--out", "package", cwd=tmp_path)
    assert second.stdout == "package: 3 files written\n"

    package = tmp_path / "package"
    assert set(files(package)) == package_of("scaled", "squashed")
    exported = (package / "__init__.py").read_text()
    assert "from .scaled import scaled" in exported and "from .squashed import squashed" in exported

    times = {p: p.stat().st_mtime_ns for p in package.rglob("*.py")}
    again = derive("generate", "--from", "mine.py", "--out", "package", cwd=tmp_path)
    assert again.stdout == "package: up to date\n"
    assert {p: p.stat().st_mtime_ns for p in package.rglob("*.py")} == times

    script = "import torch, package; x = torch.ones(2, 3); print(package.squashed(x, x[0]).sum().item())"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ops_of_a_file_come_as_they_stand_in_it_whatever_words_they_are_named_for(tmp_path: Path) -> None:
    names = ["zeta", "tanh", "exp", "alpha"]
    ops = "".join(f"\n\n@op\ndef {n}(f, x: tensor[n]):\n    f.y[n] = 2 * x[n]\n    return f.y\n" for n in names)
    (tmp_path / "mine.py").write_text(f'from derive import *\n\nn = axes("n")\n{ops}')
    assert [op.name for op in load_file(tmp_path / "mine.py")] == names


def test_check_lists_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    missing = derive("generate", "tanh", "--out", "new", "--check", cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stdout.splitlines() == sorted(f"new/{name}" for name in package_of("tanh"))
    assert missing.stderr == "derive: new: 7 files not as the specs say; run the same command without --check\n"
    assert files(tmp_path) == {}

    write_package([find("tanh")], tmp_path / "new", order=2)
    same = derive("generate", "tanh", "--out", "new", "--check", cwd=tmp_path)
    assert (same.returncode, same.stdout, same.stderr) == (0, "new: up to date\n", "")

    changed = tmp_path / "new" / "tanh.py"
    changed.write_text(changed.read_text() + "\n")
    before = files(tmp_path)
    differs = derive("generate", "tanh", "--out", "new", "--check", cwd=tmp_path)
    assert (differs.returncode, differs.stdout) == (1, "new/tanh.py\n")
    assert differs.stderr == "derive: new: 1 file not as the specs say; run the same command without --check\n"
    assert files(tmp_path) == before


def test_a_module_whose_op_is_gone_goes_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SPEC)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "own.py").write_text("# a person's\n")
    write_package([find("tanh")], tmp_path / "package")
    derive("generate", "--from", "mine.py", "--out", "package", cwd=tmp_path)
    (tmp_path / "mine.py").write_text(SPEC.replace("scaled", "weighted"))

    checked = derive("generate", "--from", "mine.py", "--out", "package", "--check", cwd=tmp_path)
    assert "package/scaled.py" in checked.stdout.splitlines()
    derive("generate", "--from", "mine.py", "--out", "package", cwd=tmp_path)
    kept = {*package_of("squashed", "weighted"), "own.py", "tanh.py"}
    assert set(files(tmp_path / "package")) == kept
    exported = (tmp_path / "package" / "__init__.py").read_text()
    assert "scaled" not in exported and "own" not in exported and "from .tanh import tanh" in exported


def test_every_file_says_that_it_is_generated(tmp_path: Path) -> None:
    write_package([find("tanh")], tmp_path)
    assert [name for name, text in files(tmp_path).items() if not text.startswith(HEADER.encode())] == []


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    ops = ("batchnorm", "softmax_cross_entropy", "causal_attention")
    for seed in ("0", "1", "2"):
        done = derive("generate", *ops, "--out", seed, cwd=tmp_path, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
    assert files(tmp_path / "0") == files(tmp_path / "1") == files(tmp_path / "2")
    assert set(files(tmp_path / "0")) == {*package_of(*ops), "_functions.py"}


# --- what it refuses --------------------------------------------------------------------------------------------------

BAD = {
    "unknown op": (("generate", "tanh", "layrnorm"), "there is no op layrnorm; did you mean layernorm?"),
    "unknown op to explain": (("explain", "layrnorm"), "there is no op layrnorm; did you mean layernorm?"),
    "undeclared axis": (
        ("generate", "--from", "axis.py"),
        "op scaled, equation y: k is not defined (axis.py:11); "
        'declare an axis with k = axes("k"), or import the function',
    ),
    "undefined name": (
        ("generate", "--from", "name.py"),
        "op scaled, equation y: reads scale, which no equation defines (name.py:11); "
        "define scale in an equation before this one",
    ),
    "second of two ops": (
        ("generate", "--from", "second.py"),
        "op squashed, equation z: reads y, which no equation defines (second.py:19); "
        "define y in an equation before this one",
    ),
    "no file": (
        ("generate", "--from", "none.py"),
        "cannot read none.py: No such file or directory; give a file of specs",
    ),
    "no folder": (
        ("generate", "tanh", "--out", "axis.py"),
        "axis.py is not a folder; give another folder with --out",
    ),
    "no way to the folder": (
        ("generate", "tanh", "--out", "axis.py/package"),
        "cannot write to the folder axis.py/package: Not a directory; "
        "make it writable, or give another folder with --out",
    ),
    "no size": (
        ("explain", "tanh", "--size", "n"),
        "--size n is no length of an axis; write it as --size n=4096",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    (tmp_path / "axis.py").write_text(SPEC.replace("* w[d]", "* w[k]"))
    (tmp_path / "name.py").write_text(SPEC.replace("* w[d]", "* f.scale[d]"))
    (tmp_path / "second.py").write_text(SPEC.replace("f.y = tanh(f.s)", "f.z[n, d] = f.y[n, d]"))
    before = files(tmp_path)
    arguments, expected = BAD[case]
    done = derive(*arguments, cwd=tmp_path)
    assert done.stderr == f"derive: {expected}\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert files(tmp_path) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="no permission stops the superuser")
def test_a_read_only_folder_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir(mode=0o555)
    done = derive("generate", "tanh", "--out", "package", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "derive: cannot write to the folder package: Permission denied; "
        "make it writable, or give another folder with --out\n"
    )


def test_a_wrong_option_is_refused_without_a_traceback(tmp_path: Path) -> None:
    done = derive("generate", "--save", "everything", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "'everything'" in done.stderr
    assert files(tmp_path) == {}


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m derive.cli explain batchnorm | head -n 1"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("batchnorm(")


def test_an_op_that_has_no_kernel_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from sympy import polygamma\nfrom derive import *\n\n"
        "@op\ndef bend(f, p: tensor[...]):\n    f.y[...] = polygamma(1, p[...])\n    return f.y\n\n"
        "@op\ndef turn(f, p: tensor[...]):\n    f.y[...] = tanh(p[...])\n    return f.y\n"
    )
    ended = derive("generate", "--from", "mine.py", "--backend", "cpu", "--out", "kernels", cwd=tmp_path)
    assert ended.returncode == 0 and ended.stdout.splitlines() == [
        "kernels: 18 files written",
        "bend has no kernel and runs as PyTorch: the CPU backend has no loop for the function polygamma",
    ]
    assert derive("generate", "--from", "mine.py", "--out", "torch", cwd=tmp_path).stdout == "torch: 9 files written\n"


def test_an_input_that_nothing_reads_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from derive import *\nn, d, t, k, c = axes('n d t k c')\n\n@op\n"
        "def mine(f, x: tensor[n, d], u: tensor[n], m: constant[t], eps: scalar = 1e-5, groups: length(k) = 2,\n"
        "         width: length(c) = 1):\n"
        "    f.y[n, d] = x[n, d] * size(t) / size(c)\n    return f.y\n"
    )
    ended = derive("generate", "--from", "mine.py", "--out", "made", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1:] == [
        "mine never reads its input u: its gradient is 0",
        "mine never reads its input eps: it changes nothing",
        "mine never reads its input groups: it changes nothing",
    ]


def test_an_input_that_is_read_in_another_order_is_named(tmp_path: Path) -> None:
    """It is allowed, of square matrices; who wanted a transpose is told."""
    (tmp_path / "mine.py").write_text(
        "from derive import *\nn, d = axes('n d')\n\n"
        "@op\ndef mine(f, x: tensor[n, d], s: tensor[n, n]):\n"
        "    f.y[d, n] = x[d, n] + s[n, d]\n    return f.y\n"
    )
    ended = derive("generate", "--from", "mine.py", "--out", "made", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1:] == [
        "mine reads its input x[n, d] as x[d, n], so that these axes are one length; "
        "a transpose has its axes on the left: f.y[d, n] = x[n, d]",
    ]


EMPTY = "is given nothing; give it a value; where it is a path, this folder is ."


@pytest.mark.parametrize("command", [["verify", "tanh"], ["judge", "a.py:b", "--op", "tanh"]])
@pytest.mark.parametrize("seed", ["99999999999999999999999", "-1"])
def test_a_seed_is_one_that_every_generator_takes(command: list[str], seed: str, tmp_path: Path) -> None:
    ended = derive(*command, "--seed", seed, cwd=tmp_path)
    assert ended.returncode == 2 and "'--seed'" in ended.stderr and "Traceback" not in ended.stderr


def test_lengths_that_there_is_no_memory_for(tmp_path: Path) -> None:
    ended = derive("explain", "softmax", "--cost", "--size", "d=100000000000", cwd=tmp_path)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("derive: op softmax: needs ") and " GB of memory where " in ended.stderr
    assert "d = 100000000000" in ended.stderr and ended.stderr.endswith("; give shorter lengths with --size\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["explain", "mine.py"], "derive: there is no op mine.py; ops of a file are taken from it: --from mine.py\n"),
        (["explain", "qqqq"], "derive: there is no op qqqq; derive list names them all\n"),
        (["generate", "tanh", "--out", ""], f"derive: --out {EMPTY}\n"),
        (["generate", "--from", "", "--out", "made"], f"derive: --from {EMPTY}\n"),
        (["table", "tanh", "--out="], f"derive: --out {EMPTY}\n"),
        (["book", "--out", ""], f"derive: --out {EMPTY}\n"),
        (["new", "mine", "--out"], f"derive: --out {EMPTY}\n"),
        (["table", "tanh", "--out", "."], "derive: . is a folder; name a file in it, such as table.md\n"),
        (
            ["explain", "tanh", "--latex", "--html"],
            "derive: --latex and --html show different things; give one of them\n",
        ),
        (
            ["explain", "tanh", "--latex", "--show", "code"],
            "derive: --show and --latex show different things; give one of them\n",
        ),
        (
            ["explain", "tanh", "--cost", "--latex"],
            "derive: --latex and --cost show different things; give one of them\n",
        ),
        (["explain", "tanh", "--threads", "4"], "derive: --threads is for --cost; give both, or neither\n"),
        (["explain", "tanh", "--html", "--size", "...=3"], "derive: --size changes nothing of --html; leave it out\n"),
        (
            ["explain", "softmax", "--size", "d=3", "--size", "d=4"],
            "derive: --size gives axis d two lengths; give it one\n",
        ),
        (
            ["explain", "softmax", "--size", f"d={'9' * 5000}"],
            f"derive: --size d={'9' * 5000} is no length of an axis; write it as --size n=4096\n",
        ),
        (["list", "--from", "a.py", "--from", "b.py"], "derive: --from is given twice; give it once\n"),
        (["list", "--from=a.py", "--from", "b.py"], "derive: --from is given twice; give it once\n"),
        (["verify", "softmax", "--all"], "derive: ops are named, and --all is given; leave out one of the two\n"),
        (["generate", "mse", "--step"], "derive: --step is a kernel; give --backend cpu with it\n"),
        (
            ["explain", "tanh", "--cost", "--size", "...=0"],
            "derive: --size ...=0 is no length of an axis; write it as --size n=4096\n",
        ),
    ],
)
def test_an_option_that_cannot_be(arguments: list[str], expected: str, tmp_path: Path) -> None:
    ended = derive(*arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (2, expected) and list(tmp_path.iterdir()) == []


def test_two_at_once_into_one_folder_lose_nothing(tmp_path: Path) -> None:
    """Each waits where the other is between reading what the package exports and writing it."""
    names = ["tanh", "exp", "relu", "sigmoid"]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: write_package([find(name)], tmp_path / "package"), names))
    exported = (tmp_path / "package" / "__init__.py").read_text()
    assert all(f'"{name}_backward"' in exported for name in names), exported
