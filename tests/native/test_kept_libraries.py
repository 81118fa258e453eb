"""The folder of compiled libraries: what others could have written is not loaded, what is damaged is made anew."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.conftest import Package
from tests.native.running import only_kernels

OTHER = 12345  # a user who is not this one
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
gives_away = pytest.mark.skipif(not IS_ROOT, reason="only root can give a file to another user")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HANDGRAD_CACHE", str(folder))
    return folder


def _used(made: ModuleType) -> None:
    """Its kernel runs, and is right."""
    x = torch.randn(3, 4)
    with only_kernels(sys.modules[f"{made.__name__}._native"]):
        torch.testing.assert_close(made.mean_all_forward(x)[0], x.mean())


def _silently(package: Package) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _used(package("mean_all"))


def _refused(package: Package, folder: Path, reason: str) -> None:
    """One line says why a private folder serves, and nothing is loaded from this one, or written there."""
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}
    made = package("mean_all")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _used(made)
        _used(made)
    assert len(said) == 1 and reason in str(said[0].message) and "HANDGRAD_CACHE" in str(said[0].message)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()} == before


def _libraries(cache: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in cache.iterdir()}


def test_the_folder_is_the_users_own(package: Package, cache: Path) -> None:
    before = os.umask(0)
    try:
        _silently(package)
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(_libraries(cache)) == 2
    for path in cache.iterdir():
        assert not path.stat().st_mode & 0o022
        assert path.stem.rpartition("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    _silently(package)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777], ids=oct)
def test_a_folder_that_others_may_write_to(package: Package, cache: Path, mode: int) -> None:
    _silently(package)
    cache.chmod(mode)
    _refused(package, cache, f"others may write to {cache} (chmod go-w {cache})")


@gives_away
def test_a_folder_of_another_user(package: Package, cache: Path) -> None:
    _silently(package)
    os.chown(cache, OTHER, -1)
    _refused(package, cache, f"{cache} belongs to another user")


@gives_away
def test_a_library_of_another_user(package: Package, cache: Path) -> None:
    _silently(package)
    for path in cache.iterdir():
        os.chown(path, OTHER, -1)
    _refused(package, cache, f"{cache} has a library that belongs to another user, or that others may write to")


def test_a_library_that_others_may_write_to(package: Package, cache: Path) -> None:
    _silently(package)
    for path in cache.iterdir():
        path.chmod(0o775)
    _refused(package, cache, f"{cache} has a library that belongs to another user, or that others may write to")


def test_a_folder_that_others_may_rename(package: Package, cache: Path) -> None:
    _silently(package)
    cache.parent.chmod(0o777)
    _refused(package, cache, f"others may write to {cache.parent} ")
    cache.parent.chmod(0o1777)  # as /tmp is
    _silently(package)


@gives_away
@pytest.mark.parametrize("what", ["the link", "the folder above it"])
def test_a_link_of_another_user(package: Package, cache: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    _silently(package)
    link = cache.parent / "links" / "link"
    link.parent.mkdir()
    link.symlink_to(cache)
    monkeypatch.setenv("HANDGRAD_CACHE", str(link))
    _silently(package)
    os.chown(link if what == "the link" else link.parent, OTHER, -1, follow_symlinks=False)
    _refused(package, cache, f"{link if what == 'the link' else link.parent} belongs to another user")


def test_a_changed_byte(package: Package, cache: Path) -> None:
    _silently(package)
    whole = _libraries(cache)
    for name, content in whole.items():
        (cache / name).unlink()  # what the process has loaded stays
        at = len(content) // 2
        (cache / name).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    _silently(package)
    assert _libraries(cache) == whole


@pytest.mark.parametrize("kind", ["without symbols", "garbage"])
@pytest.mark.parametrize("named", ["by its digest", "as the right one"])
def test_a_library_of_something_else(package: Package, cache: Path, tmp_path: Path, kind: str, named: str) -> None:
    other = tmp_path / "other.so"
    if kind == "garbage":
        other.write_bytes(b"text" * 100)
    else:
        (tmp_path / "other.c").write_text("int nothing(void) { return 0; }")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(other), str(tmp_path / "other.c")], check=True)
    _silently(package)
    whole = _libraries(cache)
    digest = hashlib.sha256(other.read_bytes()).hexdigest()[:32]
    for name in whole:
        (cache / name).unlink()
        (cache / (name if named == "as the right one" else f"{name[:-35]}{digest}.so")).write_bytes(other.read_bytes())
    _silently(package)
    assert _libraries(cache) == whole


RUN = """
import importlib, sys, warnings
import torch
warnings.simplefilter("error")
sys.path.insert(0, sys.argv[1])
print(importlib.import_module(sys.argv[2]).mean_all_forward(torch.ones(3, 4))[0].item())
"""


def _started(made: ModuleType, **environment: str) -> subprocess.Popen[str]:
    folder = Path(str(made.__path__[0]))
    command = [sys.executable, "-c", RUN, str(folder.parent), folder.name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment)


def _ended(process: subprocess.Popen[str]) -> None:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out.strip()) == (0, "1.0"), err


def test_a_killed_compiler_leaves_nothing_for_good(package: Package, cache: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo 1; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done\nprintf half > "$2"\nkill -9 $PPID\n'
    )
    compiler.chmod(0o755)
    made = package("mean_all")
    killed = _started(made, CC=str(compiler))
    killed.communicate(timeout=120)
    assert killed.returncode == -9
    left = list(cache.iterdir())
    assert len(left) == 1 and [p.read_text() for p in left[0].iterdir()] == ["half"]
    _ended(_started(made))
    assert {p.suffix for p in cache.iterdir()} == {".so"}


def test_a_folder_that_is_compiled_in_stays(package: Package, cache: Path, tmp_path: Path) -> None:
    """Another process compiles meanwhile; the slow one's library is there in the end as well."""
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\nif [ "$1" != --version ]; then touch {begun}; while [ ! -e {go_on} ]; do sleep 0.05; done; fi\n'
        'exec cc "$@"\n'
    )
    compiler.chmod(0o755)
    made = package("mean_all")
    slow = _started(made, CC=str(compiler))
    while not begun.exists():
        assert slow.poll() is None, slow.communicate()
        time.sleep(0.05)
    _ended(_started(made))
    assert [p.name[:10] for p in cache.iterdir() if p.is_dir()] == ["compiling-"]
    go_on.touch()
    _ended(slow)
    assert {p.suffix for p in cache.iterdir()} == {".so"}


def test_two_processes_compile_one_kernel_at_once(package: Package, cache: Path) -> None:
    made = package("mean_all")
    for process in [_started(made) for _ in range(3)]:
        _ended(process)
    assert len(_libraries(cache)) == 2


def test_a_folder_that_cannot_be_written_to(package: Package, cache: Path) -> None:
    cache.parent.chmod(0o755)
    cache.write_text("a file")
    _refused(package, cache.parent, f"{cache} cannot be written to")


def test_where_the_folder_is(package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANDGRAD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    _silently(package)
    assert len(_libraries(tmp_path / "xdg" / "handgrad")) == 2
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        _silently(package)
        assert len(_libraries(tmp_path / "home" / ".cache" / "handgrad")) == 2
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_without_a_home(package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HANDGRAD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user whom the system does not know
    monkeypatch.chdir(tmp_path)
    _refused(package, tmp_path, "there is no home folder for kernels")
    assert not list(tmp_path.iterdir())
