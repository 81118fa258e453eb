"""`python -m tests.mutation.engine --count 100 --seed 0`: mistakes in the engine itself, and what catches each.

A mutant is one condition turned round, one sign, number or order changed in a function of the rooms between the
notation and the backends. It is caught where a spec of the corpus that runs the function is derived otherwise than the
record says, or not at all; else where a test of its room fails. A run that was cut off goes on.
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
import signal
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import typer
from rich.progress import track
from sympy.core.cache import clear_cache

import derive
from derive.emit import render
from derive.errors import DeriveError
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
    count = sum(1 for n in _nodes(_tree(function)) for _ in _mistakes(n))
    for k in range(count):
        tree = _tree(function)
        node, make = [(n, m) for n in _nodes(tree) for m in _mistakes(n)][k]
        before = ast.unparse(node).splitlines()[0]
        make()
        yield tree, f"{before} -> {ast.unparse(node).splitlines()[0]}"


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


def _runs() -> dict[tuple[str, str], list[str]]:
    """The specs of the corpus that run each function, the shortest first; known from an earlier run."""
    path = RUNS / "ran.json"
    if not path.exists():
        codes: dict[CodeType, tuple[str, str]] = {f.__code__: key for key, f in _functions().items()}
        found: dict[str, list[str]] = defaultdict(list)
        for spec in track(sorted(corpus(), key=lambda s: len(s.op.equations)), "what each spec runs"):
            ran: set[CodeType] = set()
            _forget()
            sys.setprofile(lambda frame, event, _, ran=ran: ran.add(frame.f_code) if event == "call" else None)
            try:
                derive_op(spec.op)
            except DeriveError:
                continue  # one that is refused
            finally:
                sys.setprofile(None)
            for code in ran & codes.keys():
                found[" ".join(codes[code])].append(spec.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), encoding="utf-8")
    known: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return {(module, name): names for key, names in known.items() for module, name in (key.split(" "),)}


def _spread(names: list[str]) -> list[str]:
    """Short and long ones of these, the shortest first."""
    return names[:: -(-len(names) // MOST_SPECS) or 1]


class _TooLongError(Exception):
    pass


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
            except (DeriveError, _TooLongError, ArithmeticError, AssertionError, AttributeError, LookupError,
                    NameError, RecursionError, RuntimeError, StopIteration, TypeError, ValueError):  # fmt: skip
                same = False  # whatever a mistake leads to
            finally:
                signal.alarm(0)
            if not same:
                return spec.name
    return ""


def _is_as_recorded(spec: Spec) -> bool:
    """Whether a spec's functions and counts are those of the record."""
    before, d = recorded(spec), derive_op(spec.op)
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
    specs, runs = {s.name: s for s in corpus()}, _runs()
    drawn = random.Random(seed).sample(mutants(), count)
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
        by = by_the_record(mutant, [specs[n] for n in _spread(runs.get((mutant.module, mutant.function), []))])
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
