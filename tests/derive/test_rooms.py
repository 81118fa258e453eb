"""Arrows run one way: no room of `derive/` imports, by way of others, one that imports it (docs/house.md)."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from derive import notation

DERIVE = Path(notation.__file__).parent
SOURCES = [p for p in sorted(DERIVE.rglob("*.py")) if p != DERIVE / "__init__.py"]


def _room(path: Path) -> str:
    """A folder, each backend's for itself; a module that stands in none is a room of its own."""
    parts = path.relative_to(DERIVE).with_suffix("").parts
    inner = parts[0] == "backends" and len(parts) > 2
    return "/".join(parts[: 2 if inner else 1])


def _imported(path: Path) -> Iterator[Path]:
    """What a module imports as it is loaded: nothing inside a function, nothing for its types alone."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.FunctionDef) or is_for_types:
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "derive":
            stem = DERIVE.parent / Path(*(node.module or "").split("."))
            for name in node.names:
                places = (stem / f"{name.name}.py", stem / name.name / "__init__.py", stem.with_suffix(".py"))
                yield next((p for p in places if p.exists()), stem / "__init__.py")


def test_no_room_imports_one_that_imports_it() -> None:
    arrows: dict[str, set[str]] = {}
    for path in SOURCES:
        own = _room(path)
        arrows.setdefault(own, set()).update({_room(p) for p in _imported(path) if p != DERIVE / "__init__.py"} - {own})
    assert {"terms", "passes", "backends/torch", "backends/cpu"} <= set(arrows) and "nodes" in arrows["passes"]
    try:
        order = list(TopologicalSorter(arrows).static_order())
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None
    assert order.index("terms") < order.index("equations") < order.index("lowering") < order.index("passes")
