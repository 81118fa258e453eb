"""Rules and passes, found by what they take and give, and the engine with one of them taken away.

A rule is a public function of the rooms below that another module imports and whose absence has a meaning: what it is
given comes back unchanged, or nothing is found. What gives anything else is an algorithm, and is not asked.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import derive
from derive.rules.engine import Move, Row

ROOMS = ("rules", "adjoint", "contract", "schedule", "collapse")
NOT_ASKED = (
    *("rules.index.guards", "rules.index.read_forward", "rules.index.reached_places"),
    *("rules.splitting", "rules.order", "schedule.order", "collapse.autograd", "collapse.saving", "collapse.typeset"),
)
"""Modules that work while a spec is recorded, once for all; lists of rules; what counts, keeps and typesets."""

Absent = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """One function, and what stands for it where it is taken away."""

    function: Any
    absent: Absent
    gives: str  # "the same": what it was given; "nothing": an empty answer

    @property
    def name(self) -> str:
        """The module and the function, from the room on."""
        if isinstance(self.function, Row):
            return f"rules.tables: {self.function}"
        return f"{self.function.__module__.removeprefix('derive.')}.{self.function.__name__}"


@functools.lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Every rule of the rooms, by name."""
    names = [m.name for m in pkgutil.walk_packages(derive.__path__, "derive.") if _read(m.name)]
    modules = [importlib.import_module(name) for name in names]
    found = {f: None for module in modules for f in vars(module).values() if _is_public(f, module)}
    made = [rule for f in found if (rule := _rule(f)) is not None]
    tables = (t for m in modules if m.__name__.startswith("derive.rules.tables") for t in vars(m).values())
    made += [Rule(row, _no_row, "no row") for row in dict.fromkeys(r for t in tables for r in _rows(t))]
    return tuple(sorted(made, key=lambda r: r.name))


def _rows(table: Any) -> Iterator[Row]:
    """The laws of a table, or of a table of them."""
    if isinstance(table, Row):
        yield table
    elif type(table) is tuple:
        for part in table:
            yield from _rows(part)


def _no_row() -> None:
    """What stands for a row that is taken away: its tables are shorter."""


def _read(name: str) -> bool:
    return not name.startswith(("derive.cli", "derive.ops", "derive.show"))


def _is_public(f: Any, module: ModuleType) -> bool:
    plain = inspect.unwrap(f) if callable(f) else f
    if not isinstance(plain, FunctionType) or plain.__name__.startswith("_"):
        return False
    home = plain.__module__
    inside = tuple(f"derive.{room}" for room in ROOMS)
    asked = home.startswith(inside) and not home.startswith(tuple(f"derive.{name}" for name in NOT_ASKED))
    return asked and module.__name__ != home  # another module imports it


def _rule(f: Any) -> Rule | None:
    plain = inspect.unwrap(f)
    try:
        hints = typing.get_type_hints(plain)
    except NameError:
        return None
    gives = hints.pop("return", None)
    parameters = list(inspect.signature(plain).parameters)
    first = hints.get(parameters[0]) if parameters else None
    if gives is None or gives is bool:
        return None
    if gives == first and gives not in (str, int, float):
        return Rule(f, lambda value, *_, **__: value, "the same")
    origin, parts = typing.get_origin(gives), typing.get_args(gives)
    if origin is tuple and parts and parts[0] == first and len(parts) == 2 and (empty := _empty(parts[1])) is not None:
        return Rule(f, lambda value, *_, **__: (value, empty()), "the same")
    empty_answer = _empty(gives)
    return None if empty_answer is None else Rule(f, lambda *_, **__: empty_answer(), "nothing")


def _empty(kind: Any) -> Callable[[], Any] | None:
    """What makes an empty value of a type; None where it has none."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple if len(parts) == 2 and parts[1] is ... else None
    if origin in (dict, list, set, frozenset):
        return origin
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return dict
        if issubclass(origin, Iterator):
            return lambda: iter(())
    return None


# --- the engine without one --------------------------------------------------------------------------------


def without(rule: Rule) -> AbstractContextManager[None]:
    """Inside, the engine has not this rule."""
    return _replaced({rule.function: rule.absent})


def watched(fired: set[str]) -> AbstractContextManager[None]:
    """Inside, the name of every rule that changes or finds anything is put into `fired`."""
    functions = (rule for rule in rules() if not isinstance(rule.function, Row))
    return _replaced({rule.function: _watching(rule, fired) for rule in functions})


@contextmanager
def _replaced(by: Mapping[Any, Any]) -> Iterator[None]:
    """Other functions in the place of these, wherever a module, a table of functions or a default holds them."""
    undo: list[tuple[Any, str, Any]] = []

    def put(holder: Any, key: str, value: Any) -> None:
        new = _put(value, by)
        if new is not value:
            undo.append((holder, key, value))
            setattr(holder, key, new)

    forget()
    for module in _engine():
        for key, value in list(vars(module).items()):
            put(module, key, value)
            if isinstance(value, FunctionType) and value.__defaults__:
                put(value, "__defaults__", value.__defaults__)
    try:
        yield
    finally:
        for holder, key, value in reversed(undo):
            setattr(holder, key, value)
        forget()


def _put(value: Any, by: Mapping[Any, Any]) -> Any:
    """A function's stand-in, a table with those of its functions; the value itself where it holds none."""
    if isinstance(value, tuple) and type(value) is tuple:
        new = tuple(made for x in value if (made := _put(x, by)) is not _no_row)
        return new if len(new) < len(value) or any(a is not b for a, b in zip(new, value, strict=True)) else value
    if isinstance(value, functools.partial):
        return functools.partial(value.func, *value.args, **{k: _put(v, by) for k, v in value.keywords.items()})
    if isinstance(value, Row):
        return by.get(value, value)
    return by.get(value, value) if callable(value) and _is_hashable(value) else value


def _is_hashable(value: Any) -> bool:
    return type(value).__hash__ is not None and not isinstance(value, type)


def _engine() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith("derive.")]


def forget() -> None:
    """Empty every cache of the engine: what was found with a rule is not found without it."""
    for module in _engine():
        for value in vars(module).values():
            clear = getattr(value, "cache_clear", None)
            if callable(clear):
                clear()


def _watching(rule: Rule, fired: set[str]) -> Any:
    f = rule.function

    @functools.wraps(f)
    def watching(*args: Any, **kwargs: Any) -> Any:
        found = f(*args, **kwargs)
        if inspect.isgenerator(found):
            return noted(found)
        after = found[0] if isinstance(found, tuple) and found and not isinstance(args[0], tuple) else found
        if (after is not args[0] and after != args[0]) if rule.gives == "the same" else bool(found):
            fired.add(rule.name)
        return found

    def noted(found: Iterator[Any]) -> Iterator[Any]:
        for value in found:
            fired.add(Rule(value.row, _no_row, "no row").name if isinstance(value, Move) else rule.name)
            yield value

    return watching
