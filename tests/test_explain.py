"""What a derivation says of itself: every stage prints, and what it counts agrees with PyTorch."""


import pytest
import torch
from rich.console import Console
from sympy import sqrt

from derive.catalogue import find, load_file
from derive.collapse.autograd.saved import (
    elements_formula,
    example_sizes,
    saved_by_autograd,
    saved_by_forward,
    total_bytes,
)
from derive.emit import render
from derive.errors import DeriveError
from derive.ir.terms.axes import Axis, Size
from derive.ir.terms.choices import Where
from derive.ir.terms.elements import At, Scalar, Tensor
from derive.pipeline import derivation_of, derive_op
from derive.show.document import document
from derive.show.explain import STAGES, explain, text


def printed(name: str, show: str | None = None, width: int = 200, **sizes: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(explain(derivation_of(find(name)), show, sizes))
    return capture.get()


# --- the whole and its stages -----------------------------------------------------------------------------------------


def test_batchnorm_tells_its_whole_story_in_order() -> None:
    story = printed("batchnorm")
    told = [
        "batchnorm(x: tensor[n, d], gamma: tensor[d], beta: tensor[d]",
        "  xhat[n, d] = rstd[d] * x_minus_mu[n, d]\n",
        "  dy[n, d] is given: the gradient with respect to the output y\n",
        "  dxhat[n, d] = gamma[d] * dy[n, d]\n",
        "  because sum(xhat[n', d], over=n') = 0   by mu, x_minus_mu, xhat\n",
        "    = -sum(dx_minus_mu[n', d], over=n')\n",
        "      chain: put in dx_minus_mu\n",
        "      relation: sum(xhat[n', d], over=n') = 0   by mu, x_minus_mu, xhat\n",
        "  the closed form\n",
        "    dx[n, d] = gamma[d] * rstd[d] * (dy[n, d] - xhat[n, d] * sum(dy[n', d] * xhat[n', d], over=n') / "
        "(size(n) - correction) - sum(dy[n', d], over=n') / size(n))\n",
        "  backward\n",
        "  passes over the largest tensor: stepwise ",
        "  closed form   rstd, xhat, gamma               n*d + 2*d     16,896",
        "  autograd      x_minus_mu, rstd, gamma, xhat   2*n*d + 2*d   33,280",
    ]
    places = [story.find(line) for line in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["softmax_cross_entropy", "causal_attention"])
def test_the_relation_of_a_softmax_stands_first_in_its_collapse(name: str) -> None:
    collapse = printed(name, "collapse").splitlines()
    start = next(k for k, line in enumerate(collapse) if line.startswith("Collapse"))
    assert collapse[start + 1].startswith("  because sum(p[") and " = 1   by " in collapse[start + 1]


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_prints_alone(stage: str) -> None:
    titles = [title for title, _ in STAGES.values()]
    shown = printed("softmax_cross_entropy", stage)
    assert [t for t in titles if f"\n{t} ─" in shown] == [STAGES[stage][0]]
    assert len(shown.splitlines()) > 4


def test_a_schedule_says_what_shares_a_pass_and_for_which_lengths_each_way_is() -> None:
    forward, backward = printed("softmax", "schedule", width=200).split("  softmax_backward\n")
    told = [
        "    pass over ..., which threads share:\n",
        "        over d:\n",
        "          m[...] = amax(x[..., d], over=d)\n",
        "          p[..., d] = ",
        "        in memory: p\n",
        "        a number a place: m, p_sum\n",
        "      where size(d) < SHORT and size(...) >= many_rows(size(d)): "
        "short rows, a bundle at a time; parallel: ...; serial: d; vectors: ...\n",
        "      where size(d) >= WIDE and rows_together(",
        "      where size(d) < WIDE: rows, some together, stage by stage; parallel: ...; vectors: d\n",
        "      else: rows, one by one; parallel: ...; vectors: d\n",
    ]
    places = [forward.find(line) for line in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)
    assert backward.count("pass over") == 1


def test_a_schedule_says_what_a_tile_holds() -> None:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(explain(derive_op(find("causal_attention"), "kernel"), "schedule"))
    shown = capture.get()
    assert "tiles along i, for each of ..., which hold p, s, s_sum, u, w; threads share them:\n" in shown
    assert "  s_sum[i_tile, j_reach] = q[i_tile, d] @ k[j_reach, d]: rows i_tile, columns j_reach, summed d\n" in shown


def test_code_and_latex_are_those_of_the_files() -> None:
    def bare(source: str) -> list[str]:
        return [line.rstrip() for line in source.splitlines() if line.strip()]

    d = derivation_of(find("tanh"))
    assert bare(printed("tanh", "code"))[-len(bare(render(d))) :] == bare(render(d))
    assert bare(printed("tanh", "latex"))[-len(bare(document(d))) :] == bare(document(d))


def test_long_lines_go_on_further_in_and_nothing_is_lost() -> None:
    wide = printed("batchnorm", "collapse", width=400)
    narrow = printed("batchnorm", "collapse", width=60)
    assert max(map(len, narrow.splitlines())) <= 60
    assert "".join(narrow.split()).replace("─", "") == "".join(wide.split()).replace("─", "")


def test_nothing_printed_ends_in_blanks() -> None:
    assert [line for line in printed("batchnorm", "collapse").splitlines() if line != line.rstrip()] == []


def test_an_unknown_stage_and_an_unknown_axis_are_refused() -> None:
    with pytest.raises(DeriveError) as refused:
        explain(derivation_of(find("tanh")), "magic")
    assert str(refused.value) == (
        "op tanh: there is no stage magic; "
        "show one of equations, adjoint, collapse, program, saving, schedule, code, latex, specs"
    )
    with pytest.raises(DeriveError) as refused:
        printed("batchnorm", "saving", q=3)
    assert str(refused.value) == "op batchnorm: there is no axis q; its axes are n, d"


n, d = Axis("n"), Axis("d")
x, y = At(Tensor("x"), n, d), At(Tensor("y"), n)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (x - y, "x[n, d] - y[n]"),
        (-x, "-x[n, d]"),
        (-x - y, "-x[n, d] - y[n]"),
        ((x + y) * y / 2, "y[n] * (x[n, d] + y[n]) / 2"),
        (x / (2 * Size(n)), "x[n, d] / (2 * size(n))"),
        (x / y**2, "x[n, d] / y[n]**2"),
        (1 / sqrt(y + Scalar("eps")), "rsqrt(y[n] + eps)"),
        (x / sqrt(Size(d)), "x[n, d] / sqrt(size(d))"),
        (1 / y, "1 / y[n]"),
        (Where(y >= 0, x, y), "where(y[n] >= 0, x[n, d], y[n])"),
    ],
    ids=str,
)
def test_expressions_read_as_a_spec_would_have_them(expr, expected: str) -> None:
    assert text(expr) == expected


# --- what is kept -----------------------------------------------------------------------------------------------------


def kept_by_torch(loss) -> int:
    """The bytes of the distinct tensors that autograd saves while `loss` runs; plain numbers left out."""
    storages: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() > 1:
            storages[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss()
    return sum(t.untyped_storage().nbytes() for t in storages.values())


def real(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def test_autograds_share_of_batchnorm_is_what_torch_saves() -> None:
    x, gamma, beta = real(7, 5), real(5), real(5)

    def run() -> torch.Tensor:
        x_minus_mu = x - x.mean(0)
        var = (x_minus_mu**2).sum(0) / 6
        rstd = torch.rsqrt(var + 1e-5)
        xhat = rstd * x_minus_mu
        return gamma * xhat + beta

    d = derivation_of(find("batchnorm"))
    assert total_bytes(saved_by_autograd(d.named), example_sizes(d.op, {"n": 7, "d": 5})) == kept_by_torch(run)


def test_autograds_share_of_attention_is_what_torch_saves() -> None:
    q, k, v = real(3, 7, 5), real(3, 6, 5), real(3, 6, 4)
    mask = torch.arange(6) <= torch.arange(7)[:, None]

    def run() -> torch.Tensor:
        s = (q @ k.mT) / 5**0.5
        w = torch.where(mask, s, -torch.inf)
        u = torch.exp(w - w.amax(-1, keepdim=True))
        p = u / u.sum(-1, keepdim=True)
        return p @ v

    d = derivation_of(find("causal_attention"))
    sizes = example_sizes(d.op, {"...": 3, "i": 7, "j": 6, "d": 5, "e": 4})
    assert total_bytes(saved_by_autograd(d.named), sizes) == kept_by_torch(run)


def test_autograds_share_of_the_cross_entropy_is_counted_by_the_rule() -> None:
    d = derivation_of(find("softmax_cross_entropy"))
    assert [s.label for s in saved_by_autograd(d.named)] == ["z", "m", "u", "y", "s"]
    assert [s.label for s in saved_by_autograd(d.named) if s.element == "integer"] == ["y"]


def test_bytes_count_elements_of_each_kind() -> None:
    d = derivation_of(find("softmax_cross_entropy"))
    ours = saved_by_forward(d.named, d.kept)
    assert elements_formula(ours) == "n*c + n"
    assert total_bytes(ours, {"n": 10, "c": 3}) == 4 * 30 + 8 * 10


def test_sizes_of_an_example_agree_with_one_another() -> None:
    sizes = example_sizes(find("names_step"), {"t": 3, "e": 10, "h": 200})
    assert (sizes["i"], sizes["h"], sizes["n"]) == (30, 200, 64)


def test_formulas() -> None:
    d = derivation_of(find("layernorm"))
    assert elements_formula(saved_by_forward(d.named, ("rstd", "xhat", "gamma"))) == "|...|*d + |...| + d"
    assert elements_formula([]) == "0"


def test_a_window_leaves_room_for_itself(tmp_path) -> None:
    (tmp_path / "windowed.py").write_text(WINDOWED)
    (op,) = load_file(tmp_path / "windowed.py")
    assert example_sizes(op) == {"l": 64, "k": 4, "t": 29}
    assert example_sizes(op, {"l": 11, "k": 2}) == {"l": 11, "k": 2, "t": 5}


WINDOWED = '''
from derive import *

l, k, t = axes("l k t")


@op
def windowed(f, x: tensor[l], w: tensor[k]):
    """A window of stride 2 and dilation 2."""
    f.y[t] = sum(x[2 * t + 2 * k] * w[k], over=k)
    return f.y
'''
