"""Kernels in the battery's situations: what `derive verify` holds the torch form against."""

from __future__ import annotations

import importlib

import pytest

from derive.catalogue import find
from derive.verify.battery import cases
from derive.verify.compare import disagreements
from derive.verify.subjects import of_functions
from tests.native.conftest import Package
from tests.native.running import only_kernels

OPS = """layernorm batchnorm groupnorm softmax_cross_entropy cross_entropy_ignore_index causal_attention
rotary_interleaved embedding max_pool2d merge_heads gelu standardise names_step""".split()  # noqa: SIM905


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_kernels_are_right_in_every_situation(package: Package, name: str) -> None:
    made = package(name)
    kernels = of_functions(getattr(made, f"{name}_forward"), getattr(made, f"{name}_backward"))
    with only_kernels(importlib.import_module(f"{made.__name__}._native")):
        found = [str(d) for case in cases(find(name)) for d in disagreements(case, kernels)]
    assert not found
