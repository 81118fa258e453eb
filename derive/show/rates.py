"""What this machine, or a device of it, does at best: bytes a second of a copy, multiply-adds of a matrix product."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch

from derive.emit.devices import CPU, waiting

_SMALLEST, _LARGEST = 14, 28  # powers of 2: bytes that a copy reads
_PRODUCTS = (64, 256, 1024)
_SECONDS, _SHORTEST = 0.15, 1e-4


@dataclass(frozen=True)
class Rates:
    """Measured on so many threads: `copies` bytes a second by the bytes read, `products` multiply-adds by the side."""

    threads: int
    copies: dict[int, float]
    products: dict[int, float]

    def copy(self, moved: float) -> float:
        """Bytes a second where so many are read and written altogether: a small working set stays in the cache.

        The best of this size and the larger ones: a smaller copy is slower only for what else the machine did.
        """
        return max(rate for size, rate in self.copies.items() if 4 * size > moved or size == max(self.copies))

    def product(self, multiply_adds: float) -> float:
        """Multiply-adds a second of a product of about that size."""
        return self.products[min(self.products, key=lambda side: abs(side**3 - multiply_adds))]

    def floor(self, moved: float, multiply_adds: float) -> float:
        """Seconds that no program beats: the longer of moving the bytes and multiplying."""
        return max(moved / self.copy(moved), multiply_adds / self.product(multiply_adds) if multiply_adds else 0.0)


@cache
def measured(threads: int, device: torch.device = CPU) -> Rates:
    """The rates on so many threads, the best of a few tries at each size; a second or two, once a process."""
    wait = waiting(device)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        copies = {}
        for size in (2**k for k in range(_SMALLEST, _LARGEST, 2)):
            source = torch.ones(size // 4, device=device)
            target = torch.empty_like(source)
            copies[size] = 2 * size / _best(lambda s=source, t=target: t.copy_(s), wait)  # type: ignore[misc]
        products = {}
        for side in _PRODUCTS:
            products[side] = side**3 / min(_best(way, wait) for way in _products(side, device))
    finally:
        torch.set_num_threads(before)
    return Rates(threads, copies, products)


def _products(side: int, device: torch.device = CPU) -> Iterator[Callable[[], object]]:
    """A matrix product by each library that PyTorch brings: on some processors one is twice as fast as the other."""
    a, b, out = (torch.ones(side, side, device=device) for _ in range(3))
    yield lambda: torch.mm(a, b, out=out)
    if device == CPU and torch.backends.mkldnn.is_available():
        blocked = a.to_mkldnn(), b.to_mkldnn()
        yield lambda: torch.nn.functional.linear(*blocked)


def _best(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds a call, the best of as many as fit; short calls are timed several in a row."""
    call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    repeats = 1 + int(_SHORTEST / (time.perf_counter() - start))
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        wait()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best
