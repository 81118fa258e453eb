"""What the lessons show is what PyTorch computes; and a derived program runs in the browser as it does in PyTorch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page
from torch.nn import functional

from derive.catalogue import find
from derive.notation import amax, axes, eq, index, length, oo, op, tensor, where
from derive.output.live import build
from derive.show.book.programs import op_data
from derive.show.book.render import asset
from tests.book import looking


def result(page: Page) -> dict[str, Any]:
    return json.loads(page.get_attribute("#numbers", "data-result") or "")


def move(page: Page, name: str, value: float) -> None:
    """Put a slider somewhere, as a hand would."""
    page.eval_on_selector(
        f"input[aria-label='{name}']",
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', { bubbles: true })); }",
        value,
    )


def leaf(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def close(found: Any, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), wanted.double(), rtol=1e-10, atol=1e-12)


# --- broadcasting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4, 1, 3), (2, 3)),
        ((4, 3), (3,)),
        ((4, 1), (1, 3)),
        ((2, 3, 2), ()),
        ((2, 1, 3), (4, 1)),
        ((1, 1), (1,)),
        ((5,), (5,)),
    ],
)
def test_broadcast_sums_what_autograd_sums(
    browser: Browser, site: Path, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    with looking.opened(browser, site / "lessons" / "broadcast.html") as page:
        page.fill("#a", ", ".join(map(str, a)))
        page.fill("#b", ", ".join(map(str, b)))
        found = result(page)
    x = (torch.arange(torch.Size(a).numel(), dtype=torch.float64) + 1).reshape(a).requires_grad_()
    z = ((torch.arange(torch.Size(b).numel(), dtype=torch.float64) + 2) / 2).reshape(b).requires_grad_()
    y = x * z
    dy = ((7 * torch.arange(y.numel())) % 5 - 2).double().reshape(y.shape)
    y.backward(dy)
    assert found["shape"] == list(y.shape)
    close(found["da"], x.grad.flatten())
    close(found["db"], z.grad.flatten())
    for own, summed in zip((a, b), found["sums"], strict=True):
        full = (1,) * (y.dim() - len(own)) + own
        assert [k for k in range(y.dim()) if k < y.dim() - len(own) or full[k] != y.shape[k]] == summed


def test_shapes_that_clash_are_told_apart(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "lessons" / "broadcast.html") as page:
        page.fill("#b", "4, 3")
        page.fill("#a", "2, 3")
        assert page.text_content("#error") == "Axis −2 is 2 in a and 4 in b: they must be equal, or one of them 1."
        page.fill("#a", "2, x")
        assert (
            page.text_content("#error") == "The shape of a should be up to five lengths from 1 to 99, such as 4, 1, 3."
        )
        page.select_option("#examples", label="an outer product")
        assert page.is_hidden("#error")
        assert result(page)["sums"] == [[1], [0]]


# --- softmax and batch normalisation ----------------------------------------------------------------------------------


def test_the_pull_on_each_logit_is_autograds(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "lessons" / "softmax.html") as page:
        before = result(page)
        move(page, "z3", -4.25)
        page.check("#targets input >> nth=4")
        after = result(page)
        page.click("#shift")
        shifted = result(page)
    for found in (before, after):
        z = leaf(found["z"])
        loss = functional.cross_entropy(z[None], torch.tensor([found["y"]]))
        loss.backward()
        close(found["p"], z.detach().softmax(0))
        close(found["dz"], z.grad)
        close(found["loss"], loss.detach())
        assert abs(sum(found["dz"])) < 1e-15
    assert (after["z"][3], after["y"]) == (-4.25, 4)
    close(shifted["dz"], torch.tensor(after["dz"], dtype=torch.float64))


def test_one_point_of_a_batch_moves_every_gradient(browser: Browser, site: Path) -> None:
    with looking.opened(browser, site / "lessons" / "batchnorm.html") as page:
        before = result(page)
        move(page, "x2", 3.5)
        move(page, "γ", -0.75)
        after = result(page)
    for found in (before, after):
        x, gamma, beta = leaf(found["x"]), leaf([found["gamma"]]), leaf([0.0])
        rstd = (x.var(correction=1) + 1e-5).rsqrt()
        (gamma * (x - x.mean()) * rstd + beta).backward(torch.tensor(found["dy"], dtype=torch.float64))
        for name, wanted in (("dx", x.grad), ("dgamma", gamma.grad), ("dbeta", beta.grad)):
            close(found[name], wanted)
    assert all(abs(p - q) > 1e-6 for p, q in zip(before["dx"], after["dx"], strict=True))


# --- finite differences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp", "square", "softplus"])
def test_the_u_curve_is_that_of_float64(browser: Browser, site: Path, name: str) -> None:
    """At every step, as far as the last digits of a function may differ; and the best step is where it should be."""
    with looking.opened(browser, site / "lessons" / "differences.html") as page:
        page.select_option("#op", name)
        move(page, "x", 1.3)
        found = result(page)
        page.select_option("#precision", "32")
        single = result(page)["rows"]
    f = {"square": torch.square, "softplus": functional.softplus}.get(name) or getattr(torch, name)
    x = leaf([1.3])
    (exact,) = torch.autograd.grad(f(x).sum(), x)
    close([found["exact"]], exact)
    h = torch.tensor([row["h"] for row in found["rows"]], dtype=torch.float64)
    at = x.detach()
    one = ((f(at + h) - f(at)) / h / exact - 1).abs()
    two = ((f(at + h) - f(at - h)) / (2 * h) / exact - 1).abs()
    for key, wanted in (("one", one), ("two", two)):
        got = torch.tensor([row[key] for row in found["rows"]], dtype=torch.float64)
        assert ((got - wanted).abs() <= 4e-15 / h).all()  # a few units in the last place of f, divided by the step
    best = [min(rows, key=lambda row: row["one"])["h"] for rows in (found["rows"], single)]
    assert 1e-9 < best[0] < 1e-7 and 1e-5 < best[1] < 1e-2


# --- any program ------------------------------------------------------------------------------------------------------

RUN = """([op, inputs, cotangents, numbers, sizes]) => {
  const tensor = ([name, [shape, data]]) => [name, Evaluate.tensor(shape, data)];
  const wrap = (all) => Object.fromEntries(Object.entries(all).map(tensor));
  const { forward, gradients } = Evaluate.both(op, wrap(inputs), wrap(cotangents), numbers, sizes);
  return [op.outputs.map((n) => forward[n].data), gradients.map((t) => t.data)];
}"""

PROGRAMS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "layernorm": ({"x": (5, 3), "gamma": (3,), "beta": (3,)}, {}),
    "causal_attention": ({"q": (2, 5, 3), "k": (2, 5, 3), "v": (2, 5, 4)}, {}),
    "gelu": ({"x": (7,)}, {}),
    "log_softmax": ({"x": (3, 4)}, {}),
    "conv1d": ({"x": (2, 3, 7), "w": (4, 3, 3), "b": (4,)}, {"t": 5}),
    "max_pool2d": ({"x": (2, 2, 4, 6)}, {"p": 2, "q": 2, "i": 2, "j": 3}),
    "diagonal": ({"x": (2, 4, 4)}, {}),
    "embedding": ({"C": (5, 3), "ix": torch.tensor([[4, 0, 4], [2, 2, 1]])}, {}),
}
"""Shapes of inputs, integers as they are, and lengths that no input has."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_in_the_browser_as_in_torch(browser: Browser, name: str) -> None:
    shapes, sizes = PROGRAMS[name]
    torch.manual_seed(0)
    live = build(find(name))
    inputs = {k: v if isinstance(v, torch.Tensor) else torch.randn(v, dtype=torch.float64) for k, v in shapes.items()}
    out, saved = live.forward(**inputs)
    dy = torch.randn_like(out)
    gradients = live.backward(dy, *saved)
    gradients = (gradients,) if isinstance(gradients, torch.Tensor) else gradients
    given = {k: _flat(name, k, v) for k, v in inputs.items()}
    cotangent = live.derivation.steps.cotangents[0]
    packed = _flat(name, cotangent.target.name, dy)
    page = browser.new_page()
    page.add_script_tag(content=asset("evaluate.js") + "; window.Evaluate = Evaluate;")
    values, found = page.evaluate(RUN, [op_data(live.derivation), given, {cotangent.target.name: packed}, {}, sizes])
    page.close()
    close(values[0], out.flatten())
    for got, wanted in zip(found, gradients, strict=True):
        close(got, wanted.flatten())


def test_a_maximum_by_an_index_runs_in_the_browser(browser: Browser) -> None:
    e, h, v = axes("e h v")

    @op
    def pool(f, x: tensor[e, h], dst: index(v)[e], nodes: length(v)):
        f.m[v, h] = amax(where(eq(dst[e], v), x[e, h], -oo), over=e)
        f.y[e, h] = f.m[dst[e], h] * x[e, h]
        return f.y

    live = build(pool.op)
    x, dst = torch.tensor([[1.0, -2.0], [1.0, 3.0], [0.5, -4.0]], dtype=torch.float64), torch.tensor([2, 2, 0])
    y, saved = live.forward(x, dst, 4)
    dy = torch.randn_like(y)
    given = {k: [list(t.shape), t.flatten().tolist()] for k, t in {"x": x, "dst": dst}.items()}
    page = browser.new_page()
    page.add_script_tag(content=asset("evaluate.js") + "; window.Evaluate = Evaluate;")
    cotangent = {"dy": [list(dy.shape), dy.flatten().tolist()]}
    values, found = page.evaluate(RUN, [op_data(live.derivation), given, cotangent, {}, {"v": 4}])
    page.close()
    close(values[0], y.flatten())
    close(found[0], live.backward(dy, *saved).flatten())


def _flat(op: str, name: str, value: torch.Tensor) -> list[Any]:
    """A tensor as the evaluator takes it, its leading axes as one."""
    data = find(op)
    operand = data.operand(name)
    equation = data.equation(name.removeprefix("d"))
    axes = operand.axes if operand is not None else equation.axes if equation is not None else ()
    shape = list(value.shape)
    if axes and axes[0].is_pack:
        own = shape[len(shape) - len(axes) + 1 :]
        shape = [value.numel() // torch.Size(own).numel(), *own]
    return [shape, value.flatten().tolist()]
