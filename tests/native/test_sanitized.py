"""A sample of kernels under the sanitizers of GCC, one of each loop form; `make sanitize` runs all of the corpus."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from derive.catalogue import load_file
from derive.output.package import write_package
from tests.native.running import assert_right
from tests.trials import sanitized

SPECS = Path(__file__).parent / "sanitized_specs.py"
CATALOGUE = ("relu", "batchnorm", "embedding", "attention")
"""Elements one by one, columns, chosen rows, tiles; beside the rows and windows of `SPECS`."""

pytestmark = [
    pytest.mark.slow,  # each is compiled four times
    pytest.mark.skipif(shutil.which("gcc") is None, reason="the sanitizers are GCC's"),
]


def _sanitized(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=sanitized(folder / "cache"), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("specs", [("--from", str(SPECS)), CATALOGUE], ids=["mended", "catalogue"])
def test_kernels_keep_to_their_memory(specs: tuple[str, ...], tmp_path: Path) -> None:
    command = ("-m", "tests.native.sanitize", *specs, "--results", str(tmp_path / "results.jsonl"))
    done = _sanitized(tmp_path, *command)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("op", load_file(SPECS), ids=lambda op: op.name)
def test_kernels_are_right(op: object) -> None:
    assert_right(op)  # type: ignore[arg-type]


PLANTED = {
    "behind a tensor": ("i_t < n_t;", "i_t <= n_t;", "heap-buffer-overflow"),
    "between what is taken": ("dk_each[(i_n", "dk_each[n_n * n_c * n_p + (i_n", "use-after-poison"),
    "behind a thread's row": ("dx_padded[i_t + 1]", "dx_padded[i_t + n_t_padded]", "use-after-poison"),
    "beyond a whole number": ("places = n_t_padded", "places = INT64_MAX + n_t_padded", "signed integer overflow"),
}
CALL = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from planted.padded_rows import padded_rows_backward, padded_rows_forward
x, k = torch.randn(2, 3, 300), torch.randn(3, 3)
y, saved = padded_rows_forward(x, k)
padded_rows_backward(torch.ones_like(y), *saved)
"""


@pytest.mark.parametrize("kind", [*PLANTED, ""])
def test_a_planted_fault_is_found(kind: str, tmp_path: Path) -> None:
    """So that a clean run says something; and nothing is found where nothing was planted."""
    write_package([op for op in load_file(SPECS) if op.name == "padded_rows"], tmp_path / "planted", backend="cpu")
    right, wrong, finding = PLANTED.get(kind, ("", "", ""))
    code = tmp_path / "planted" / "padded_rows.c"
    forward, found, backward = code.read_text().partition("int padded_rows_backward(")
    assert right in backward
    code.write_text(forward + found + backward.replace(right, wrong))
    done = _sanitized(tmp_path, "-c", CALL, str(tmp_path))
    assert (done.returncode != 0) == bool(kind), done.stderr[-4000:]
    assert finding in done.stderr
