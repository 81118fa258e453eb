"""Circles of a graph: which of its nodes reach one another (strongly connected components, by Tarjan's algorithm)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

T = TypeVar("T")


def circles(reads: Mapping[T, Collection[T]]) -> list[list[T]]:
    """The nodes in groups that each reach one another, what is read before what reads it; else in the order given.

    `reads` has every node, and of each what it reads; what is no node counts for nothing.
    """
    number: dict[T, int] = {}
    lowest: dict[T, int] = {}
    order = {node: k for k, node in enumerate(reads)}
    open_: list[T] = []
    found: list[list[T]] = []

    def visit(node: T) -> None:
        number[node] = lowest[node] = len(number)
        open_.append(node)
        for other in sorted((n for n in reads[node] if n in order), key=order.__getitem__):
            if other not in number:
                visit(other)
            if other in open_:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            first = open_.index(node)
            found.append(sorted(open_[first:], key=order.__getitem__))
            del open_[first:]

    for node in reads:
        if node not in number:
            visit(node)
    return found
