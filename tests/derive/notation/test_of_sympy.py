"""What SymPy offers on elements either keeps their values or is refused: `diff(f.u[n], x[n])` was 0, without a word."""

import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, NoneType
from typing import Any

import pytest
import sympy
import torch
from sympy import Basic, Expr, Symbol, diff
from sympy.core.kind import Kind

from derive import amax, axes, exp, log, maximum, op, relu, scalar, size, sqrt, sum, tanh, tensor, where
from derive.errors import DeriveError
from derive.ir.terms.elements import At, Tensor
from derive.notation.checks import FUNCTIONS, check_functions
from derive.notation.methods import KEPT, OF_SYMPY
from derive.notation.questions import refused
from derive.notation.recorded import as_recorded
from derive.notation.values import expression
from derive.verify.places import World
from derive.verify.reference import execute
from tests.derive.live import inputs_of

d, n = axes("d n")

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "element": lambda x, z: x,
    "sum": lambda x, z: x**2 + 2 * x * z - z / 3 + 1,
    "quotient": lambda x, z: (x**2 - z**2) / (x - z) + 1 / (x * z),
    "root": lambda x, z: sqrt(x**2) * sqrt(x**2 * z**2) + (x**2) ** sympy.Rational(1, 4),
    "exponential": lambda x, z: exp(x + z) / exp(x) + log(exp(x)) + 2**x * 2**z,
    "logarithm": lambda x, z: log(x**2 * z**2) + log(x**2) - log(z**2 / x**2),
    "angle": lambda x, z: sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - sympy.tan(x) * sympy.cos(x),
    "inverse": lambda x, z: sympy.atan(sympy.tan(3 * x)) + sympy.asinh(sympy.sinh(z)),
    "hyperbolic": lambda x, z: tanh(x + z) * sympy.cosh(x) + sympy.sinh(x) / sympy.cosh(x),
    "kinks": lambda x, z: relu(x * z) + abs(x) * sympy.sign(x) + maximum(x, z) + abs(x * z) / abs(x),
    "choice": lambda x, z: where(x > z, x * z + x, x / z) + where((x > 0) & (z < 1), z, 2 * z),
}


def kept_of(name: str, x: Expr, e: Expr) -> Expr:
    """What the expression is made by a method, or where it has none by a function."""
    more = {"collect": (x,), "prod": ([e, 1],), "root": (1,), "apart": (x,)}.get(name, ())
    if name in ("prod", "root", "cbrt", "sqrt"):
        return {"prod": lambda: sympy.prod([e, x]) / x, "root": lambda: sympy.root(e, 1)}.get(name, lambda: e)()
    method = getattr(e, name, None)
    return method(*more) if method is not None else getattr(sympy, name)(e, *more)


@pytest.mark.parametrize("written", EXPRESSIONS)
@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_keeps_its_values(name: str, written: str) -> None:
    try:

        @op
        def both(f, x: tensor[n, d], z: tensor[n, d]):
            f.y[n, d] = EXPRESSIONS[written](x[n, d], z[n, d])
            f.k[n, d] = kept_of(name, x[n, d], EXPRESSIONS[written](x[n, d], z[n, d]))
            return f.y, f.k
    except sympy.PolynomialError:  # of several elements, or of a choice, there is no such form
        return
    made = execute(both.op, World({"n": 40, "d": 5}, inputs_of(both.op, {"x": (40, 5), "z": (40, 5)}))).tensors
    torch.testing.assert_close(made["k"], made["y"], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["expand", "factor", "together", "cancel"])
def test_of_reductions_too(name: str) -> None:
    @op
    def both(f, x: tensor[n, d], z: tensor[n, d], s: scalar = 0.5):
        e = (sum(x[n, d] * z[n, d], over=d) + s) ** 2 / (amax(x[n, d], over=d) * s + size(d))
        f.y[n] = e
        f.k[n] = getattr(e, name)()
        return f.y, f.k

    world = World({"n": 4, "d": 3}, inputs_of(both.op, {"x": (4, 3), "z": (4, 3)}), {"s": 0.5})
    made = execute(both.op, world).tensors
    torch.testing.assert_close(made["k"], made["y"], rtol=1e-12, atol=0)


def asked(e: Any, name: str, x: Any) -> Any:
    """What an attribute gives, or a method of as many arguments as it takes."""
    found = getattr(e, name)
    if not callable(found) or isinstance(found, type):
        return found
    for arguments in ((), (x,), (x, 2), (x, x, 2), ([x],), (lambda a: a,)):
        try:
            return found(*arguments)
        except TypeError:
            continue
    return None


def values_in(found: Any) -> Iterator[Basic]:
    """The expressions that something holds."""
    if isinstance(found, Basic):
        yield found
    elif isinstance(found, dict):
        yield from values_in([*found, *found.values()])
    elif isinstance(found, list | tuple | set | frozenset):
        for inner in found:
            yield from values_in(inner)


X, Z = At(Tensor("x"), n, d), At(Tensor("z"), n, d)
PARTS: dict[str, Any] = {
    "element": X, "sum": X + 2 * Z, "product": X * Z / 3, "power": X**2, "function": tanh(X), "extremum": maximum(X, Z),
    "reduction": sum(X, over=d), "choice": where(X > 0, X, Z), "condition": (X > 0) & (Z < X), "length": size(d) + 1,
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_all_that_an_expression_offers_is_kept_or_refused(part: str) -> None:
    """A value that comes out has been asked for under a name of `OF_SYMPY`; what gives no value is a class's own."""
    e, wrong = PARTS[part], []
    for name in (n for n in dir(Expr) if not n.startswith("_") and hasattr(type(e), n)):
        refusal = found = None
        try:
            with refused(__file__):
                found = asked(e, name, X)
        except DeriveError as error:
            refusal = error
        except (AttributeError, NotImplementedError, sympy.PolynomialError) as error:  # SymPy's own refusals
            assert name in OF_SYMPY, error
        if name in OF_SYMPY:
            wrong += [f"{name} is refused"] if refusal is not None else []
        elif refusal is None and (any(v.atoms(At) for v in values_in(found)) or not isinstance(found, GIVING_NO_VALUE)):
            wrong.append(f"{name} gives {found!r}")
    assert not wrong


GIVING_NO_VALUE = (NoneType, bool, type, dict, frozenset, tuple, list, Kind, MethodType, FunctionType, str, Basic)


SAME = {
    "Abs", "Add", "Id", "Identity", "MatAdd", "MatMul", "Max", "Min", "Mul", "Pow", "S", "EXRAW", "Xor", "adjoint",
    "conjugate", "ilex", "im", "lex", "ln", "re", "sign", "transpose", "trigamma",
}  # fmt: skip
"""What means itself, is a word of the notation under another name, or of real numbers is known: `re(x)`, `im(x)`."""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_functions_of_sympy_are_kept_or_refused(count: int) -> None:
    """What can be recorded is a function of the notation, or was asked for under a name of `OF_SYMPY`."""
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old names, and of generators that are refused
        for name in (n for n in sympy.__all__ if callable(getattr(sympy, n)) and n not in {*SAME, *OF_SYMPY}):
            found = made_by(getattr(sympy, name), (X * Z + 1, X, 2)[:count])
            if isinstance(found, Expr) and name not in FUNCTIONS:
                wrong.append(f"{name} gives {found}")
    assert not wrong


def made_by(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a function makes of elements in a spec, where an equation may hold it; else nothing."""
    try:
        with refused(__file__):
            found = function(*arguments)
        if isinstance(found, Expr):
            check_functions(as_recorded(expression(found), {}), "y")
    except Exception:  # whatever SymPy says of arguments that are none of its classes'
        return None
    return found


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "diff of u[n]": (lambda u, x: diff(u, x), "write the entry of a Jacobian, derivative"),
    "diff of tanh": (lambda u, x: tanh(x).diff(x), "write the entry of a Jacobian, derivative"),
    "Derivative of u[n]": (lambda u, x: sympy.Derivative(u, x), "write the entry of a Jacobian, derivative"),
    "subs of x[n]": (lambda u, x: (x + 1).subs(x, u), "put the other value there yourself"),
    "xreplace of x[n]": (lambda u, x: (x + 1).xreplace({x: u}), "put the other value there yourself"),
    "integrate of": (lambda u, x: sympy.integrate(x, x), "an integral in closed form"),
    "limit of": (lambda u, x: sympy.limit(x * u, x, 0), "say what holds there with where"),
    "solve of": (lambda u, x: sympy.solve(x - u, x)[0], "write the solution in closed form"),
    "N of": (lambda u, x: sympy.N(x / 3), "numbers are exact as they are written"),
    "as_real_imag of": (lambda u, x: x.as_real_imag()[0], "elements are real"),
    "is_positive of": (lambda u, x: x if u.is_positive else 2 * x, r"where\(x\[n\] > 0, a, b\)"),
    "factor of": (lambda u, x: (x * u).factor(modulus=3), "leave modulus out"),
    "trigsimp of": (lambda u, x: sympy.trigsimp(sympy.asin(sympy.sin(x)), inverse=True), "leave inverse out"),
    "simplify of": (lambda u, x: (x * u).simplify(), "how a formula is spelt does not matter"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_says_what_to_write_instead(what: str) -> None:
    make, instead = REFUSED[what]
    with pytest.raises(DeriveError, match=rf"op mine: SymPy is asked for {what.replace('[n]', '')}.*{instead}"):

        @op
        def mine(f, x: tensor[n], w: tensor[n]):
            f.u[n] = tanh(w[n] * x[n])
            f.y[n] = make(f.u[n], x[n])
            return f.y


def test_numbers_may_be_made_by_all_of_sympy() -> None:
    @op
    def scaled(f, x: tensor[n]):
        q = Symbol("q")
        f.y[n] = x[n] * sympy.integrate(q**2, (q, 0, 1)) * diff(q**3, q).subs(q, 2) / sympy.sqrt(4).evalf(3)
        return f.y

    assert str(scaled.op.equations[0]) == "y[n] = 2*x[n]"


def test_outside_of_a_spec_nothing_is_refused() -> None:
    assert diff(tanh(n), n).subs(n, 0) == 1
