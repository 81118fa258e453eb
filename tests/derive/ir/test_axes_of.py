"""The order of a product's axes: a tensor's, taken apart or not, and a matrix's behind them."""

from derive.ir.nodes.substituting import axes_of
from derive.ir.program import Call, Merged, Read, Reduce
from derive.notation import axes, op, sum, tensor
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

n, i, j, s, t = axes("n i j s t")


@op
def kronecker(f, x: tensor[n, i, j], a: tensor[i, s], b: tensor[j, t]):
    """A layer whose matrix is a Kronecker product."""
    f.y[n, (s, t)] = sum(x[n, i, j] * a[i, s] * b[j, t], over=(i, j))
    return f.y


def test_merged_axes_are_in_the_order_in_which_they_lie() -> None:
    merged = Read("dy", ("n", Merged(("s", "t"))))
    product = Call("mul", (Read("b", ("j", "t")), merged))
    assert axes_of(Reduce("sum", ("t",), product)) == ("n", "s", "j")
    assert axes_of(product) == ("n", "s", "j", "t")


def test_a_shared_product_lies_as_the_examples_do() -> None:
    code = code_of(kronecker.op)
    assert ".unflatten(1, (s, t)) @ b.T" in code, code
    plain = {"x": (3, 4, 2), "a": (4, 5), "b": (2, 6)}
    assert_derived(kronecker.op, lambda x, a, b: (a.T @ x @ b).flatten(1), plain)
