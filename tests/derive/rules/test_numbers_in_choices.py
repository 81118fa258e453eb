"""A number that one value of a choice loses goes into the choice."""

import pytest
import torch
from torch import Tensor

from derive import axes, exp, expm1, op, sum, tanh, tensor, where
from derive.emit import render
from derive.pipeline import derivation_of
from derive.rules.stability.near_one import with_digits_near_one
from tests.derive.live import assert_derived, module

d, n, s, t = axes("d n s t")


@op
def in_one(f, q: tensor[n, d]):
    f.y[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 1) + 1
    return f.y


@op
def named(f, q: tensor[n, d]):
    f.elu[n, d] = where(q[n, d] > 0, q[n, d], expm1(q[n, d]))
    f.y[n, d] = 1 + f.elu[n, d]
    return f.y


@op
def of_two(f, q: tensor[n, d], k: tensor[s, d]):
    f.fq[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 1) + 1
    f.fk[s, d] = where(k[s, d] > 0, k[s, d], exp(k[s, d]) - 1) + 1
    f.a[n, s] = sum(f.fq[n, d] * f.fk[s, d], over=d)
    return f.a


def _plus_one(q: Tensor) -> Tensor:
    return torch.where(q > 0, q + 1, q.exp())


@pytest.mark.parametrize("made", [in_one, named])
def test_a_feature_map_keeps_its_digits(made) -> None:
    code = render(derivation_of(made.op)).partition("_forward(")[2]
    assert ".add_(1)" not in code and "expm1" not in code and ".sub_(1)" not in code, code
    assert_derived(made.op, _plus_one, {"q": (3, 4)})
    found = getattr(module(made.op), made.op.name)(torch.tensor([[-20.0]]))
    torch.testing.assert_close(found, torch.tensor([[-20.0]]).exp())


def test_in_the_factors_of_a_product() -> None:
    assert_derived(of_two.op, lambda q, k: _plus_one(q) @ _plus_one(k).T, {"q": (3, 4), "k": (2, 4)})


@op
def other_number(f, q: tensor[n, d]):
    f.y[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 2) + 1
    return f.y


@op
def read_twice(f, q: tensor[n, d]):
    f.elu[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 1)
    f.y[n, d] = f.elu[n, d] + 1
    f.z[n, d] = tanh(f.elu[n, d])
    return f.y, f.z


@op
def an_output(f, q: tensor[n, d]):
    f.elu[n, d] = where(q[n, d] > 0, q[n, d], exp(q[n, d]) - 1)
    f.y[n, d] = f.elu[n, d] + 1
    return f.elu, f.y


@pytest.mark.parametrize("made", [other_number, read_twice, an_output])
def test_left_as_it_is_written(made) -> None:
    (before, after) = ([e.body for e in o.equations if e.name == "y"] for o in (made.op, with_digits_near_one(made.op)))
    assert after == before
