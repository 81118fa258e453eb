"""One process at a time in a folder: what another writes between reading and writing would be lost."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # where files cannot be locked so
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process is between reading and writing this folder.

    The lock is a file among the temporary ones: nothing is left in the folder, which need not be there yet. Where there
    can be no such file, nobody waits.
    """
    key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    with ExitStack() as held:
        with suppress(OSError):
            lock = held.enter_context(Path(tempfile.gettempdir(), f"handgrad-{key}.lock").open("a"))
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
