"""Two forms of one backward, at random points, element by element."""

import numpy as np

from derive.adjoint.chain_rule import Stepwise
from derive.pipeline import Derivation
from tests.derive.evaluate import World, backward, defined, forward, inputs, with_cotangents
from tests.derive.specs import Spec


def points(spec: Spec, steps: Stepwise, count: int) -> list[World]:
    """Random worlds with the forward of `steps.op` and cotangents in them."""
    out = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        start = inputs(spec.op, spec.sizes, rng, **spec.scalars)
        out.append(with_cotangents(steps, forward(steps.op, start), rng)[0])
    return out


def assert_closed_equals_stepwise(spec: Spec, derivation: Derivation, count: int = 4) -> None:
    """Every gradient of the closed form is that of the stepwise form, to rounding."""
    steps = derivation.steps
    for world in points(spec, steps, count):
        slow = backward(steps, world)
        fast = defined(steps, derivation.closed.definitions, world)
        for adjoint in steps.adjoints:
            name = adjoint.target.name
            if name in fast.tensors:
                scale = max(1.0, np.abs(slow.tensors[name]).max(initial=0))
                np.testing.assert_allclose(
                    fast.tensors[name] / scale, slow.tensors[name] / scale, atol=1e-11, err_msg=f"{spec.name}: {name}"
                )
