"""A closed form has no definition that nothing reads, and nothing is kept for one."""

from derive.collapse.saving import reached
from derive.notation import axes, exp, log, op, sum, tensor
from derive.pipeline import derivation_of
from tests.derive.live import assert_derived

n, c = axes("n c")


@op
def entropy(f, z: tensor[n, c]):
    """The gradient of the sum of exponentials is cancelled from that of the scores."""
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.h[n] = log(sum(exp(z[n, c]), over=c)) - sum(f.p[n, c] * z[n, c], over=c)
    return f.h


def test_what_is_kept_is_read() -> None:
    derivation = derivation_of(entropy.op)
    definitions = list(derivation.closed.definitions)
    assert reached(definitions, derivation.backward.returns) == definitions
    read = {name for s in derivation.backward.statements for name in str(s).replace("[", " ").split()}
    assert set(derivation.kept) <= read, derivation.kept


def test_it_is_derived() -> None:
    assert_derived(entropy.op, lambda z: -(z.softmax(1) * z.log_softmax(1)).sum(1), {"z": (3, 5)})
