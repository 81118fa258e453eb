"""`python -m tests.mutation.engine --count 100 --seed 0`: mistakes in the engine itself, and what catches each.

A mutant is one condition turned round, one sign, number or order changed in a function of the rooms between the
notation and the backends. First every spec of the corpus is read and derived once, and what is to be spoiled is
evaluated both ways there: a spec in which the two are the same at every turn cannot tell the mutant. Of the others it
is caught where one is derived otherwise than the record says, or not at all; else where a test of its room fails. A run
that was cut off goes on.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import importlib
import inspect
import json
import os
import pkgutil
import random
import runpy
import signal
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import typer
from rich.progress import track
from sympy.core.cache import clear_cache

import derive
from derive.emit import render
from derive.errors import DeriveError
from derive.ir.equations import Op
from derive.notation.spec import OpCall
from derive.pipeline import derive_op
from tests.corpus import Spec, corpus
from tests.corpus.measured import counted, functions_of
from tests.corpus.recorded import recorded

ROOT = Path(__file__).parents[2]
ROOMS = ("facts", "rules", "adjoint", "contract", "schedule", "collapse")
MOST_SPECS, MOST_SECONDS = 40, 60
RUNS = ROOT / "runs" / "mutation"


@dataclass(frozen=True)
class Mutant:
    """A function of a module, and which of the mistakes that can be made in it."""

    module: str
    function: str
    number: int
    said: str

    @property
    def key(self) -> str:
        """What tells it from others, as a reader sees it."""
        return f"{self.module}.{self.function} {self.number} {self.said}"

    @property
    def room(self) -> str:
        return self.module.split(".")[1]


class _TooLongError(Exception):
    pass


# What a mistake may lead to.
_WHATEVER = (
    DeriveError, _TooLongError, ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RecursionError,
    RuntimeError, StopIteration, TypeError, ValueError,
)  # fmt: skip


# --- making mistakes ------------------------------------------------------------------------------------------------

_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip


def _mistakes(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Each way to spoil a node where it stands."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield lambda: node.ops.__setitem__(0, _OTHER[type(node.ops[0])]())
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _OTHER and not _is_of_types(node):
        yield lambda: setattr(node, "op", _OTHER[type(node.op)]())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.If | ast.IfExp):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        yield lambda: setattr(node, "value", not node.value if isinstance(node.value, bool) else node.value + 1)
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        yield lambda: node.value.elts.reverse()  # type: ignore[union-attr]


def _is_of_types(node: ast.AST) -> bool:
    """Whether it is `Add | Mul`, which every run of it would tell."""
    return isinstance(node, ast.BinOp) and isinstance(node.right, ast.Name) and node.right.id[:1].isupper()


def _nodes(tree: ast.FunctionDef) -> list[ast.AST]:
    """What runs when the function is called: no defaults, no annotations."""
    return [n for statement in tree.body for n in ast.walk(statement)]


def _tree(function: FunctionType) -> ast.FunctionDef:
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(made, ast.FunctionDef)
    made.decorator_list = []
    return made


def _spoiled(function: FunctionType) -> Iterator[tuple[ast.FunctionDef, str]]:
    """A function's tree with each mistake in turn, and the line that has it."""
    for tree, _, said in _spoils(function):
        yield tree, said


def _spoils(function: FunctionType) -> Iterator[tuple[ast.FunctionDef, ast.AST, str]]:
    """A function's tree with each mistake in turn, where it stands, and the line that has it."""
    count = sum(1 for n in _nodes(_tree(function)) for _ in _mistakes(n))
    for k in range(count):
        tree = _tree(function)
        node, make = [(n, m) for n in _nodes(tree) for m in _mistakes(n)][k]
        before = ast.unparse(node).splitlines()[0]
        make()
        yield tree, node, f"{before} -> {ast.unparse(node).splitlines()[0]}"


def _functions() -> dict[tuple[str, str], FunctionType]:
    """The functions of the rooms, without their decorators."""
    found = {}
    names = [m.name for m in pkgutil.walk_packages(derive.__path__, "derive.") if m.name.split(".")[1] in ROOMS]
    for module in map(importlib.import_module, names):
        for name, value in vars(module).items():
            own = inspect.unwrap(value) if callable(value) else None
            if isinstance(own, FunctionType) and own.__module__ == module.__name__ and own.__name__ == name:
                found[module.__name__, name] = own
    return found


def mutants() -> list[Mutant]:
    """Every mistake in every function."""
    return [
        Mutant(module, name, k, said)
        for (module, name), function in sorted(_functions().items())
        for k, (_, said) in enumerate(_spoiled(function))
    ]


@contextmanager
def evaluated_both_ways(drawn: Sequence[Mutant]) -> Iterator[set[str]]:
    """The engine unspoiled, and the mutants whose spoiled place has been evaluated to another value."""
    told: set[str] = set()

    def tell(key: str, value: Any, spoiled: Callable[[], Any]) -> Any:
        try:
            other = spoiled()
        except _WHATEVER:
            other = tell
        if key not in told and (type(other) is not type(value) or other != value):
            told.add(key)
        return value

    functions = _functions()
    before = {key: functions[key].__code__ for key in {(m.module, m.function) for m in drawn}}
    for key, code in before.items():
        own = [m for m in drawn if (m.module, m.function) == key]
        space: dict[str, Any] = {}
        module = ast.fix_missing_locations(ast.Module([_both_ways(functions[key], own)], []))
        functions[key].__globals__["_tell_apart"] = tell
        exec(compile(module, code.co_filename, "exec"), functions[key].__globals__, space)
        functions[key].__code__ = space[key[1]].__code__
    try:
        yield told
    finally:
        for key, code in before.items():
            functions[key].__code__ = code
        _forget()


def _both_ways(function: FunctionType, drawn: Sequence[Mutant]) -> ast.FunctionDef:
    """A function's tree in which each mutant's place is `_tell_apart(key, value, lambda: spoiled value)`."""
    tree = _tree(function)
    places = [node for node in _nodes(tree) for _ in _mistakes(node)]
    spoiled = [list(_spoils(function))[m.number][1] for m in drawn]
    put: dict[ast.AST, list[tuple[str, ast.expr]]] = defaultdict(list)
    for mutant, other in zip(drawn, spoiled, strict=True):
        place = places[mutant.number]
        put[_value_of(place)].append((mutant.key, _value_of(other)))

    class Wrapped(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, ast.match_case):  # a pattern is no expression
                node.body = [self.visit(n) for n in node.body]
                return node
            made: Any = self.generic_visit(node)
            for key, other in put.get(node, ()):
                thunk = ast.Lambda(ast.arguments([], [], None, [], [], None, []), other)
                made = ast.Call(ast.Name("_tell_apart", ast.Load()), [ast.Constant(key), made, thunk], [])
            return made

    wrapped = Wrapped().visit(tree)
    assert isinstance(wrapped, ast.FunctionDef)
    return wrapped


def _value_of(place: ast.AST) -> Any:
    """What is evaluated at a mistake's place: the condition of an `if`, the value of a `return`, else itself."""
    if isinstance(place, ast.If | ast.IfExp):
        return place.test
    return place.value if isinstance(place, ast.Return) else place


@contextmanager
def made(mutant: Mutant) -> Iterator[None]:
    """The engine with this mistake in it, and nothing remembered from before or after."""
    function = _functions()[mutant.module, mutant.function]
    tree, _ = list(_spoiled(function))[mutant.number]
    module = ast.fix_missing_locations(ast.Module([tree], []))
    space: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec"), function.__globals__, space)
    before = function.__code__
    function.__code__ = space[mutant.function].__code__
    _forget()
    try:
        yield
    finally:
        function.__code__ = before
        _forget()


def _forget() -> None:
    """Empty what SymPy and the engine remember; others' caches, as PyTorch's compiler has them, are not ours."""
    clear_cache()
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper) and str(found.__module__).startswith("derive."):
            found.cache_clear()


# --- catching them --------------------------------------------------------------------------------------------------


def _told_apart(drawn: Sequence[Mutant]) -> dict[str, list[str]]:
    """By mutant: the specs in which what it spoils has another value, those of few equations first; kept on disk."""
    digest = hashlib.sha256("\n".join(m.key for m in drawn).encode()).hexdigest()[:16]
    path = RUNS / f"told_apart_{digest}.json"
    known: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with evaluated_both_ways(drawn) as told:
        for spec in track(sorted(corpus(), key=lambda s: len(s.op.equations)), "what each spec tells apart"):
            if spec.name not in known:
                told.clear()
                _forget()
                with suppress(DeriveError):  # one that is refused, and says so
                    render(derive_op(_read_anew(spec)))
                known[spec.name] = sorted(told)
                path.write_text(json.dumps(known), encoding="utf-8")
    found: dict[str, list[str]] = defaultdict(list)
    for name, keys in known.items():
        for key in keys:
            found[key].append(name)
    return found


def _read_anew(spec: Spec) -> Op:
    """The op, read again by the engine as it is now."""
    folder = {"catalogue": "derive/ops", "unseen": "tests/unseen"}.get(spec.family.split("/")[0], "tests/corpus/specs")
    written = runpy.run_path(str(ROOT / folder / Path(spec.op.source).name))
    op: Op = next(v.op for v in written.values() if isinstance(v, OpCall) and v.op.name == spec.name)
    return op


def _spread(names: list[str]) -> list[str]:
    """Short and long ones of these, the shortest first."""
    return names[:: -(-len(names) // MOST_SPECS) or 1]


def by_the_record(mutant: Mutant, specs: Sequence[Spec]) -> str:
    """The spec that is derived otherwise, or not at all; nothing where none is."""

    def stop(*_: Any) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, stop)
    with made(mutant):
        for spec in specs:
            signal.alarm(MOST_SECONDS)
            try:
                same = _is_as_recorded(spec)
            except _WHATEVER:
                same = False
            finally:
                signal.alarm(0)
            if not same:
                return spec.name
    return ""


def _is_as_recorded(spec: Spec) -> bool:
    """Whether a spec, read anew, has the functions and counts of the record."""
    before, d = recorded(spec), derive_op(_read_anew(spec))
    assert before is not None
    lines = functions_of(render(d), spec.name)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return before.code in (lines, (f"sha256 {digest}",)) and (before.forward, before.backward) == counted(d)


def _by_tests(mutant: Mutant) -> str:
    """The first test of the room that fails; nothing where none does."""
    given = json.dumps([mutant.module, mutant.function, mutant.number, mutant.said])
    folder = next(f for f in (ROOT / "tests" / "derive" / mutant.room, ROOT / "tests" / "derive") if f.is_dir())
    run = f"from tests.mutation.engine import tested; tested({given!r}, {str(folder)!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, env=environment, capture_output=True, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if done.returncode == 0 else (failed or ["the tests did not end well"])[0]


def tested(given: str, folder: str) -> None:
    """Run tests with a mutant in the engine; the status is theirs."""
    import pytest

    with made(Mutant(*json.loads(given))):
        sys.exit(int(pytest.main(["-x", "-q", "--no-header", "-m", "not slow", folder])))


def main(count: int = 100, seed: int = 0, out: Path = RUNS / "engine.jsonl") -> None:
    """Draw mutants, and print what catches each, and those that nothing does."""
    specs = {s.name: s for s in corpus()}
    drawn = random.Random(seed).sample(mutants(), count)
    tells = _told_apart(drawn)
    known = {}
    if out.exists():
        known = {line["key"]: line["caught"] for line in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    out.parent.mkdir(parents=True, exist_ok=True)

    def note(mutant: Mutant, caught: str) -> None:
        known[mutant.key] = caught
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": mutant.key, "caught": caught}) + "\n")

    left = []
    for mutant in track([m for m in drawn if m.key not in known], "over the corpus"):
        by = by_the_record(mutant, [specs[n] for n in _spread(tells.get(mutant.key, []))])
        if by:
            note(mutant, f"record: {by}")
        else:
            left.append(mutant)
    for mutant in track(left, "by the tests of its room"):
        note(mutant, _by_tests(mutant))
    found = Counter(
        "by the record" if known[m.key].startswith("record: ") else "by a test" if known[m.key] else "by none"
        for m in drawn
    )
    print(*(f"caught by none: {m.key}" for m in drawn if not known[m.key]), sep="\n")
    print(", ".join(f"{n} {how}" for how, n in found.items()))


if __name__ == "__main__":
    typer.run(main)
