"""The command `derive` in a process of its own, and what it leaves in a folder."""

import os
import subprocess
import sys
from pathlib import Path


def derive(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"} | environment
    command = [sys.executable, "-m", "derive.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def files(folder: Path) -> dict[str, bytes]:
    """What every file below a folder holds."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
