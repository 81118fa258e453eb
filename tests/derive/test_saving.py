"""What the forward keeps: by cost, the least, from the inputs, from the outputs within their domain."""

import importlib
import sys
from types import ModuleType

import pytest
import torch

from benchmarks.ways import forms
from derive import emit
from derive.errors import DeriveError
from derive.notation.spec import OpCall
from derive.ops.attention import causal_attention
from derive.pipeline import derive_op
from tests.derive import specs_of_saving as specs

DOUBLE = torch.float64


def built(call: OpCall, save: str, folder: object) -> ModuleType:
    """The op's module under one way of saving, imported from a package of its own."""
    package = f"saved_{call.op.name}_{save}"
    path = folder / package  # type: ignore[operator]
    path.mkdir()
    (path / "__init__.py").write_text("")
    for name, text in emit.support_files().items():
        (path / name).write_text(text)
    (path / "made.py").write_text(emit.render(derive_op(call.op, save)))
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{package}.made")
    finally:
        sys.path.remove(str(folder))


def agrees(module: ModuleType, call: OpCall, inputs: list[torch.Tensor]) -> None:
    """The backward equals autograd of the equations, one operation at a time, for random cotangents."""
    name = call.op.name
    leaves = [x.clone().requires_grad_() for x in inputs]
    made = forms(call.op).primitives(*leaves)
    outputs = made if isinstance(made, tuple) else (made,)
    cotangents = [torch.randn_like(y) for y in outputs]
    expected = torch.autograd.grad(outputs, leaves, cotangents)
    *_, saved = getattr(module, f"{name}_forward")(*inputs)
    found = getattr(module, f"{name}_backward")(*cotangents, *saved)
    found = (found,) if isinstance(found, torch.Tensor) else found
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(sum(shape)))


CASES = [
    (specs.spread_and_variance, "cost", [(5, 7)]),
    (specs.mean_times_maximum, "cost", [(5, 7)]),
    (specs.in_cases, "cost", [(5, 7)]),
    (specs.joined, "cost", [(3, 2), (3, 4), (6,)]),
    (specs.joined, "cost", [(2,), (4,), (6,)]),
    (specs.norm_with_gain, "cost", [(5, 7), (7,)]),
    (specs.norm_with_gain, "least", [(5, 7), (7,)]),
    (specs.norm_with_gain, "input", [(5, 7), (7,)]),
    (specs.norm_with_gain, "fused", [(5, 7), (7,)]),
    (specs.norm_with_nonzero_gain, "output", [(5, 7), (7,)]),
    (causal_attention, "least", [(2, 5, 3), (2, 6, 3), (2, 6, 4)]),
]


@pytest.mark.parametrize(("call", "save", "shapes"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_every_way_of_saving_gives_the_gradient(call: OpCall, save: str, shapes: list, tmp_path: object) -> None:
    agrees(built(call, save, tmp_path), call, [numbers(*s) for s in shapes])


def test_from_the_inputs_keeps_inputs_alone() -> None:
    assert set(derive_op(specs.norm_with_gain.op, "input").kept) == {"x", "gain"}


def test_the_least_is_the_inputs_and_statistics_of_rows() -> None:
    """As FlashAttention keeps them (Dao et al., 2022): the weights are as many as pairs of places."""
    assert set(derive_op(causal_attention.op, "least").kept) == {"q", "k", "v", "m", "u_sum"}


def test_where_loops_are_fused_inputs_are_kept_and_not_what_is_made_of_them() -> None:
    assert set(derive_op(specs.norm_with_gain.op, "fused").kept) == {"x", "gain", "r"}


def test_a_kernel_keeps_nothing_as_large_as_what_a_batch_of_products_makes() -> None:
    """It makes the scores again, a tile at a time; what one large product makes would take as much again."""
    assert derive_op(causal_attention.op, "kernel").kept == ("m", "u_sum", "q", "k", "v")
    assert "p" in derive_op(specs.one_head.op, "kernel").kept
    assert "h" in derive_op(specs.two_layers.op, "kernel").kept


def test_from_the_output_keeps_the_output() -> None:
    kept = derive_op(specs.norm_with_nonzero_gain.op, "output").kept
    assert "y" in kept and "x" not in kept and "xhat" not in kept


def test_a_form_outside_its_domain_is_refused() -> None:
    with pytest.raises(DeriveError) as caught:
        derive_op(specs.norm_with_gain.op, "output")
    assert str(caught.value) == (
        "op norm_with_gain, equation y: the form from the output holds only where gain[d] != 0; "
        "declare that of gain (tensor[…].nonzero), or keep something else"
    )


def test_an_output_that_tells_nothing_is_refused() -> None:
    with pytest.raises(DeriveError, match="no gradient can be read from an output"):
        derive_op(specs.mean_times_maximum.op, "output")


def test_an_unknown_way_of_saving_is_refused() -> None:
    with pytest.raises(DeriveError, match="choose one of cost, least, input, output"):
        derive_op(specs.joined.op, "nothing")


# --- what generated code shares, writes over and widens -----------------------------------------------------------


def test_shared_work_inside_a_concatenation(tmp_path: object) -> None:
    module = built(specs.joined_from_one, "cost", tmp_path)
    x = numbers(3, 4)
    agrees(module, specs.joined_from_one, [x])
    torch.testing.assert_close(module.joined_from_one(x), torch.cat([x.exp(), 2 * x.exp()], -1), rtol=1e-12, atol=1e-12)


def test_a_product_that_a_view_is_returned_of_is_not_written_over(tmp_path: object) -> None:
    module = built(specs.product_and_its_transpose, "cost", tmp_path)
    x, w = numbers(3, 4), numbers(4, 5)
    t, y = module.product_and_its_transpose(x, w)
    torch.testing.assert_close(t, (x @ w).T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(y, 2 * (x @ w), rtol=1e-12, atol=1e-12)


def test_half_precision_behind_an_integer_input_is_accumulated_in_float32(tmp_path: object) -> None:
    module = built(specs.squares_of_rows, "cost", tmp_path)
    table = torch.full((7, 300), 1 + 2**-7).bfloat16()  # whose square no bfloat16 holds
    ix = torch.tensor([3, 3, 0, 6])
    y, _ = module.squares_of_rows_forward(ix, table)
    assert y.dtype == torch.bfloat16
    assert y == (table[ix].float().square() - 1).sum().bfloat16()
