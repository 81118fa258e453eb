"""What is read by the parts of one axis alone is merged where it is made, and read as what it is then."""

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from derive import axes, op, sigmoid, sum, tanh, tensor
from derive.ir.nodes.soundness import check
from derive.ir.program import Assign, Call, Num, PartOf, Program, Read, Reduce, Scatter, SizeOf, Statement
from derive.schedule.merged_once import merged_once
from tests.derive.against_loops import code_of
from tests.derive.live import assert_derived

c, j, n = axes("c j n")
p = axes("p=2")

U = Read("u", ("n", "p", "j"))
LENGTHS = (SizeOf("p"), SizeOf("j"))
PARTS = (PartOf("c", 0, LENGTHS), PartOf("c", 1, LENGTHS))
TWICE = Assign("z", ("n", "p", "j"), Call("mul", (Num(Fraction(2)), U)))
BY_PARTS = Read("z", ("n", *PARTS))
TOTAL = Assign("a", ("c",), Reduce("sum", ("n",), BY_PARTS))
PRODUCT = Assign("b", ("n",), Reduce("sum", ("c",), Call("mul", (BY_PARTS, Read("w", ("c",))))))
GIVEN = (("u", ("n", "p", "j")), ("w", ("c",)))


def _program(*statements: Statement, returns: tuple[str, ...] = ("a", "b")) -> Program:
    return check(Program("f", GIVEN, (), statements, returns))


def test_what_all_reads_merge() -> None:
    made, total, product = merged_once(_program(TWICE, TOTAL, PRODUCT)).statements
    assert str(made) == "z[n, (p, j)] = 2 * u[n, p, j]"
    assert (str(total), str(product)) == ("a[c] = sum(z[n, c], over=n)", "b[n] = sum(z[n, c] * w[c], over=c)")


@pytest.mark.parametrize(
    ("statements", "returns"),
    [
        ((TWICE, TOTAL), ("a",)),
        ((TWICE, TOTAL, PRODUCT), ("a", "b", "z")),
        (
            (TWICE, TOTAL, PRODUCT, Assign("d", ("n", "j"), Reduce("sum", ("p",), Read("z", ("n", "p", "j"))))),
            ("a", "d"),
        ),
        ((TWICE, TOTAL, PRODUCT, Scatter("z", ("n", "p", "j"), ("n", "p", "j"), U, "z")), ("a", "b")),
        ((TWICE, TOTAL, Assign("d", ("c",), Reduce("sum", ("n",), Read("z", ("n", PARTS[1], PARTS[0]))))), ("a", "d")),
    ],
    ids=["read once", "returned", "read as it is", "added to", "parts in another order"],
)
def test_what_stays(statements: tuple[Statement, ...], returns: tuple[str, ...]) -> None:
    program = Program("f", GIVEN, (), statements, returns)
    assert merged_once(program) == program


def test_what_reads_a_merged_tensor_is_merged_as_well() -> None:
    """`a` is made of what is merged before it."""
    both = Call("mul", (U, Reduce("sum", ("n'", "c"), Read("z", ("n'", *PARTS)))))
    again = (Assign("y", ("n", "p", "j"), both), Assign("d", ("c",), Reduce("sum", ("n",), Read("y", ("n", *PARTS)))))
    other = Assign("e", ("n",), Reduce("sum", ("c",), Read("y", ("n", *PARTS))))
    found = merged_once(_program(TWICE, TOTAL, *again, other, returns=("a", "d", "e"))).statements
    assert [str(s).partition(" = ")[0] for s in found] == ["z[n, (p, j)]", "a[c]", "y[n, (p, j)]", "d[c]", "e[n]"]


@op
def gates(f, x: tensor[n, j], w: tensor[c, j], bias: tensor[c]):
    """Both gates in one product of matrices, as recurrent cells have them."""
    f.z[n, c] = sum(w[c, j] * x[n, j], over=j) + bias[c]
    f.apart[n, p, j] = f.z[n, (p, j)]
    f.y[n, j] = sigmoid(f.apart[n, 0, j]) * tanh(f.apart[n, 1, j]) + x[n, j]
    return f.y


def _gates(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    first, second = torch.nn.functional.linear(x, w, bias).chunk(2, 1)
    return first.sigmoid() * second.tanh() + x


def test_gradients() -> None:
    assert_derived(gates.op, _gates, {"x": (4, 3), "w": (6, 3), "bias": (6,)})
    code = code_of(gates.op)
    assert code.count(".flatten(1, 2)") == 1 and "dz = " not in code, code
    assert "dw = dapart.T @ x" in code and "dbias = dapart.sum(0)" in code, code
