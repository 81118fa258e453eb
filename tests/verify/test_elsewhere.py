"""A subject on another device: the CPU stands in for it, by the way that a GPU is taken."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from derive.catalogue import find
from derive.emit.devices import device_of
from derive.errors import DeriveError
from derive.output.live import build
from derive.verify.battery import cases, situation
from derive.verify.cases import Call
from derive.verify.compare import Answer, disagreements
from derive.verify.elsewhere import on
from derive.verify.subjects import of_live

HERE = torch.device("cpu")


@pytest.mark.parametrize("name", ["layernorm", "softmax_cross_entropy", "conv2d"])
def test_nothing_is_wrong_of_what_is_right(name: str) -> None:
    subject = on(HERE, of_live(build(find(name), proven=False)))
    assert [str(d) for case in cases(find(name)) for d in disagreements(case, subject)] == []


@pytest.mark.parametrize(
    "name", ["transposed cotangent", "stride-0 cotangent", "transposed inputs", "one tensor twice"]
)
def test_a_call_lies_there_as_it_lay_here(name: str) -> None:
    case = situation(name).make(find("mse"), 0)
    assert case is not None
    seen: list[Call] = []

    def look(call: Call) -> Answer:
        seen.append(call)
        return Answer({})

    on(HERE, look)(case.call)
    old, new = ([*call.inputs.values(), *call.cotangents] for call in (case.call, seen[0]))
    assert [t.stride() for t in new] == [t.stride() for t in old]
    assert all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    assert not {t.data_ptr() for t in old} & {t.data_ptr() for t in new}
    assert [[a is b for b in new] for a in new] == [[a is b for b in old] for a in old]


def test_what_was_written_there_is_told_here() -> None:
    def writes(call: Call) -> Answer:
        call.cotangents[0].zero_()
        return Answer({})

    case = situation("ordinary").make(find("tanh"), 0)
    assert case is not None
    assert [str(d) for d in disagreements(case, on(HERE, writes))] == ["ordinary: dy was written to"]


def test_a_gradient_that_lies_elsewhere_is_named() -> None:
    def strays(call: Call) -> Answer:
        return Answer({"x": torch.empty_like(call.inputs["x"], device="meta")})

    case = situation("ordinary").make(find("tanh"), 0)
    assert case is not None
    assert [str(d) for d in disagreements(case, on(HERE, strays))] == [
        "ordinary: TypeError: dx lies on meta, expected cpu"
    ]


@pytest.fixture
def tf32() -> Iterator[None]:
    """With TF32 allowed in products, as it is in convolutions."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("guarded", [False, True])
def test_products_there_are_whole_and_the_settings_are_put_back(
    tf32: None, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's own test suite, and who calls `disable_global_flags`, lets nobody write the settings of cuDNN."""
    if guarded:
        monkeypatch.setattr("torch.backends.__allow_nonbracketed_mutation_flag", False)
    places = (torch.backends.cudnn, torch.backends.cuda.matmul)
    seen: list[bool] = []

    def look(call: Call) -> Answer:
        seen.extend(place.allow_tf32 for place in places)
        return Answer({})

    case = situation("ordinary").make(find("tanh"), 0)
    assert case is not None
    on(HERE, look)(case.call)
    assert seen == [False, False] and [place.allow_tf32 for place in places] == [True, True]


@pytest.mark.parametrize("name", ["meta", "nowhere"])
def test_a_device_that_computes_nothing_is_refused(name: str) -> None:
    with pytest.raises(DeriveError, match=f"cannot compute on the device {name}: .*; name one that PyTorch can"):
        device_of(name)


def test_the_commands_say_what_has_no_device(derive, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("def backward(dy, x):\n    return dy * (1 - x.tanh() ** 2)\n")
    for arguments, why in (
        (("verify", "tanh", "--device", "meta"), "cannot compute on the device meta: "),
        (("judge", "good.py:backward", "--op", "tanh", "--device", "meta"), "cannot compute on the device meta: "),
        (("verify", "tanh", "--device", "cuda", "--backend", "cpu"), "the kernels are for the CPU, not for cuda"),
        (("judge", "--formula", "dx[...] = dy[...]", "--op", "tanh", "--device", "cuda"), "a formula is judged on the"),
    ):
        done = derive(*arguments)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith(f"derive: {why}"), done.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", ["batchnorm", "embedding", "causal_attention"])
def test_a_gpu_computes_the_same(name: str) -> None:
    subject = on(torch.device("cuda"), of_live(build(find(name), proven=False)))
    assert [str(d) for case in cases(find(name)) for d in disagreements(case, subject)] == []
