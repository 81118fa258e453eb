"""What a user can get wrong: each is one line that names op, equation, cause and remedy, word for word."""

import errno
import os
import re
from pathlib import Path

import pytest
import torch

from derive.catalogue import catalogue, find, load_file
from derive.emit.names import OURS
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.output.live import build
from derive.output.package import write_package
from derive.verify.verify import verify
from tests.mistakes_in_specs import MISTAKES

HEAD = '''from derive import *

n, d = axes("n d")


@op
def mine(f, x: tensor[n, d], w: tensor[d]):
    """A spec."""
'''


def message(spec: str, folder: Path) -> str:
    """The error that a file of specs ends in, its path written as `mine.py`."""
    file = folder / "mine.py"
    file.write_text(spec, encoding="utf-8")
    with pytest.raises(DeriveError) as refused:
        load_file(file)
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(str(file), "mine.py")


# --- unknown ops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tahn", "there is no op tahn; did you mean tanh?"),
        ("batch_norm", "there is no op batch_norm; did you mean batchnorm?"),
    ],
)
def test_an_unknown_op_is_answered_with_those_near_it(name: str, expected: str) -> None:
    known = [op for op in catalogue() if op.name in ("tanh", "batchnorm", "linear")]
    with pytest.raises(DeriveError) as refused:
        find(name, known)
    assert str(refused.value) == expected


def test_an_unknown_op_like_no_other_is_answered_with_all_of_a_file() -> None:
    known = [op for op in catalogue() if op.name in ("tanh", "linear")]
    with pytest.raises(DeriveError) as refused:
        find("qqqq", known)
    assert str(refused.value) == "there is no op qqqq; there are linear, tanh"


# --- what stands in a spec --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "f.y[n, d] = x[n, d] * w[k]",
            "op mine, equation y: k is not defined (mine.py:9); "
            'declare an axis with k = axes("k"), or import the function',
        ),
        (
            "f.y[n, k] = x[n, d]",
            "op mine, equation y: k is not defined (mine.py:9); "
            'declare an axis with k = axes("k"), or import the function',
        ),
        (
            "f.y[n, d] = x[n, d] * f.scale[n]",
            "op mine, equation y: reads scale, which no equation defines (mine.py:9); "
            "define scale in an equation before this one",
        ),
        (
            "f.xhat[n, d] = x[n, d] * 2\n    f.y[n, d] = f.xhet[n, d]",
            "op mine, equation y: reads xhet, which no equation defines (mine.py:10); did you mean xhat?",
        ),
        (
            "f.y[n] = x[n, d]",
            "op mine, equation y: axis d stands on the right only (mine.py:9); "
            "put d on the left, or say how it is reduced: sum(…, over=d); its length is size(d)",
        ),
        (
            "f.y[n, d] = x[n] * w[d]",
            "op mine, equation y: x has axes [n, d] but is read as x[n] (mine.py:9); give x exactly 2 indices",
        ),
        (
            "f.y[n, d] = x * w[d]",
            "op mine, equation y: x is used without its axes (mine.py:9); read one element: x[n, d]",
        ),
        (
            "f.y[n, d] = x[n, d] + 'a'.upper",
            "op mine, equation y: Python cannot do this with an expression (unsupported operand type(s) for +: "
            "'At' and 'builtin_function_or_method') (mine.py:9); use & and | for conditions, where() for a choice, "
            "maximum() and minimum(), and functions from derive",
        ),
    ],
)
def test_an_equation_that_cannot_be(body: str, expected: str, tmp_path: Path) -> None:
    assert message(f"{HEAD}    {body}\n    return f.y\n", tmp_path) == expected


def test_an_axis_of_an_input_that_is_not_declared(tmp_path: Path) -> None:
    spec = HEAD.replace("tensor[d]", "tensor[k]") + "    f.y[n, d] = x[n, d]\n    return f.y\n"
    expected = (
        "op mine: k is not defined (mine.py:{}); " 'declare an axis with k = axes("k"), or import the function'
    )  # which line of a decorated function fails differs between Pythons
    assert message(spec, tmp_path) in (expected.format(6), expected.format(7))


def test_an_output_that_nothing_defines(tmp_path: Path) -> None:
    assert message(HEAD + "    f.y[n, d] = x[n, d]\n    return f.z\n", tmp_path) == (
        "op mine: returns z, which no equation defines (mine.py:10); write f.z[…] = …"
    )


def test_what_is_returned_is_told_of_the_line_that_returns_it(tmp_path: Path) -> None:
    """Not of the decorator's, nor of one of a helper inside."""
    told = {
        "f.y, f.y": "returns y twice (mine.py:14); return each tensor once",
        "()": "the spec returns nothing (mine.py:14); end it with return f.y",
        "None": "the spec returns nothing (mine.py:14); end it with return f.y",
        "x": "returns its input x (mine.py:14); return what an equation defines, such as f.y",
    }
    body = "    def twice(v):\n        return v + v\n\n    f.y[n, d] = twice(x[n, d])\n\n    return "
    for returned, line in told.items():
        assert message(f"{HEAD}{body}{returned}\n", tmp_path) == f"op mine: {line}"


RAISED = {
    "raise Exception('boom')": "Exception: boom",
    "raise Odd('boom')": "Odd: boom",
    "next(iter([]))": "StopIteration",
    "raise MemoryError": "MemoryError",
    "raise UserWarning('w')": "UserWarning: w",
    "raise BaseException('odd')": "BaseException: odd",
    "raise ValueError('a\\nb')": "ValueError: a b",
    "raise SystemExit(0)": "it ends Python, as exit() does",
    "exit()": "it ends Python, as exit() does",
}


@pytest.mark.parametrize("raised", RAISED)
def test_whatever_a_file_of_specs_raises_is_one_line(raised: str, tmp_path: Path) -> None:
    """At its top, in an op, and in a helper of an equation."""
    head = f"class Odd(Exception):\n    pass\n\n\ndef helper(x):\n    {raised}\n\n\n{HEAD}"
    end = "    return f.y\n"
    told = f"{RAISED[raised]} (mine.py:{{}}); correct the spec"
    assert message(f"class Odd(Exception):\n    pass\n{raised}\n", tmp_path) == told.format(3)
    assert message(f"{head}    {raised}\n{end}", tmp_path) == f"op mine: {told.format(17)}"
    called = message(f"{head}    f.y[n, d] = helper(x[n, d])\n{end}", tmp_path)
    assert called == f"op mine, equation y: {told.format(6)}"


def test_the_working_folder_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of specs, named from there, may change it as it is read."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    spec = HEAD + "    os.chdir('..')\n    f.y[n, d] = x[n, d] * w[k]\n    return f.y\n"
    Path("mine.py").write_text("import os\n" + spec)
    with pytest.raises(DeriveError) as refused:
        load_file("mine.py")
    assert str(refused.value).startswith("op mine, equation y: k is not defined (mine.py:11)")
    Path("mine.py").write_text("import os\n" + spec.replace("w[k]", "w[d]"))
    assert [op.name for op in load_file("mine.py")] == ["mine"]
    assert Path.cwd() == tmp_path / "here"


def test_a_mark_of_the_order_of_bytes_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HEAD + "    f.y[n, d] = x[n, d]\n    return f.y\n", encoding="utf-8-sig")
    assert [op.name for op in load_file(tmp_path / "mine.py")] == ["mine"]


@pytest.mark.parametrize("module", ["sympy", "torch"])
def test_a_word_that_a_later_import_hides(module: str, tmp_path: Path) -> None:
    head = HEAD.replace("import *", f"import *\nfrom {module} import *", 1)
    told = message(head + "    f.y[n, d] = x[n, d]\n    return f.y\n", tmp_path)
    assert told.startswith("op mine: tensor is no kind of input here (")
    assert told.endswith("a later import has hidden it: put `from derive import tensor` below the others")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "mine.py defines no op; decorate a function of equations with @op"),
        (
            "from derive.ops.activations import tanh\n",
            "mine.py defines no op; decorate a function of equations with @op",
        ),
        ("def f(:\n", "op f: invalid syntax (mine.py:1); a spec is ordinary Python"),
        ("\n1 / 0\n", "ZeroDivisionError: division by zero (mine.py:2); correct the spec"),
        ("import nosuch\n", "ModuleNotFoundError: No module named 'nosuch' (mine.py:1); correct the spec"),
    ],
)
def test_a_file_that_is_no_file_of_specs(text: str, expected: str, tmp_path: Path) -> None:
    assert message(text, tmp_path) == expected


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DeriveError) as refused:
        load_file(tmp_path / "none.py")
    assert str(refused.value) == (
        f"cannot read {tmp_path / 'none.py'}: No such file or directory; give a file of specs"
    )
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    with pytest.raises(DeriveError) as refused:
        load_file(tmp_path / "bytes.py")
    assert str(refused.value) == f"{tmp_path / 'bytes.py'} is not UTF-8 text; save it as UTF-8"


def test_two_ops_of_one_name(tmp_path: Path) -> None:
    spec = HEAD + "    f.y[n, d] = x[n, d]\n    return f.y\n"
    again = spec[spec.index("@op") :].replace('"""A spec."""', '"""Another."""')
    for between in ("other = mine", ""):  # without it Python has the second alone
        assert message(f"{spec}\n{between}\n{again}", tmp_path) == (
            "op mine is defined twice in mine.py; give one of them another name"
        )


# --- where the package goes -------------------------------------------------------------------------------------------


def refusal(out: Path) -> str:
    with pytest.raises(DeriveError) as refused:
        write_package([find("tanh")], out)
    return str(refused.value)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    out = tmp_path / "taken"
    out.write_text("mine")
    assert refusal(out) == f"{out} is not a folder; give another folder with --out"
    assert refusal(out / "below") == (
        f"cannot write to the folder {out / 'below'}: Not a directory; "
        "make it writable, or give another folder with --out"
    )
    assert out.read_text() == "mine"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_folder_that_cannot_be_written_is_left_as_it_was(
    code: int, moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, whom no permission stops: the refusal is made up, at each of the three files."""
    out = tmp_path / "new" / "package"
    replace, count = os.replace, 0

    def refuse(source: Path, target: Path) -> None:
        nonlocal count
        count += 1
        if count == moment:
            raise OSError(code, os.strerror(code), str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    assert refusal(out) == (
        f"cannot write to the folder {out}: {os.strerror(code)}; make it writable, or give another folder with --out"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_cannot_be_renewed_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package([find("tanh")], tmp_path)
    (tmp_path / "tanh.py").write_text("# Generated by Handgrad from an older spec. Do not edit\n")
    before = {p.name: p.read_text() for p in tmp_path.iterdir()}

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(target))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(DeriveError):
        write_package([find("tanh"), find("linear")], tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["__init__.py", "tanh.py", "_support.py"])
def test_a_file_that_handgrad_did_not_write_is_never_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("# mine\n")
    assert refusal(tmp_path) == (f"{tmp_path / name} was not written by Handgrad; give another folder with --out")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {name: "# mine\n"}


def test_an_op_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(derivation, *more) -> str:
        raise DeriveError("it cannot be", op=derivation.op.name)

    monkeypatch.setattr("derive.output.package.rendered", fail)
    assert refusal(tmp_path / "new") == "op tanh: it cannot be"
    assert list(tmp_path.iterdir()) == []


# --- what a newcomer writes, and what he is told ----------------------------------------------------------------------


@pytest.mark.parametrize(("inputs", "body", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_remedy(inputs: str | None, body: str, expected: str, tmp_path: Path) -> None:
    head = 'from derive import *\n\nn, d, t, e, k, i, j, c, o = axes("n d t e k i j c o")\n'
    spec = body if inputs is None else f"@op\ndef mine({inputs}):\n    {body}\n"
    told = re.sub(r" \(mine\.py:\d+\)", "", message(head + spec, tmp_path))
    assert told == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@op\ndef mine(f):\n    f.y[] = 1\n", "op mine: invalid syntax (mine.py:3)"),
        ("@op\ndef mine(\n    f,\n):\n    f.y[] = 1\n", "op mine: invalid syntax (mine.py:5)"),
        ("@op\ndef mine(f):\n    return f.y\n\n\nx = 1 +\n", "invalid syntax (mine.py:6)"),
    ],
)
def test_what_python_cannot_read_is_told_of_the_op_that_it_stands_in(text: str, told: str, tmp_path: Path) -> None:
    assert message(text, tmp_path).startswith(told)


def test_the_line_is_that_of_the_equation_also_where_the_whole_op_is_told(tmp_path: Path) -> None:
    spec = 'from derive import *\n\nn, q = axes("n q=2")\n\n\n@op\ndef mine(f, x: tensor[n, q]):\n'
    spec += "    f.z[n] = x[n, 1]\n    f.y[n] = f.z[n] * x[n, 2]\n    return f.y\n"
    assert "(mine.py:9)" in message(spec, tmp_path)


# --- names ------------------------------------------------------------------------------------------------------------

NAMED = """from derive import *

n, d = axes("n d")


@op
def {op}(f, {input}: tensor[n, d], w: tensor[d]):
    f.{inner}[n, d] = w[d] * {input}[n, d]
    f.{output}[()] = sum(exp(f.{inner}[n, d]), over=(n, d))
    return f.{output}
"""


def named(folder: Path, **names: str) -> Path:
    file = folder / "mine.py"
    file.write_text(NAMED.format(**{"op": "mine", "input": "x", "inner": "z", "output": "y"} | names))
    return file


def _is_right(op: Op, name: str = "x") -> None:
    """Values and gradients, with the first input by its name as well."""
    made = build(op)
    x, w = torch.randn(3, 2, requires_grad=True), torch.randn(2, requires_grad=True)
    wanted = torch.autograd.grad((x * w).exp().sum(), (x, w))
    for y in (made(x, w), made(**{name: x, "w": w})):
        torch.testing.assert_close(y, (x * w).exp().sum())
        torch.testing.assert_close(torch.autograd.grad(y, (x, w)), wanted)


OTHERS = ["mine", "mine_forward", "MineSaved", "_x", "_torch", "_Mine", "out", "needs", "group", "ctx", "len"]


MANY = sorted(OURS - {"torch", "saved", "range", "polynomial", "sum"})  # no word `sum` beside an input of that name


@pytest.mark.parametrize("name", ["torch", "saved", "range", "polynomial", *MANY[::4], *OTHERS])
def test_an_input_may_have_any_name(name: str, tmp_path: Path) -> None:
    """What the module calls so itself has another name in its functions."""
    (op,) = load_file(named(tmp_path, input=name))
    _is_right(op, name)


def test_one_name_is_not_an_input_and_an_equation(tmp_path: Path) -> None:
    with pytest.raises(DeriveError, match=r"equation torch: torch is an input .*; give the equation another name"):
        load_file(named(tmp_path, input="torch", output="torch"))


@pytest.mark.parametrize("name", ["torch", "out", "found", "zip"])
@pytest.mark.parametrize("backend", ["torch", "cpu"])
def test_an_input_of_any_name_in_a_package(name: str, backend: str, tmp_path: Path) -> None:
    """With kernels, and functions that write over old results, whose parameter is `out_` beside an input `out`."""
    ops = load_file(named(tmp_path, input=name))
    write_package(ops, tmp_path / f"of_{name}", backend=backend, workspace=True)
    code = (tmp_path / f"of_{name}" / "mine.py").read_text()
    assert f"def mine_forward({name}: Tensor, w: Tensor)" in code and f"def mine({name}: Tensor, w: Tensor)" in code
    assert ("*, out_: " in code) == (name == "out")
    found = verify(ops[0])
    assert found.right, [(row.line, [str(d) for d in row.wrong]) for row in found.rows if row.wrong]


@pytest.mark.parametrize("name", ["keep_in", "check_shapes", "torch", "gradients_of", "NamedTuple"])
def test_an_op_is_not_called_by_what_its_module_uses(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeriveError) as refused:
        write_package(load_file(named(tmp_path, op=name)), tmp_path / "out")
    assert str(refused.value) == f"op {name}: its module uses that name itself; give the op another name"


@pytest.mark.parametrize("name", ["_mine", "_native", "__init__", "_Mine"])
def test_a_package_has_no_op_of_a_private_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(DeriveError) as refused:
        write_package(load_file(named(tmp_path, op=name)), tmp_path / "out")
    assert str(refused.value) == (
        f"op {name}: its name begins with an underscore; begin it with a letter, such as my_op"
    )


def two_ops(folder: Path, one: str, other: str) -> list:
    """Two ops of these names, of files of their own."""
    ops = []
    for name in (one, other):
        (folder / name).mkdir()
        ops += load_file(named(folder / name, op=name))
    return ops


FIX_OF_NAMES = "give one of them another name, or generate it into a folder of its own"


@pytest.mark.parametrize("more", ["forward", "backward", "forward_out", "backward_out"])
def test_two_ops_of_a_package_have_no_function_in_common(more: str, tmp_path: Path) -> None:
    """The package would have one of them for both: which, its imports' order decides."""
    ops, out = two_ops(tmp_path, "mine", f"mine_{more}"), tmp_path / "out"
    told = f"op mine_{more}: its module and that of mine both define mine_{more}; {FIX_OF_NAMES}"
    for given in (ops, ops[::-1]):
        with pytest.raises(DeriveError) as refused:
            write_package(given, out, workspace=True)
        assert str(refused.value) == told and not out.exists()
    if not more.endswith("out"):  # which few packages have
        write_package(ops[:1], out)
        before = {p.name: p.read_text() for p in out.iterdir()}
        with pytest.raises(DeriveError) as refused:
            write_package(ops[1:], out)
        assert str(refused.value) == told
        assert {p.name: p.read_text() for p in out.iterdir()} == before


def test_two_ops_of_a_package_differ_in_more_than_case(tmp_path: Path) -> None:
    ops, out = two_ops(tmp_path, "my_op", "MY_OP"), tmp_path / "out"
    with pytest.raises(DeriveError) as refused:
        write_package(ops, out)
    assert str(refused.value) == (
        "op my_op: its name is MY_OP but for capital letters, and some systems have one file for both; " + FIX_OF_NAMES
    )
    assert not out.exists()


@pytest.mark.parametrize("name", [*sorted(OURS)[::3], "torch", "self", "mine_forward", "MineSaved", "out", "ctx"])
def test_an_equation_may_have_any_other_name(name: str, tmp_path: Path) -> None:
    for where in ("inner", "output"):
        (op,) = load_file(named(tmp_path, **{where: name}))
        _is_right(op)


@pytest.mark.parametrize("name", sorted(OURS))
def test_an_equation_set_aside_is_no_input(name: str, tmp_path: Path) -> None:
    """An underscore more is a name that an input may have."""
    (op,) = load_file(named(tmp_path, inner=name, input=f"{name}_"))
    x, w = torch.randn(3, 2, requires_grad=True), torch.randn(2, requires_grad=True)
    y = build(op)(x, w)
    torch.testing.assert_close(y, (x * w).exp().sum())
    wanted = torch.autograd.grad((x * w).exp().sum(), (x, w))
    torch.testing.assert_close(torch.autograd.grad(y, (x, w)), wanted)


@pytest.mark.parametrize("name", ["ctx", "keep", "kept", "ratio", "places", "patches"])
def test_what_people_call_their_tensors(name: str, tmp_path: Path) -> None:
    """The context of attention beside autograd's own, the mask of a dropout."""
    for where in ("input", "output"):
        (op,) = load_file(named(tmp_path, **{where: name}))
        x, w = torch.randn(3, 2, requires_grad=True), torch.randn(2, requires_grad=True)
        y = build(op)(x, w)
        wanted = torch.autograd.grad((x * w).exp().sum(), (x, w))
        torch.testing.assert_close(torch.autograd.grad(y, (x, w)), wanted)


def test_an_op_without_an_input_to_differentiate_by(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        HEAD.replace("tensor[n, d], w: tensor[d]", "constant[n, d]") + "    f.y[n] = x[n, 0]\n    return f.y\n"
    )
    with pytest.raises(DeriveError) as refused:
        write_package(load_file(tmp_path / "mine.py"), tmp_path / "out")
    assert str(refused.value) == "op mine: no input has a gradient; declare an input as tensor[…]"
    assert not (tmp_path / "out").exists()
