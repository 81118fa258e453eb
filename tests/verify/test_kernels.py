"""`derive verify --backend cpu`: it is the kernels that ran, and one that is wrong in one way is told."""

from pathlib import Path

import pytest
import torch

from derive.catalogue import catalogue, find
from derive.errors import DeriveError
from derive.verify import kernels
from derive.verify import verify as verification
from derive.verify.battery import LOOPS
from derive.verify.cases import Call
from derive.verify.compare import Answer
from derive.verify.lengths import places
from derive.verify.reference import all_sizes
from derive.verify.verify import verify_kernels
from derive.verify.view import complaint_texts

FORWARD = "y[i_rows] = real_tanh(x[i_rows]);"
BACKWARD = "dx[i_rows] = dy[i_rows] * (1 - square(y[i_rows]));"
LOSS = (
    "from derive import *\nd = axes('d')\n\n"
    "@op\ndef mine(f, x: tensor[d]):\n    f.y[()] = sum(x[d] ** 3, over=d)\n    return f.y\n"
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled of a wrong kernel is thrown away."""
    monkeypatch.setenv("HANDGRAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch):
    """Puts one text of a generated file in place of another."""

    def patch(suffix: str, old: str, new: str) -> None:
        files_of = kernels.files_of

        def patched(module) -> dict[str, str]:
            files = files_of(module)
            name = next(n for n in files if n.endswith(suffix))
            assert old in files[name]
            return files | {name: files[name].replace(old, new)}

        monkeypatch.setattr(kernels, "files_of", patched)

    return patch


def test_it_says_which_kernels_ran(derive) -> None:
    done = derive("verify", "tanh", "--backend", "cpu", "--json", "out.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2] == (
        "tanh, 1 gradient: right in 32 situations; the kernels tanh_forward, tanh_backward ran, on 1 and 2 threads"
    )
    assert '"derive verify tanh --backend cpu"' in Path("out.json").read_text()


def test_an_op_of_ones_own_with_its_training_step(derive, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOSS)
    done = derive("verify", "--from", "mine.py", "--backend", "cpu", "--full")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the kernels mine_forward, mine_backward, mine_with_gradients, mine_sgd ran" in done.stdout


def test_an_op_without_a_kernel_is_named_and_not_counted(derive, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from sympy import polygamma\nfrom derive import *\n\n"
        "@op\ndef bend(f, p: tensor[...]):\n    f.y[...] = polygamma(1, p[...])\n    return f.y\n\n"
        "@op\ndef turn(f, p: tensor[...]):\n    f.y[...] = tanh(p[...])\n    return f.y\n"
    )
    reason = "| no kernel: the CPU backend has no loop for the function polygamma"
    both = derive("verify", "--from", "mine.py", "--backend", "cpu")
    assert both.returncode == 0 and both.stdout.splitlines()[0] == f"{'bend':34} {reason}"
    assert both.stdout.splitlines()[-1].startswith("turn, 1 gradient: right")
    assert both.stdout.endswith("; 1 has none\n")
    alone = derive("verify", "bend", "--from", "mine.py", "--backend", "cpu")
    assert (alone.returncode, alone.stdout) == (2, f"{'bend':34} {reason}\n")
    assert alone.stderr == "derive: no kernel ran: PyTorch runs bend; verify without --backend cpu\n"


@pytest.mark.parametrize(
    "compiler, message",
    [
        ("no-such-compiler", "no C compiler was found (no-such-compiler); install one, or name it in CC"),
        ("false", "does not compile tanh.c: status 1; name another compiler in CC, or report it"),
    ],
)
def test_without_a_compiler_nothing_is_verified(
    derive, monkeypatch: pytest.MonkeyPatch, compiler: str, message: str
) -> None:
    monkeypatch.setenv("CC", compiler)
    done = derive("verify", "tanh", "--backend", "cpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_wrong_kernel_is_told_though_the_torch_form_is_right(derive, printed) -> None:
    printed(".c", BACKWARD, BACKWARD.replace("1 - square", "1 - "))
    done = derive("verify", "tanh", "--backend", "cpu")
    assert done.returncode == 1
    assert "dx               | exact: False | approximate: False" in done.stdout
    assert "wrong: ordinary: dx[" in done.stdout
    assert derive("verify", "tanh").returncode == 0


def test_a_tail_that_is_left_out_is_seen_in_long_loops_alone(printed) -> None:
    printed(".c", BACKWARD, BACKWARD.replace("dy[i_rows]", "(i_rows > 100000 ? 0 : dy[i_rows])"))
    found = verify_kernels(find("tanh"))
    assert {d.case.situation for d in found.rows[0].wrong} == {s.name for s in LOOPS if s.applies(find("tanh"))}


def test_what_only_several_tiles_get_wrong_is_told(printed) -> None:
    printed(".c", "first_i_tile > 0", "false")  # each tile of rows begins its sums anew
    found = verify_kernels(find("attention"))
    assert {row.gradient for row in found.rows if row.wrong} == {"dk", "dv"}
    small = [t for t in complaint_texts(found) if t.startswith("ordinary: ")]
    assert small and all("by attention_backward in low tiles" in t for t in small)


def test_kernels_of_low_tiles_may_not_give_way_either(printed) -> None:
    taken = "if (scratch == NULL) return NO_MEMORY;"
    printed(".c", taken, f"{taken}\n#if defined(FEW_ROWS)\n    return BAD_INDEX;\n#endif")
    found = verify_kernels(find("attention"))
    assert {d.kind for d in found.wrong} == {"gave way"} and not found.right


def test_what_is_wrong_on_two_threads_alone_is_told(printed) -> None:
    printed(".c", BACKWARD, BACKWARD.replace("1 -", "(threads == 2 ? 2 : 1) -"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # on which finite differences are taken
    try:
        texts = complaint_texts(verify_kernels(find("tanh")))
    finally:
        torch.set_num_threads(before)
    assert texts and all(t.endswith("on 2 threads") for t in texts)


def test_a_kernel_gives_the_same_bits_twice(printed) -> None:
    counted = f"static int calls; const double off = 1e-14 * (++calls % 2); (void)off;\n{BACKWARD}"
    printed(".c", BACKWARD, counted.replace("1 -", "1 + off -"))
    found = verify_kernels(find("tanh"))
    assert {d.kind for d in found.rows[0].wrong} == {"again"} and not found.right


def test_a_wrong_step_is_told_and_named(derive, printed, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOSS)
    printed(".c", "const double lr) {", "double lr) {\n    lr *= 2;")
    done = derive("verify", "--from", "mine.py", "--backend", "cpu")
    told = [line for line in done.stdout.splitlines() if "wrong: ordinary" in line]
    assert done.returncode == 1 and len(told) == 1 and told[0].endswith(" by mine_sgd")


def test_pytorch_in_place_of_a_kernel_is_never_right(printed) -> None:
    printed(".py", '("dy: ...", "y: ..."),', '("dy: ...", "y: ... d"),')
    found = verify_kernels(find("tanh"))
    assert not found.right and found.kernels == ("tanh_forward",)
    assert {d.kind for d in found.wrong} == {"gave way"}
    assert "ordinary: PyTorch ran in place of tanh_backward" in complaint_texts(found)


def test_the_reason_is_told_where_there_is_one(printed) -> None:
    plan = "_native.Kernel._planned = lambda kernel, tensors, given: kernel._torch('it would not')"
    printed(".py", "import torch\n", f"import torch\nfrom . import _native\n{plan}\n")
    found = verify_kernels(find("tanh"))
    assert "ordinary: PyTorch ran in place of tanh_forward (it would not)" in complaint_texts(found)
    assert not found.kernels and not found.right


def test_a_kernel_that_nothing_calls_is_not_verified(printed) -> None:
    printed(".py", "found = BACKWARD(dy, y)", "found = None")
    with pytest.raises(DeriveError, match="op tanh: nothing called tanh_backward"):
        verify_kernels(find("tanh"))


def test_a_kernel_that_writes_over_no_old_result_is_not_verified(printed) -> None:
    printed(".py", "found = BACKWARD(dy, y, out=", "found = None and (")
    with pytest.raises(DeriveError, match="op tanh: nothing called tanh_backward with out"):
        verify_kernels(find("tanh"))


def test_a_long_loop_may_be_as_far_off_as_pytorchs_form_is(printed, monkeypatch: pytest.MonkeyPatch) -> None:
    printed(".c", FORWARD, f"{FORWARD[:-1]} + (sizeof(real) == 4 ? 1e-4 : 0);")
    float32 = [s for s in LOOPS if s.dtype == torch.float32 and s.applies(find("tanh"))]
    assert {s.name for s in float32} <= _situations_wrong_of("y")

    def off(call: Call) -> Answer:
        right = {o.name: torch.zeros_like(call.inputs[o.name]) for o in call.op.differentiable}
        return Answer(right, {"y": call.inputs["x"].tanh() + 1e-4})

    monkeypatch.setattr(verification, "of_live", lambda live: off)
    found = _situations_wrong_of("y")
    assert "float32" in found and not found & {s.name for s in LOOPS}


def _situations_wrong_of(tensor: str) -> set[str]:
    return {d.case.situation for d in verify_kernels(find("tanh")).wrong if d.tensor == tensor}


def test_kernels_are_verified_where_pytorchs_form_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(call: Call) -> Answer:
        raise RuntimeError("max_pool1d(): the batch is empty")

    monkeypatch.setattr(verification, "of_live", lambda live: raises)
    assert verify_kernels(find("tanh")).right


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3])
def test_a_deep_op_over_long_sums_is_rounded_as_pytorch_rounds_it(seed: int) -> None:
    """Its float32 gradients are further off than twice the equations' autograd, PyTorch's as far as the kernels'."""
    found = verify_kernels(find("names_step"), seed=seed)
    assert found.right, complaint_texts(found)


def test_the_number_of_threads_is_as_it_was() -> None:
    before = torch.get_num_threads()
    verify_kernels(find("tanh"))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in catalogue()])
def test_long_loops_are_long_and_fit(op) -> None:
    """Whatever the op, some tensor is worth sharing between threads, and nothing fills the memory."""
    for situation in (s for s in LOOPS[::2] if s.applies(op)):
        case = situation.make(op)
        assert case is not None
        tensors = (*case.call.inputs.values(), *case.outputs.values())
        assert max(t.numel() for t in tensors) <= 2**20
        assert places(op, all_sizes(op, case.call.lengths)) <= 2**20


def test_windows_are_tried_along_rows_of_some_vectors() -> None:
    """The loops that they have there take 16 places or more; what has no windows is not tried."""
    (situation,) = (s for s in LOOPS if s.name == "rows of some vectors in float64")
    op = find("depthwise_conv2d")
    case = situation.make(op)
    assert case is not None and case.outputs["y"].shape[-1] >= 16 and case.call.inputs["k"].shape[1] > 1
    assert situation.make(find("tanh")) is None
