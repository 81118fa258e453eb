"""What a user of PyTorch asks of a tensor with a dot, and what is written in its place."""

from __future__ import annotations

_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin"}

_FUNCTIONS = frozenset({
    "abs", "cos", "erf", "exp", "expm1", "log", "log1p", "relu", "rsqrt", "sigmoid", "sign", "sin", "softplus", "sqrt",
    "tanh",
})  # fmt: skip

_WRITTEN = {
    "the length of an axis is size(d)": ("dim", "ndim", "numel", "shape", "size"),
    "the axes on the left say the order: f.y[d, n] = x[n, d]": (
        "H", "T", "mT", "movedim", "permute", "swapaxes", "t", "transpose",
    ),
    "merge axes on the left, f.y[n, (t, e)] = x[n, t, e], and take them apart on the right, x[n, (t, e)]": (
        "flatten", "reshape", "unflatten", "view",
    ),
    "what lacks an axis is broadcast along it: leave the axis out": (
        "broadcast_to", "expand", "expand_as", "repeat", "squeeze", "unsqueeze",
    ),
    "write a sum of a product: sum(a[i, k] * b[k, j], over=k)": ("bmm", "dot", "matmul", "mm"),
    "the caller's tensors have them; a spec has elements alone": (
        "clone", "contiguous", "cpu", "cuda", "data", "detach", "device", "double", "dtype", "float", "grad", "half",
        "item", "numpy", "requires_grad", "requires_grad_", "to", "tolist",
    ),
}  # fmt: skip


def instead_of(name: str, element: str) -> str:
    """What to write for `.name` of a tensor, one element of which is read like this, or of such an element."""
    if name in _REDUCTIONS:
        own = element.partition("[")[2].rstrip("]").rpartition(", ")[2]
        return f"write {_REDUCTIONS[name]}({element}, over={own if own.isidentifier() else 'd'})"
    if name in _FUNCTIONS:
        return f"write {name}({element})"
    found = next((written for written, names in _WRITTEN.items() if name in names), None)
    return found or f"write functions around elements, such as exp({element})"
