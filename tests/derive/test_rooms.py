"""Imports run downwards through the rooms of `derive/`, also inside functions, and in no circle (pyproject.toml)."""

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_imports_run_downwards() -> None:
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS
