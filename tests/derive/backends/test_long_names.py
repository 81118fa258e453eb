"""The length of a name decides on nothing: with names of 70 letters an op makes the calls it makes with short ones."""

import ast
import re
from collections.abc import Callable
from inspect import Parameter, Signature

import pytest

from derive import axes, op, sigmoid, sum, tanh, tensor
from derive.ir.equations import Op
from tests.derive.against_loops import code_of

n, d, e = axes("n d e")
_LONG = 70
"""Letters: two such names in a call do not fit a line."""


def addcmul(f, a, b, c):
    f.y[n, d] = a[n, d] - 3 * b[n, d] * tanh(c[n, d])
    return f.y


def lerp(f, a, b, c):
    f.y[n, d] = (1 - sigmoid(c[n, d])) * tanh(a[n, d]) + sigmoid(c[n, d]) * b[n, d]
    return f.y


def addcdiv(f, a, b, c):
    f.y[n, d] = a[n, d] - 2 * tanh(b[n, d]) / c[n, d]
    return f.y


def addmm_(f, a, b, c):
    f.y[n, d] = a[n, d] * tanh(b[n, d]) + 2 * sum(a[n, e] * c[e, d], over=e)
    return f.y


BODIES = {"addcmul": addcmul, "lerp": lerp, "addcdiv": addcdiv, "addmm_": addmm_}


def named(body: Callable[..., object], letters: int) -> Op:
    """The op of this body, each of its inputs under its letter as many times."""

    def spec(f, *tensors):
        return body(f, *tensors)

    inputs = {"a": (n, d), "b": (n, d), "c": (e, d) if body is addmm_ else (n, d)}
    own = (Parameter(k * letters, Parameter.POSITIONAL_OR_KEYWORD, annotation=tensor[i]) for k, i in inputs.items())
    spec.__signature__ = Signature([Parameter("f", Parameter.POSITIONAL_OR_KEYWORD), *own])  # type: ignore[attr-defined]
    spec.__name__ = "named"
    return op(spec).op


class _Numbered(ast.NodeTransformer):
    """Every name as a number, in the order of first use: what the code names after others may not be named so."""

    def __init__(self):
        self.known: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.known.setdefault(node.id, f"name_{len(self.known)}"))


def calls_of(code: str) -> str:
    """Functions without their layout and docstrings, with a letter for each long name."""
    short = re.sub(rf"([abc])\1{{{_LONG - 1}}}", r"\1", code)
    tree = ast.parse(re.sub(r'""".*?"""', '""', short.rpartition("class ")[0], flags=re.DOTALL))
    return ast.unparse(_Numbered().visit(tree))


@pytest.mark.parametrize("call", BODIES)
def test_names_of_70_letters_lead_to_the_calls_that_short_ones_lead_to(call):
    short, long = (code_of(named(BODIES[call], letters)) for letters in (1, _LONG))
    assert f"{call}(" in short
    assert "a" * _LONG in long
    assert calls_of(long) == calls_of(short)
