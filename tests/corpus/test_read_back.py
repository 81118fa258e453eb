"""A program is printed as a spec that reads back as itself, and whose own derivation is the second order."""

import pytest
import torch

from derive.catalogue import load_file
from derive.notation.printed import spec_file
from derive.orders import fixed, gradients, specs
from derive.output.live import build
from derive.pipeline import derivation_of
from tests.corpus import Spec, corpus
from tests.corpus.read_back import checked

SAME = [
    "softmax",
    "layernorm",
    "embedding",
    "cross_entropy_ignore_index",  # a condition by name, a gather and a scatter that it guards
    "add",  # a cotangent that is returned twice
    "rotary_interleaved",  # places of an axis of fixed length, parts of a merged one
    "split_heads",
    "causal_attention",
    "conv1d",  # a scatter through windows, onto an axis whose length the body says
    "concatenate",
    "path_of_labels",  # several indices at once, a square matrix
]
OTHER = [
    "mixed_with_its_neighbours",  # several scatters onto one tensor, of fewer places
    "token_shift",  # SymPy has other sums of the same terms
    "padded_maximum",  # pieces of several places that show no axis
    "next_token",  # an index that is made, out of another at places that a condition keeps inside
    "histogram_of_the_next",  # a place that is computed from an index
    "masked_segment_shares",  # a maximum at the places of an index
    "hopfield_energy_and_update",  # its second derivative is a sum of which one part is read by name elsewhere
]


def _spec(name: str) -> Spec:
    return next(s for s in corpus() if s.name == name)


@pytest.mark.parametrize("name", SAME)
def test_what_is_printed_reads_back_as_itself_and_has_its_own_derivative(name: str) -> None:
    assert {what: wrong for what, wrong in checked(_spec(name)) if wrong} == {}


@pytest.mark.parametrize("name", OTHER)
def test_what_is_printed_computes_the_same_and_has_its_own_derivative(name: str) -> None:
    found = dict(checked(_spec(name)))
    assert {what: wrong for what, wrong in found.items() if wrong and "again" not in what} == {}


def test_a_file_of_specs_is_text_for_a_reader_and_for_the_command(tmp_path) -> None:
    path = tmp_path / "layernorm.py"
    path.write_text(specs(derivation_of(_spec("layernorm").op)))
    assert [op.name for op in load_file(path)] == [
        "layernorm_backward", "layernorm_gradients", "layernorm_jvp",
    ]  # fmt: skip
    assert "    f.mean_dxhat[...] = sum(gamma[d] * dy[..., d], over=d) / size(d)\n" in path.read_text()


def test_the_same_program_is_the_same_text_every_time() -> None:
    d = derivation_of(_spec("conv1d").op)
    assert spec_file([gradients(d)], fixed(d.named)) == spec_file([gradients(d)], fixed(d.named))


def test_a_hessian_times_a_vector_by_the_op_read_back(tmp_path) -> None:
    path = tmp_path / "softmax.py"
    path.write_text(specs(derivation_of(_spec("softmax").op)))
    gradient = build(next(op for op in load_file(path) if op.name == "softmax_gradients"))
    x, dp, v = (torch.randn(3, 7, dtype=torch.float64, requires_grad=k < 2) for k in range(3))
    (want,) = torch.autograd.grad(torch.softmax(x, -1), x, dp, create_graph=True)
    torch.testing.assert_close(gradient(x, dp), want)
    wanted, found = (torch.autograd.grad(g, (x, dp), v) for g in (want, gradient(x, dp)))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
