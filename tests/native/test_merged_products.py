"""Products of what has axes merged, in tiles and not: each axis at its own distance in memory, wherever tiles end."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from derive.verify.subjects import tensors_in
from tests.conftest import Package

pytestmark = pytest.mark.usefixtures("kernels", "threads")

HEADS = '''
@op
def {name}(f, q: tensor[{q}], k: tensor[{k}], v: tensor[{v}]):
    f.s[g, r, i, j] = sum(q[{at_q}] * k[{at_k}], over=d)
    f.p[g, r, i, j] = {p}
    f.y[{y}] = sum(f.p[g, r, i, j] * v[{at_v}], over=j)
    return f.y
'''

SOFTMAX = "exp(f.s[g, r, i, j] - amax(f.s[g, r, i, j], over=j)) / sum(exp(f.s[g, r, i, j] - amax({}, over=j)), over=j)"
SOFTMAX = SOFTMAX.format("f.s[g, r, i, j]")
CAUSAL = "where(j <= i, exp(f.s[g, r, i, j]), 0) / sum(where(j <= i, exp(f.s[g, r, i, j]), 0), over=j)"
PLAIN = {"q": "h, i, d", "k": "g, j, d", "v": "g, j, e", "at_q": "(g, r), i, d", "at_k": "g, j, d", "at_v": "g, j, e"}
PLAIN |= {"p": SOFTMAX, "y": "(g, r), i, e"}
OWN = {"q": "g, r, i, d", "at_q": "g, r, i, d"}

# what is said of heads in groups, where it is not as in PLAIN
GROUPED: dict[str, dict[str, str]] = {
    "heads": {},
    "rectified": {"p": "relu(f.s[g, r, i, j])"},
    "causal": {"p": CAUSAL},
    "in_alone": {"y": "g, r, i, e"},
    "out_alone": OWN,
    "keys_too": {**OWN, "k": "g_j, d", "at_k": "(g, j), d", "v": "g_j, e", "at_v": "(g, j), e", "p": CAUSAL},
    "keys_of_heads": {**OWN, "k": "h, j, d", "at_k": "(g, r), j, d", "v": "h, j, e", "at_v": "(g, r), j, e"},
    "rows_too": {**OWN, "y": "(g, r, i), e"},
    "last_ones": {**OWN, "v": "g, j_e", "at_v": "g, (j, e)", "k": "g, j, d", "y": "g, r, (i, e)"},
    "in_the_middle": {"q": "b, h, i, d", "at_q": "b, (g, r), i, d", "k": "b, g, j, d", "at_k": "b, g, j, d",
                      "v": "b, g, j, e", "at_v": "b, g, j, e", "y": "b, (g, r), i, e"},
    "all_three": {"q": "h, i, d", "at_q": "(b, g, r), i, d", "k": "b, g, j, d", "at_k": "b, g, j, d",
                  "v": "b, g, j, e", "at_v": "b, g, j, e", "y": "(b, g, r), i, e"},
    "of_two": {"at_q": "(g, two), i, d", "y": "(g, two), i, e"},
    "two_of_them": {"at_q": "(two, r), i, d", "y": "(two, r), i, e", "k": "two, j, d", "at_k": "two, j, d",
                    "v": "two, j, e", "at_v": "two, j, e"},
}  # fmt: skip


def _spec(name: str) -> str:
    """The spec of a row of the table, with other names for its axes where it has others."""
    said = PLAIN | GROUPED[name]
    text = HEADS.format(name=name, **said)
    if "two" in said["at_q"]:
        a, b = re.findall(r"\w+", said["at_q"])[:2]
        return text.replace("g, r, i, j", f"{a}, {b}, i, j")
    return text.replace("[g, r, i, j]", "[b, g, r, i, j]") if "b, " in said["k"] else text


SPECS = "from derive import *\nb, c, d, e, g, h, i, j, n, o, p, r, t, g_j, j_e = axes(\n"
SPECS += "    'b c d e g h i j n o p r t g_j j_e'\n)\ntwo = axes('two=2')\n" + "".join(map(_spec, GROUPED))
SPECS += '''
@op
def named_before(f, q: tensor[h, i, d], k: tensor[g, j, d], v: tensor[g, j, e]):
    f.a[g, r, i, d] = q[(g, r), i, d]
    f.s[g, r, i, j] = sum(f.a[g, r, i, d] * k[g, j, d], over=d)
    f.p[g, r, i, j] = exp(f.s[g, r, i, j]) / sum(exp(f.s[g, r, i, j]), over=j)
    f.y[(g, r), i, e] = sum(f.p[g, r, i, j] * v[g, j, e], over=j)
    return f.y


@op
def between(f, q: tensor[h, i, d], k: tensor[g, j, d], v: tensor[g, j, e], slope: tensor[h], bias: tensor[h, j]):
    """What stands between the products reads and writes merged axes too."""
    f.s[g, r, i, j] = sum(q[(g, r), i, d] * k[g, j, d], over=d) + slope[(g, r),] * (j - i) + bias[(g, r), j]
    f.w[g, r, i, j] = where(j <= i, f.s[g, r, i, j], -oo)
    f.m[(g, r), i] = amax(f.w[g, r, i, j], over=j)
    f.u[g, r, i, j] = exp(f.w[g, r, i, j] - f.m[(g, r), i])
    f.z[(g, r), i] = sum(f.u[g, r, i, j], over=j)
    f.y[(g, r), i, e] = sum(f.u[g, r, i, j] * v[g, j, e], over=j) / f.z[(g, r), i]
    return f.y, f.z


@op
def inside(f, q: tensor[h, i, d], k: tensor[b, g, r, j, d], v: tensor[b, g, j, e], scale: tensor[h, i]):
    """Its chain ends inside a merge."""
    f.s[b, g, i, j] = sum(q[(b, g, r), i, d] * k[b, g, r, j, d], over=(r, d))
    f.p[b, g, i, j] = exp(f.s[b, g, i, j] / 8) * sum(scale[(b, g, r), i], over=r)
    f.y[b, g, i, e] = sum(f.p[b, g, i, j] * v[b, g, j, e], over=j)
    return f.y


@op
def layers(f, x: tensor[c, d], w: tensor[g, d, e], z: tensor[g, e, o]):
    f.a[g, r, e] = exp(sum(x[(g, r), d] * w[g, d, e], over=d) / 4)
    f.y[(g, r), o] = sum(f.a[g, r, e] * z[g, e, o], over=e)
    return f.y


@op
def loss_of_layers(f, x: tensor[c, d], w: tensor[g, d, e], z: tensor[g, e, o]):
    f.a[g, r, e] = exp(sum(x[(g, r), d] * w[g, d, e], over=d) / 4)
    f.loss[()] = mean(sum(f.a[g, r, e] * z[g, e, o], over=e) ** 2, over=(g, r, o))
    return f.loss


@op
def one_place(f, x: tensor[t, c], w: tensor[p, d], k: tensor[g, p]):
    """Of the groups that the columns are, the second is a matrix that begins elsewhere."""
    f.z[t, g, p] = x[t, (g, p)]
    f.y[t, g, d] = sum(f.z[t, 1, p] * w[p, d], over=p) * sum(k[g, p] * f.z[t, g, p], over=p)
    return f.y


@op
def first_of_each(f, x: tensor[t, c], w: tensor[g, d], k: tensor[g, p]):
    """Of each group, the first column: they lie further apart than groups are many."""
    f.z[t, g, p] = x[t, (g, p)]
    f.y[t, d] = sum(f.z[t, g, 0] * w[g, d], over=g) + sum(k[g, p] * f.z[t, g, p], over=(g, p))
    return f.y


@op
def first_heads(f, q: tensor[h, i, d], k: tensor[g, j, d], v: tensor[g, j, e], z: tensor[g, r]):
    """The first head of each group asks for all of them."""
    f.a[g, r, i, d] = q[(g, r), i, d]
    f.s[g, i, j] = sum(f.a[g, 0, i, d] * k[g, j, d], over=d)
    f.p[g, i, j] = exp(f.s[g, i, j]) / sum(exp(f.s[g, i, j]), over=j)
    f.y[(g, r), i, e] = sum(f.p[g, i, j] * v[g, j, e], over=j) * z[g, r] + sum(f.a[g, r, i, d], over=d)
    return f.y
'''


@pytest.fixture(scope="module", params=["few rows", "as many as fit"])
def native(package: Package, request: pytest.FixtureRequest) -> ModuleType:
    """Compiled for tiles of three rows, the other time for as many as there would be."""
    made = package(specs=SPECS, workspace=True)
    if request.param == "few rows":
        library = sys.modules[f"{made.__name__}._library"]
        library.FLAGS = (*library.FLAGS, "-DFEW_ROWS=3")
    return made


G, R, B = 3, 5, 2  # groups, heads in a group, batches
I, J, D, E = 4, 6, 3, 2


def _softmax(s: Tensor) -> Tensor:
    return s.softmax(-1)


def _causal(s: Tensor) -> Tensor:
    return s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf).softmax(-1)


def _heads(q: Tensor, k: Tensor, v: Tensor, over: Callable[[Tensor], Tensor] = _softmax) -> Tensor:
    """Of q in groups of heads and k and v in groups, or in heads."""
    k, v = (x.unsqueeze(-3) if x.ndim < q.ndim else x for x in (k, v))
    return over(q @ k.mT) @ v


def _of(given: str, groups: tuple[int, int] = (G, R)) -> Callable[..., Tensor]:
    """Heads as `given`, which names a row of GROUPED."""
    row = GROUPED[given]
    over = {CAUSAL: _causal, "relu(f.s[g, r, i, j])": torch.relu}.get(row.get("p", ""), _softmax)
    batch = (B,) if given in ("in_the_middle", "all_three") else ()

    def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = groups if given == "keys_of_heads" else groups[:1]
        k, v = (x.reshape(*batch, *heads, J, -1) for x in (k, v))
        y = _heads(q.reshape(*batch, *groups, I, D), k, v, over)
        shapes = {"in_alone": y.shape, "rows_too": (-1, E), "last_ones": (*groups, -1), "in_the_middle": (B, -1, I, E)}
        return y.reshape(shapes.get(given, (-1, I, E)))

    return reference


def _between(q: Tensor, k: Tensor, v: Tensor, slope: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.arange(J) - torch.arange(I)[:, None]
    s = q.reshape(G, R, I, D) @ k[:, None].mT + slope.reshape(G, R, 1, 1) * places + bias.reshape(G, R, 1, J)
    s = s.masked_fill(places > 0, -torch.inf)
    z = (s - s.amax(-1, keepdim=True)).exp().sum(-1)
    return (s.softmax(-1) @ v[:, None]).reshape(-1, I, E), z.reshape(-1, I)


def _inside(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> Tensor:
    s = torch.einsum("bgrid,bgrjd->bgij", q.reshape(B, G, R, I, D), k)
    return ((s / 8).exp() * scale.reshape(B, G, R, I).sum(2)[..., None]) @ v


def _layers(x: Tensor, w: Tensor, z: Tensor) -> Tensor:
    return ((x.reshape(len(w), -1, x.shape[-1]) @ w / 4).exp() @ z).reshape(len(x), -1)


def _one_place(x: Tensor, w: Tensor, k: Tensor) -> Tensor:
    parts = x.reshape(len(x), *k.shape)
    return (parts[:, 1] @ w)[:, None] * (parts * k).sum(-1)[..., None]


def _first_of_each(x: Tensor, w: Tensor, k: Tensor) -> Tensor:
    parts = x.reshape(len(x), *k.shape)
    return parts[..., 0] @ w + (parts * k).sum((1, 2))[:, None]


def _first_heads(q: Tensor, k: Tensor, v: Tensor, z: Tensor) -> Tensor:
    q = q.reshape(G, R, I, D)
    y = _heads(q[:, 0], k, v)[:, None] * z[..., None, None]
    return (y + q.sum(-1, keepdim=True)).reshape(-1, I, E)


HEADED = ((G * R, I, D), (G, J, D), (G, J, E))
FREE = ((G, R, I, D), (G, J, D), (G, J, E))
CASES = [
    ("heads", _of("heads"), HEADED),
    ("rectified", _of("rectified"), HEADED),
    ("causal", _of("causal"), HEADED),
    ("in_alone", _of("in_alone"), HEADED),
    ("out_alone", _of("out_alone"), FREE),
    ("keys_too", _of("keys_too"), ((G, R, I, D), (G * J, D), (G * J, E))),
    ("keys_of_heads", _of("keys_of_heads"), ((G, R, I, D), (G * R, J, D), (G * R, J, E))),
    ("rows_too", _of("rows_too"), FREE),
    ("last_ones", _of("last_ones"), ((G, R, I, D), (G, J, D), (G, J * E))),
    ("in_the_middle", _of("in_the_middle"), ((B, G * R, I, D), (B, G, J, D), (B, G, J, E))),
    ("all_three", _of("all_three"), ((B * G * R, I, D), (B, G, J, D), (B, G, J, E))),
    ("of_two", _of("of_two", (G, 2)), ((G * 2, I, D), (G, J, D), (G, J, E))),
    ("two_of_them", _of("two_of_them", (2, R)), ((2 * R, I, D), (2, J, D), (2, J, E))),
    ("named_before", _of("heads"), HEADED),
    ("between", _between, (*HEADED, (G * R,), (G * R, J))),
    ("inside", _inside, ((B * G * R, I, D), (B, G, R, J, D), (B, G, J, E), (B * G * R, I))),
    ("layers", _layers, ((G * R, D), (G, D, 7), (G, 7, E))),
    ("layers", _layers, ((G * 150, D), (G, D, 7), (G, 7, E))),
    ("loss_of_layers", lambda x, w, z: (_layers(x, w, z) ** 2).mean(), ((G * R, D), (G, D, 7), (G, 7, E))),
    ("one_place", _one_place, ((7, G * R), (R, D), (G, R))),
    ("first_of_each", _first_of_each, ((7, G * R), (G, D), (G, R))),
    ("first_heads", _first_heads, (*HEADED, (G, R))),
]


def _agree(found: object, exact: object) -> None:
    for got, want in zip(tensors_in(found), tensors_in(exact), strict=True):
        torch.testing.assert_close(got, want.detach(), rtol=1e-12, atol=1e-12 * float(want.detach().abs().max()))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("name", "reference", "shapes"), CASES, ids=[f"{n}-{k}" for k, (n, *_) in enumerate(CASES)])
def test_agrees_with_autograd(
    native: ModuleType,
    threads: Callable[[int], None],
    name: str,
    reference: Callable[..., Tensor],
    shapes: tuple[tuple[int, ...], ...],
    count: int,
) -> None:
    torch.manual_seed(0)
    threads(count)
    leaves = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    want = list(tensors_in(reference(*leaves)))
    cotangents = [torch.randn_like(w) for w in want]
    gradients = torch.autograd.grad(want, leaves, cotangents)
    given = [x.detach() for x in leaves]
    first = getattr(native, f"{name}_forward")(*given)
    *outputs, saved = first
    _agree(outputs, want)
    found = getattr(native, f"{name}_backward")(*cotangents, *saved)
    _agree(found, gradients)
    *outputs, saved = getattr(native, f"{name}_forward_out")(*given, out=first)
    _agree(outputs, want)
    _agree(getattr(native, f"{name}_backward_out")(*cotangents, *saved, out=found), gradients)


def test_a_loss_with_its_gradients_agrees_with_autograd(native: ModuleType) -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((G * R, D), (G, D, 7), (G, 7, E))]
    loss = (_layers(*leaves) ** 2).mean()
    found, gradients = native.loss_of_layers_with_gradients(*(x.detach() for x in leaves))
    _agree(found, loss)
    _agree(gradients, torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("name", ["heads", "rectified", "in_the_middle", "all_three", "named_before"])
def test_no_scores_are_kept_for_all_heads(native: ModuleType, name: str) -> None:
    text = Path(f"{native.__path__[0]}/{name}.c").read_text()
    assert "n_r * n_i * n_j" not in text
    assert re.search(r"take\(&next, n_r_tile \* n_i \* n_j\w*, sizeof\(real\)\)", text)
