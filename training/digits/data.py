"""Pictures of digits: scikit-learn's small ones, or a folder of IDX files such as MNIST's."""

import gzip
import importlib.util
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from training.errors import InputError

CLASSES = 10
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
UNSIGNED_BYTES = 0x08


@dataclass(frozen=True)
class Digits:
    """Pictures x [n, i], brightness 0 to 1, and labels y [n], int64."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, rows: Tensor) -> "Digits":
        """Some of them."""
        return Digits(self.x[rows], self.y[rows])


@dataclass(frozen=True)
class Split:
    """Pictures to learn from, to choose by, and to look at once, and where they came from."""

    train: Digits
    validation: Digits
    test: Digits
    source: str


def bundled(seed: int) -> Split:
    """The 1,797 pictures of 8 x 8 that come with scikit-learn: 70% to learn from, 10% to choose by, 20% to test."""
    if importlib.util.find_spec("sklearn") is None:
        cause = "scikit-learn, whose digits are the default, is not installed"
        raise InputError("reading digits", cause, "pip install scikit-learn, or give --mnist DIR")
    # Imported here: it takes two seconds, and --mnist does without.
    from sklearn.datasets import load_digits

    loaded = load_digits()
    whole = Digits(torch.tensor(loaded.data, dtype=torch.float32) / 16, torch.tensor(loaded.target).long())
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    first, second = int(0.7 * len(whole)), int(0.8 * len(whole))
    parts = [whole.rows(rows) for rows in (order[:first], order[first:second], order[second:])]
    return Split(parts[0], parts[1], parts[2], "scikit-learn's digits, 8 x 8")


def mnist(folder: Path, seed: int) -> Split:
    """The four IDX files of MNIST's names, plain or with .gz; a tenth of the first two is kept to choose by."""
    whole, test = (pair(folder, *FILES[part]) for part in ("train", "test"))
    if whole.x.shape[1] != test.x.shape[1]:
        cause = f"the pictures in {folder} have {whole.x.shape[1]} points to learn from and {test.x.shape[1]} to test"
        raise InputError("reading digits", cause, "give files that belong together")
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    cut = max(1, len(whole) // 10)
    if len(whole) < 2:
        raise InputError("reading digits", f"{folder} has {len(whole)} pictures to learn from", "give at least 2")
    return Split(whole.rows(order[cut:]), whole.rows(order[:cut]), test, str(folder))


def pair(folder: Path, images: str, labels: str) -> Digits:
    """Pictures and their labels; `InputError` where they do not belong together or a label is no digit."""
    step = "reading digits"
    x, y = read_idx(find(folder, images), 3), read_idx(find(folder, labels), 1).long()
    if len(x) != len(y):
        cause = f"{folder / images} has {len(x):,} pictures, but {folder / labels} {len(y):,} labels"
        raise InputError(step, cause, "give files that belong together")
    if len(y) and int(y.max()) >= CLASSES:
        at = int((y >= CLASSES).nonzero()[0])
        cause = f"label {at} of {folder / labels} is {int(y[at])}"
        raise InputError(step, cause, f"labels are 0 to {CLASSES - 1}: correct the file")
    return Digits(x.flatten(1).float() / 255, y)


def find(folder: Path, name: str) -> Path:
    """The file of that name, or of that name and .gz."""
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise InputError("reading digits", f"there is no {folder / name}", "put the four IDX files, or their .gz, there")


def read_idx(file: Path, dimensions: int) -> Tensor:
    """The unsigned bytes of an IDX file: two zeros, the type, the number of dimensions, their lengths, the data."""
    step = "reading digits"
    remedy = "download the file again"
    try:
        raw = file.read_bytes()
        raw = gzip.decompress(raw) if file.suffix == ".gz" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(step, f"{file} is damaged ({error})", remedy) from None
    except OSError as error:
        raise InputError(step, f"cannot read {file} ({error.strerror or error})", "give readable files") from None
    header = 4 + 4 * dimensions
    if len(raw) < header:
        raise InputError(step, f"{file} is cut short: {len(raw)} bytes, its heading alone has {header}", remedy)
    if raw[:4] != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        expected = f"0000{UNSIGNED_BYTES:02x}{dimensions:02x}"
        raise InputError(step, f"{file} begins with {raw[:4].hex()}, expected {expected}", "give an IDX file of bytes")
    shape = struct.unpack(f">{dimensions}I", raw[4:header])
    wanted = header + math.prod(shape)
    if len(raw) != wanted:
        what = "cut short" if len(raw) < wanted else "too long"
        lengths = " x ".join(map(str, shape))
        raise InputError(step, f"{file} is {what}: {len(raw):,} bytes, {wanted:,} for {lengths}", remedy)
    return (
        torch.frombuffer(bytearray(raw[header:]), dtype=torch.uint8).view(shape)
        if math.prod(shape)
        else torch.zeros(shape, dtype=torch.uint8)
    )
