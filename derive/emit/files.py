"""One file written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write beside the file first, so that a reader meets the old one or the new one, whole. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.write_bytes(text.encode("utf-8"))
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
