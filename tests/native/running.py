"""Whether kernels ran: a kernel that gives way does so silently for some calls, and the torch form is right as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from torch import Tensor


@contextmanager
def watched(runtime: ModuleType) -> Iterator[list[str]]:
    """Collects the names of kernels that gave way although none of what they were given is empty."""
    gave_way: list[str] = []
    call = runtime.Kernel.__call__

    def noted(kernel: Any, *args: Any, out: Any = None) -> Any:
        found = call(kernel, *args, out=out)
        if found is None and not _is_empty(args[: kernel.first_number]):
            gave_way.append(kernel.name)
        return found

    with mock.patch.object(runtime.Kernel, "__call__", noted):
        yield gave_way


@contextmanager
def only_kernels(runtime: ModuleType) -> Iterator[None]:
    """Fails where the torch form ran in a kernel's place."""
    with watched(runtime) as gave_way:
        yield
    assert not gave_way, f"the torch form ran in place of {', '.join(dict.fromkeys(gave_way))}"


def _is_empty(given: Any) -> bool:
    """Whether one of the tensors or lengths leaves nothing to do."""
    if isinstance(given, Tensor):
        return given.numel() == 0
    return any(map(_is_empty, given)) if isinstance(given, tuple | list) else given == 0
