"""Where the names come from: a file, else the public list, else the list that ships with the project."""

import hashlib
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from training.errors import InputError
from training.files import write_atomically

ENVIRONMENT = "NAMES_FILE"
PUBLIC_URL = "https://raw.githubusercontent.com/karpathy/makemore/master/names.txt"
PUBLIC_SHA256 = "0a30b5557f192f32ab962680889aac5f6fda0f4cecf40a6d0b5694f58ea8cc4d"
PUBLIC_BYTES = 228_145
TIMEOUT_SECONDS = 5.0
BUILT_IN = Path(__file__).with_name("common_names.txt")


@dataclass(frozen=True)
class Names:
    """Names in the order of their file, where they came from, and what a user should hear about that."""

    words: tuple[str, ...]
    source: str
    note: str = ""


@dataclass(frozen=True)
class Fetched:
    """What became of the public list: its bytes, if there are any, and what a user should hear."""

    raw: bytes | None
    note: str = ""


def load_names(file: Path | None = None) -> Names:
    """Names from `file`, else the file that NAMES_FILE names, else the public list, else the built-in one.

    Raises `InputError` for a file that is missing, empty, not UTF-8, or holds anything but letters a-z.
    """
    if file is None and os.environ.get(ENVIRONMENT):
        file = Path(os.environ[ENVIRONMENT])
    if file is not None:
        return Names(parse_names(read_bytes(file), str(file)), str(file))
    fetched = public_names(cache_folder() / "names.txt")
    if fetched.raw is not None:
        return Names(parse_names(fetched.raw, PUBLIC_URL), "the public names.txt", fetched.note)
    words = parse_names(read_bytes(BUILT_IN), str(BUILT_IN))
    note = f"{fetched.note}; using the {len(words):,} common given names that ship with the project"
    return Names(words, "the built-in list", note)


def read_bytes(file: Path) -> bytes:
    """The bytes of a file; `InputError` where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        cause = f"cannot read {file} ({error.strerror or error})"
        raise InputError("reading names", cause, "give a readable file with one name a line") from None


def parse_names(raw: bytes, source: str) -> tuple[str, ...]:
    """One lower-case name a line; surrounding blanks and blank lines are passed over.

    Raises `InputError` for bytes that are not UTF-8, a line with anything but a-z, or no name at all.
    """
    step = "reading names"
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cause = f"{source} is not UTF-8 (byte {error.start} is 0x{raw[error.start]:02x})"
        raise InputError(step, cause, "save the file as UTF-8") from None
    words = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if not word:
            continue
        if not re.fullmatch("[a-z]+", word):
            shown = word if len(word) <= 40 else word[:40] + "..."
            cause = f"line {number} of {source} is {shown!a}, expected letters a-z only"
            raise InputError(step, cause, "spell the name in lower-case a-z or remove the line")
        words.append(word)
    if not words:
        raise InputError(step, f"{source} is empty", "give a file with one name a line")
    return tuple(words)


def cache_folder() -> Path:
    """The user's cache folder for this project; it need not exist yet."""
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "handgrad"


def public_names(cached: Path, url: str = PUBLIC_URL, sha256: str = PUBLIC_SHA256) -> Fetched:
    """The public list from the cache, else downloaded; bytes that do not have the hash are never used."""
    try:
        raw = cached.read_bytes()
    except OSError:  # nothing there yet, or nothing that can be read: download
        raw = b""
    if hash_of(raw) == sha256:
        return Fetched(raw)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            # One byte more than expected is enough to see that a longer file is the wrong one.
            raw = response.read(PUBLIC_BYTES + 1)
    except (OSError, HTTPException) as error:  # a URLError, a timeout and a reset are all OSErrors
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return Fetched(None, f"downloading names: cannot fetch {url} ({reason})")
    if hash_of(raw) != sha256:
        found, expected = hash_of(raw)[:12], sha256[:12]
        return Fetched(None, f"downloading names: {url} has sha256 {found}..., expected {expected}...")
    try:
        write_atomically(cached, raw)
    except OSError as error:
        return Fetched(raw, f"downloading names: cannot keep {cached} ({error.strerror or error})")
    return Fetched(raw)


def hash_of(raw: bytes) -> str:
    """The sha256 of some bytes, in hexadecimal."""
    return hashlib.sha256(raw).hexdigest()
