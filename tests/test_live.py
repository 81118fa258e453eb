"""Live functions and notebooks: `derive.build`, LaTeX on display."""

import inspect
import linecache
import subprocess
import sys
import traceback

import pytest
import torch

import derive
from derive import axes, mean, op, rsqrt, scalar, tensor
from derive.catalogue import find
from derive.notation import __all__ as WORDS
from derive.ops.normalisation import layernorm
from derive.pipeline import derivation_of

d = axes("d")


@op
def unit_rms(f, x: tensor[..., d], w: tensor[d], eps: scalar = 1e-6):
    """A gain times the input over its root mean square."""
    f.r[...] = rsqrt(mean(x[..., d] ** 2, over=d) + eps)
    f.y[..., d] = w[d] * x[..., d] * f.r[...]
    return f.y


def renamed():  # type: ignore[no-untyped-def]
    """Another op of the same name."""

    @op
    def unit_rms(f, x: tensor[..., d]):
        f.y[..., d] = 3 * x[..., d]
        return f.y

    return unit_rms


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((2, 3, 5), (5,)))
    return x.requires_grad_(), w.requires_grad_()


# --- what is built --------------------------------------------------------------------------------------------------


def test_an_op_runs_and_differentiates() -> None:
    live = derive.build(unit_rms)
    x, w = inputs()
    y = live(x, w)
    expected = w * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(y, expected, rtol=1e-13, atol=1e-13)
    cotangent = torch.randn_like(y)
    torch.testing.assert_close(
        torch.autograd.grad(y, (x, w), cotangent), torch.autograd.grad(expected, (x, w), cotangent)
    )
    outputs, saved = live.forward(x.detach(), w.detach())
    torch.testing.assert_close(outputs, y.detach())
    torch.testing.assert_close(
        tuple(live.backward(cotangent, *saved)), torch.autograd.grad(live.function(x, w), (x, w), cotangent)
    )
    assert torch.autograd.gradcheck(live, (x, w))


def test_data_of_an_op_and_an_override_build_as_well() -> None:
    x, w = inputs()
    least = derive.build(find("layernorm"), save="least")
    torch.testing.assert_close(least(x, w, w), torch.nn.functional.layer_norm(x, (5,), w, w))
    assert least.derivation.op.name == "layernorm" and "def layernorm_backward" in least.source


def test_two_ops_of_one_name_live_side_by_side() -> None:
    first, second, third = derive.build(unit_rms), derive.build(renamed()), derive.build(unit_rms)
    x, w = inputs()
    torch.testing.assert_close(second(x), 3 * x)
    torch.testing.assert_close(first(x, w), third(x, w))
    assert len({first.function.__module__, second.function.__module__, third.function.__module__}) == 3


def test_what_is_no_op_is_refused() -> None:
    with pytest.raises(TypeError, match="build takes an op, what @op returns; got str"):
        derive.build("unit_rms")  # type: ignore[arg-type]


# --- generated lines can be read ------------------------------------------------------------------------------------


def test_source_and_tracebacks_show_generated_lines() -> None:
    live = derive.build(unit_rms)
    source = inspect.getsource(live.backward)
    assert source.startswith("@in_float32\ndef unit_rms_backward(") and source in live.source
    with pytest.raises(TypeError) as caught:
        live.backward(torch.ones(2, 5), None, None, None)
    linecache.checkcache()
    frame = next(f for f in traceback.extract_tb(caught.value.__traceback__) if f.name == "unit_rms_backward")
    assert frame.line and frame.line in live.source and frame.filename.startswith("<handgrad>/unit_rms_")


def test_the_notation_stays_as_it_is_and_needs_no_torch() -> None:
    script = (
        "import sys, derive; assert callable(derive.build); names = {}; exec('from derive import *', names); "
        "names.pop('__builtins__'); print(*sorted(names)); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == sorted(WORDS) and "build" not in WORDS


# --- notebooks ------------------------------------------------------------------------------------------------------


def test_an_op_shows_its_equations_and_its_backward() -> None:
    shown = layernorm._repr_latex_()
    assert shown.startswith("$$\n") and shown.endswith("\n$$")
    for line in (
        r"\mu_{\ldots} = \frac{1}{N_{d}}\sum_{d} x_{\ldots,d}",
        r"y_{\ldots,d} = \gamma_{d}\, \hat{x}_{\ldots,d} + \beta_{d}",
        r"\mathrm{d}\hat{x}_{\ldots,d} = \gamma_{d}\, \mathrm{d}y_{\ldots,d}",
        r"\mathrm{d}\beta_{d} = \sum_{\ldots'} \mathrm{d}y_{\ldots',d}",
    ):
        assert line in shown
    assert shown.count("{") == shown.count("}")
    assert shown == layernorm.op._repr_latex_() == derivation_of(layernorm.op)._repr_latex_()
    assert shown == derive.build(layernorm)._repr_latex_()


def test_an_op_is_derived_once_for_its_displays() -> None:
    assert derivation_of(layernorm.op) is derivation_of(layernorm.op)
    assert derive.build(layernorm).derivation is derivation_of(layernorm.op)


def test_an_equation_shows_itself() -> None:
    assert unit_rms.op.equations[-1]._repr_latex_() == (
        "$$\n" + r"y_{\ldots,d} = r_{\ldots}\, w_{d}\, x_{\ldots,d}" + "\n$$"
    )
