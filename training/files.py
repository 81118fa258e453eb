"""Files written whole or not at all, and what is said when they cannot be."""

import os
from pathlib import Path

from training.errors import InputError


def write_atomically(file: Path, raw: bytes) -> None:
    """Write a file whole or not at all, making its folder first; on return the bytes are on the disk.

    Raises `OSError`; an older file of that name is then as it was, and no temporary one is left.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(raw)
            stream.flush()
            # Without it, a machine that loses power may keep the new name and lose the bytes.
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def unwritable(step: str, file: Path, error: OSError, kept: str) -> InputError:
    """The `InputError` of a file that could not be written; `kept` says what is still there."""
    cause = f"cannot write {file} ({error.strerror or error})"
    return InputError(step, cause, f"free some space or choose another --out; {kept}")
