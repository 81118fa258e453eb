"""Checkpoints: all that a run needs to go on, in one file that is whole or absent."""

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from training.errors import InputError
from training.files import unwritable, write_atomically

# One line of text, then what torch.save wrote: PyTorch itself does not notice a flipped bit in a tensor.
MAGIC = b"handgrad checkpoint 1 sha256 "
HEADER = len(MAGIC) + 64 + 1


def save(file: Path, state: dict[str, Any]) -> None:
    """Write `state`, of tensors and plain values, in place of the last checkpoint; `InputError` if that fails."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    try:
        write_atomically(file, MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload)
    except OSError as error:
        kept = f"the checkpoint before it, {file}, is whole" if file.exists() else "there is no earlier checkpoint"
        raise unwritable("saving a checkpoint", file, error, kept) from None


def load(file: Path) -> dict[str, Any]:
    """The state in a file that `save` wrote; `InputError` where it is missing, cut short, damaged or another's."""
    step = "reading a checkpoint"
    try:
        raw = file.read_bytes()
    except OSError as error:
        cause = f"cannot read {file} ({error.strerror or error})"
        raise InputError(step, cause, "leave out --resume to start anew") from None
    remedy = "start anew in another --out, or put back an undamaged copy"
    if not raw.startswith(MAGIC):
        short = MAGIC.startswith(raw[: len(MAGIC)])
        raise InputError(step, f"{file} is {'cut short' if short else 'no checkpoint of this program'}", remedy)
    digest, payload = raw[len(MAGIC) : HEADER - 1], raw[HEADER:]
    if hashlib.sha256(payload).hexdigest().encode() != digest:
        cause = f"{file} is damaged: its {len(raw):,} bytes are not those that were written"
        raise InputError(step, cause, remedy)
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:  # whole, but written by a version that we cannot read
        raise InputError(step, f"{file} cannot be understood ({error})", remedy) from None
    return state
