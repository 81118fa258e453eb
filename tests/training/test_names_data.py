"""Reading names: where they come from, and what is said when they cannot be read."""

import hashlib
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from training import data, files
from training.errors import InputError

PUBLIC = b"emma\nolivia\nava\n"
SHA256 = hashlib.sha256(PUBLIC).hexdigest()


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NAMES_FILE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def error_of(file: Path) -> str:
    with pytest.raises(InputError) as caught:
        data.load_names(file)
    return str(caught.value)


def test_a_file_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_bytes(b"\xef\xbb\xbfzoe\r\n\r\n  adam \nzoe")
    assert data.load_names(file) == data.Names(("zoe", "adam", "zoe"), str(file))


def test_the_environment_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "a.txt", tmp_path / "b.txt"
    file.write_text("ada\n")
    other.write_text("bob\n")
    monkeypatch.setenv("NAMES_FILE", str(file))
    assert data.load_names().words == ("ada",)
    assert data.load_names(other).words == ("bob",)


def test_missing_file(tmp_path: Path) -> None:
    file = tmp_path / "none.txt"
    assert error_of(file) == (
        f"reading names: cannot read {file} (No such file or directory); " "give a readable file with one name a line"
    )


def test_a_folder(tmp_path: Path) -> None:
    assert error_of(tmp_path) == (
        f"reading names: cannot read {tmp_path} (Is a directory); give a readable file with one name a line"
    )


@pytest.mark.parametrize("raw", [b"", b"\n \n\n"])
def test_empty_file(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "names.txt"
    file.write_bytes(raw)
    assert error_of(file) == f"reading names: {file} is empty; give a file with one name a line"


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_bytes("emma\nzoë\n".encode("latin-1"))
    assert error_of(file) == (f"reading names: {file} is not UTF-8 (byte 7 is 0xeb); save the file as UTF-8")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Anna", "'Anna'"),
        ("anne-marie", "'anne-marie'"),
        ("zoë", r"'zo\xeb'"),
        ("a b", "'a b'"),
        ("x\x00", r"'x\x00'"),
        ("y" * 50 + "1", "'" + "y" * 40 + "...'"),
    ],
)
def test_other_characters(tmp_path: Path, line: str, shown: str) -> None:
    file = tmp_path / "names.txt"
    file.write_text(f"emma\n\n{line}\nava\n", encoding="utf-8")
    assert error_of(file) == (
        f"reading names: line 3 of {file} is {shown}, expected letters a-z only; "
        "spell the name in lower-case a-z or remove the line"
    )


def test_a_download_is_kept_and_found_again(tmp_path: Path) -> None:
    served, cached = tmp_path / "served.txt", tmp_path / "new" / "names.txt"
    served.write_bytes(PUBLIC)
    assert data.public_names(cached, served.as_uri(), SHA256) == data.Fetched(PUBLIC)
    assert [file.name for file in cached.parent.iterdir()] == ["names.txt"]
    served.unlink()
    assert data.public_names(cached, served.as_uri(), SHA256) == data.Fetched(PUBLIC)


def test_a_download_with_another_hash_is_not_used(tmp_path: Path) -> None:
    served, cached = tmp_path / "served.txt", tmp_path / "names.txt"
    served.write_bytes(PUBLIC + b"mallory\n")
    fetched = data.public_names(cached, served.as_uri(), SHA256)
    found = hashlib.sha256(PUBLIC + b"mallory\n").hexdigest()
    assert fetched.raw is None
    assert fetched.note == (
        f"downloading names: {served.as_uri()} has sha256 {found[:12]}..., expected {SHA256[:12]}..."
    )
    assert not cached.exists()


def test_a_damaged_cache_is_downloaded_again(tmp_path: Path) -> None:
    served, cached = tmp_path / "served.txt", tmp_path / "names.txt"
    served.write_bytes(PUBLIC)
    cached.write_bytes(PUBLIC[:-3])
    assert data.public_names(cached, served.as_uri(), SHA256) == data.Fetched(PUBLIC)
    assert cached.read_bytes() == PUBLIC


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    served, blocked = tmp_path / "served.txt", tmp_path / "file"
    served.write_bytes(PUBLIC)
    blocked.write_bytes(b"")
    fetched = data.public_names(blocked / "names.txt", served.as_uri(), SHA256)
    assert fetched.raw == PUBLIC
    assert fetched.note.startswith(f"downloading names: cannot keep {blocked / 'names.txt'} (")


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(tmp_path / "names.txt", PUBLIC)
    assert list(tmp_path.iterdir()) == []


def test_offline_the_built_in_list_serves_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    names = data.load_names()
    assert names.source == "the built-in list"
    assert names.note == (
        f"downloading names: cannot fetch {data.PUBLIC_URL} (no network); "
        f"using the {len(names.words):,} common given names that ship with the project"
    )


def test_the_built_in_list() -> None:
    words = data.BUILT_IN.read_text(encoding="ascii").splitlines()
    assert len(words) >= 1500
    assert words == sorted(set(words))
    assert all(re.fullmatch("[a-z]+", word) for word in words)
