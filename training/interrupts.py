"""Ctrl-C and SIGTERM as a request that a loop reads between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether a signal has asked the loop to stop, and which."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def status(self) -> int:
        """The exit status of a command that a signal ended, as shells have it."""
        return 128 + (self.signal or 0)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """The first signal is a request; a second one ends the program as it would without us."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        restore()
