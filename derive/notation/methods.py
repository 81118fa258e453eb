"""What a user of PyTorch or SymPy asks for, with a dot or as a function, and what is written in its place."""

from __future__ import annotations

from derive.primitives import names

_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin"}

_FUNCTIONS = names(lambda r: r.word == "derive" and r.name not in ("maximum", "minimum")) | {"abs"}

_NO_GRADIENT = "compute it before and pass it as an input that has no gradient, c: constant[n, d]"
_TURNED = "the axes on the left say the order: f.y[d, n] = x[n, d]"
_MERGED = "merge axes on the left, f.y[n, (t, e)] = x[n, t, e], and take them apart on the right, x[n, (t, e)]"
_BROADCAST = "what lacks an axis is broadcast along it: leave the axis out"
_PRODUCT = "write a sum of a product: sum(a[i, k] * b[k, j], over=k)"

_WRITTEN = {
    "the length of an axis is size(d)": ("dim", "ndim", "numel", "shape", "size"),
    _TURNED: (
        "H", "T", "mT", "movedim", "permute", "swapaxes", "t", "transpose",
    ),
    _MERGED: ("flatten", "reshape", "unflatten", "view"),
    _BROADCAST: (
        "broadcast_to", "expand", "expand_as", "repeat", "squeeze", "unsqueeze",
    ),
    _PRODUCT: ("bmm", "dot", "matmul", "mm"),
    _NO_GRADIENT: ("detach",),
    "the caller's tensors have them; a spec has elements alone": (
        "clone", "contiguous", "cpu", "cuda", "data", "device", "double", "dtype", "float", "grad", "half",
        "item", "numpy", "requires_grad", "requires_grad_", "to", "tolist",
    ),
}  # fmt: skip

_FUNCTIONS_INSTEAD = {
    _NO_GRADIENT: (
        "ceil", "detach", "frac", "no_grad", "sg", "stop", "stop_grad", "stop_gradient", "stopgrad", "trunc",
    ),
    "write the closed form of a small matrix's, or compute it before and pass it as an input": (
        "cholesky", "det", "eigh", "inv", "inverse", "pinv", "qr", "solve", "svd",
    ),
    _TURNED: ("movedim", "permute", "swapaxes"),
    _MERGED: ("flatten", "reshape", "unflatten", "view"),
    _BROADCAST: ("broadcast_to", "expand", "squeeze", "unsqueeze"),
    _PRODUCT: ("bmm", "einsum", "mm", "tensordot"),
    "an axis read as a value is the number of its place: f.y[n] = n": ("arange",),
    "its values are integers: pass them as an input, index(d)[n]": ("argmax", "argmin"),
    "its places are integers: pass them as an input, order: index(d)[n, k], and read x[n, order[n, k]]": (
        "argsort", "kthvalue", "median", "quantile", "sort", "topk",
    ),
    "read it at an index: x[n, y[n]], where y: index(d)[n]": ("gather", "index_select", "take", "take_along_dim"),
    "write sum(where(eq(y[n], c), x[n], 0), over=n), where y: index(c)[n]": (
        "index_add", "scatter", "scatter_add", "segment_sum",
    ),
    "write minimum(maximum(x[n, d], low), high)": ("clamp", "clip"),
    "write minimum(maximum(x[n, d], 0), 6)": ("relu6",),
    "write minimum(maximum(x[n, d], -1), 1)": ("hardtanh",),
    "write -softplus(-x[n, d])": ("log_sigmoid", "logsigmoid"),
    "write x[n, d] * sigmoid(x[n, d])": ("swish",),
    "write x[n, d] * tanh(softplus(x[n, d]))": ("mish",),
    "write x[n, d] / (1 + abs(x[n, d]))": ("softsign",),
    "write a + w * (b - a)": ("lerp",),
    "write sqrt(a ** 2 + b ** 2)": ("hypot",),
    "write concat(x[n, i], z[n, j], along=k)": ("cat",),
    "write concat(x[n], z[n], along=k): pieces without an axis of their own are stacked": ("stack",),
    "write sum(where(j <= i, x[n, j], 0), over=j)": ("cumsum",),
    "write exp(sum(where(j <= i, log(x[n, j]), 0), over=j)) of positive values": ("cumprod",),
    "write exp(sum(log(x[n, d]), over=d)) of positive values": ("prod",),
    "write oo": ("inf",),
    "write 2 ** x[n, d]": ("exp2",),
    "write log(x[n, d]) / log(2)": ("log2",),
    "write log(x[n, d]) / log(10)": ("log10",),
    "write sqrt(sum(x[n, d] ** 2, over=d))": ("norm",),
    "write sqrt(mean((x[n, d] - mean(x[n, d], over=d)) ** 2, over=d))": ("std",),
    "write where(condition, a, b)": ("ifelse", "masked_fill"),
    "write & between conditions: (a > 0) & (b > 0)": ("logical_and",),
    "write | between conditions: (a > 0) | (b > 0)": ("logical_or",),
    "write ~ before a condition: ~(a > 0)": ("logical_not",),
    "write where(eq(y[n], c), 1, 0)": ("one_hot",),
    "write where(eq(i, j), 1, 0)": ("eye",),
    "write where(j >= i, x[i, j], 0)": ("triu",),
    "write x[n, size(t) - 1 - t]": ("flip",),
    "write x[n, (t + 1) % size(t)]": ("roll",),
    "read it under a condition that keeps it inside: where(t >= 1, x[n, t - 1], 0)": ("pad",),
    "write the number 0: it is broadcast": ("zeros", "zeros_like"),
    "write the number 1: it is broadcast": ("ones", "ones_like"),
}  # fmt: skip

ABSENT = {name: written for written, names in _FUNCTIONS_INSTEAD.items() for name in names}
"""What users of other libraries call and the notation lacks, and what there is instead."""


def instead_of(name: str, element: str) -> str:
    """What to write for `.name` of a tensor, one element of which is read like this, or of such an element."""
    if name in _REDUCTIONS:
        own = element.partition("[")[2].rstrip("]").rpartition(", ")[2]
        return f"write {_REDUCTIONS[name]}({element}, over={own if own.isidentifier() else 'd'})"
    if name in _FUNCTIONS:
        return f"write {name}({element})"
    found = next((written for written, names in _WRITTEN.items() if name in names), None)
    return found or f"write functions around elements, such as exp({element})"


KEPT = (
    "apart", "cancel", "cbrt", "collect", "expand", "expand_log", "expand_mul", "expand_multinomial",
    "expand_power_base", "expand_power_exp", "expand_trig", "factor", "factor_terms", "normal", "powdenest", "powsimp",
    "prod", "radsimp", "ratsimp", "root", "signsimp", "sqrt", "sympify", "together", "trigsimp",
)  # fmt: skip
"""What keeps every value, where both forms have one."""

_WRITING = (
    "args", "atoms", "count", "count_ops", "find", "free_symbols", "func", "has", "has_free", "has_xfree", "is_number",
    "latex", "pprint", "round", "sort_key", "srepr",
)  # fmt: skip
"""What asks how an expression is written, or, of elements, says itself why it cannot answer."""

OF_SYMPY = frozenset({*KEPT, *_WRITING})
"""What a spec may ask SymPy to make of what it reads; all else is refused."""

CHANGING = ("force", "func", "inverse", "modulus", "polar")
"""Options with which they change values: `asin(sin(x))` is `x` of small numbers alone."""

_SYMPY_INSTEAD = {
    "write the entry of a Jacobian, derivative(f.u[n], x[n, d]), of elements that have names": (
        "Derivative", "diff", "differentiate_finite", "fdiff", "idiff",
    ),
    "put the other value there yourself: write the equation of it, or a function of Python's that makes both": (
        "Subs", "replace", "rewrite", "subs", "xreplace",
    ),
    "write a sum over an axis, sum(x[n, d], over=d), and an integral in closed form": (
        "Integral", "Product", "Sum", "integrate", "product", "summation",
    ),
    "say what holds there with where: where(ne(x[n], 0), sin(x[n]) / x[n], 1)": (
        "Limit", "Order", "aseries", "as_leading_term", "fps", "leadterm", "limit", "nseries", "residue", "series",
        "taylor_term",
    ),
    "how a formula is spelt does not matter: leave it out": ("simplify",),
    "write the solution in closed form": ("invert", "nsolve", "roots", "solve", "solveset"),
    "numbers are exact as they are written: leave it out": ("N", "evalf", "n", "nsimplify"),
    "elements are real: leave it out, or give complex numbers an axis of two places, p = axes(\"p=2\")": (
        "adjoint", "as_real_imag", "conjugate",
    ),
    "compare values: eq(a, b)": ("compare", "dummy_eq", "equals", "is_same"),
    _TURNED: ("transpose",),
}  # fmt: skip


def instead_of_sympy(name: str) -> str:
    """What to write for what SymPy would make of an element."""
    if name.startswith("is_"):
        return "write where(x[n] > 0, a, b) for a choice"
    found = next((written for written, names in _SYMPY_INSTEAD.items() if name in names), None)
    return found or "write its value with the words of the notation"
