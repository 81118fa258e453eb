"""What verify and judge print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text
from torch import Tensor

from derive.errors import DeriveError
from derive.verify.compare import Disagreement
from derive.verify.judge import Verdict
from derive.verify.kernels import THREADS
from derive.verify.opaque import Opaque
from derive.verify.proof import Proof
from derive.verify.verify import Row, Verification

_FEW = 5  # complaints of one op that are printed
_MANY = 8  # situations that are named
_SHORT = 12  # elements of a tensor that is printed whole


# --- verify -----------------------------------------------------------------------------------------------


def lines(found: Verification, alone: bool) -> Iterator[str]:
    """The familiar lines of an op, and under them whatever is wrong. `alone`: the op's name need not be repeated."""
    prefix = "" if alone else f"{found.op.name}."
    for row in found.rows:
        yield f"{prefix + row.gradient:{16 if alone else 34}} {row.line}"
    if not found.rows:
        yield f"{found.op.name:{16 if alone else 34}} | cannot be run"
    yield from complaints(found)


def complaint_texts(found: Verification) -> list[str]:
    """What is wrong, most telling first."""
    texts = [str(d) for d in found.wrong]
    for row in found.rows:
        texts += [str(d) for d in row.wrong]
        if not row.differences_agree:
            texts.append(f"{row.gradient} is {row.differences.error:.2g} from finite differences, relative")
        for size, r in row.lost.items():
            texts.append(f"{row.gradient} is {r.ours:.2g} off with exponents of {size}, the native op {r.theirs:.2g}")
        if not row.stepwise_agrees:
            texts.append(f"{row.gradient} is {row.stepwise:.2g} from its stepwise form, relative")
    return texts


def complaints(found: Verification) -> Iterator[str]:
    """The first of what is wrong, a line each."""
    texts = complaint_texts(found)
    for text in texts[:_FEW]:
        yield f"    wrong: {text}"
    if len(texts) > _FEW:
        yield f"    and {len(texts) - _FEW} more"


def no_kernel(op: str, reason: str) -> str:
    """The line of an op that has nothing to verify."""
    return f"{op:34} | no kernel: {reason}"


def not_verified(error: DeriveError) -> str:
    """The line of an op that cannot be tried, and why."""
    return f"{error.op or '':34} | not verified: {DeriveError(error.cause, fix=error.fix)}"


def summary(found: Sequence[Verification], without: Sequence[str] = (), untried: Sequence[str] = ()) -> str:
    """One line for all the ops: those that were verified, how many have no kernel, and which could not be tried."""
    count = sum(len(v.rows) for v in found)
    counts = sorted({len(v.situations) for v in found})
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    gradients = "1 gradient" if count == 1 else f"{count} gradients"
    ops = found[0].op.name if len(found) == 1 else f"{len(found)} ops"
    wrong = [v.op.name for v in found if not v.right]
    rest = (f"; not verified: {', '.join(untried)}" if untried else "") + _ran(found, without)
    if wrong:
        return f"{ops}, {gradients}: wrong: {', '.join(wrong)}{rest}"
    return f"{ops}, {gradients}: right in {span} situations{rest}"


def _ran(found: Sequence[Verification], without: Sequence[str]) -> str:
    """What ran, where it was kernels."""
    kernels = [name for v in found for name in v.kernels]
    if not kernels:
        return ""
    which = f"the kernels {', '.join(kernels)}" if len(found) == 1 else f"{len(kernels)} kernels"
    none = f"; {len(without)} {'has' if len(without) == 1 else 'have'} none" if without else ""
    return f"; {which} ran, on {' and '.join(map(str, THREADS))} threads{none}"


def table(found: Verification) -> Table:
    """One row a gradient: every column a relative error, but for the step."""
    out = Table(title=found.op.name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    out.add_column("gradient")
    for head in ("autograd\nfloat64", "finite\ndifferences", "at\nstep", "stepwise\nform"):
        out.add_column(head, justify="right")
    for dtype in ("float32", "bfloat16"):
        out.add_column(f"{dtype}\nours", justify="right")
        out.add_column(f"{dtype}\n{found.against}", justify="right")
    out.add_column("situations", justify="right")
    out.add_column("verdict")
    for row in found.rows:
        out.add_row(*_cells(row, len(found.situations)), Text("right" if row.right else "WRONG", _style(row.right)))
    return out


def exponents(found: Verification) -> Iterator[str]:
    """A line for each size of what exponentials are of: the errors in float32, ours beside the others'."""
    for size in found.rows[0].exponents if found.rows else ():
        errors = ((row.gradient, row.exponents[size]) for row in found.rows)
        each = ", ".join(f"{name} {_error(r.ours)} ({_error(r.theirs)})" for name, r in errors)
        yield f"float32, exponents of {size}, ours ({found.against}): {each}"


def _cells(row: Row, situations: int) -> list[str]:
    wrong = len({d.case.situation for d in row.wrong})
    return [
        row.gradient,
        _error(row.autograd),
        _error(row.differences.error),
        f"{row.differences.step:.0e}",
        _error(row.stepwise),
        *(_error(e) for e in (row.float32.ours, row.float32.theirs, row.bfloat16.ours, row.bfloat16.theirs)),
        f"{situations - wrong}/{situations}",
    ]


def _error(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def _style(right: bool) -> str:
    return "green" if right else "bold red"


# --- judge ------------------------------------------------------------------------------------------------


def verdict(found: Verdict, proofs: Sequence[Proof] | None = None) -> Text:
    """The verdict first, then why. `proofs` are those of a formula, None for a function."""
    out = Text()
    head = found.word if not found.where else f"{found.word} {found.where}"
    head = ", ".join([head, *(f.text for f in found.findings)]) if found.right else head
    tail = f" ({found.error})" if found.error else ""
    out.append(f"{found.op.name}: ")
    out.append(f"{head}{tail}\n", _style(found.right))
    for line in (*_reasons(found), *_proved(found, proofs), *_counterexample(found), *_counts(found)):
        out.append(f"  {line}\n")
    out.rstrip()
    return out


def _reasons(found: Verdict) -> Iterator[str]:
    explained = {g for e in found.explanations for g in e.gradients}
    for explanation in found.explanations:
        yield f"{' and '.join(explanation.gradients)} {explanation.text}"
    rest = [g for g in found.gradients if g not in explained]
    if rest and found.where:
        yield f"elsewhere {', '.join(rest)} {_are(rest)} wrong"
    elif rest:
        yield f"{', '.join(rest)} {_are(rest)} wrong{' too' if explained else ''}"
    if found.error == "precision":
        worst = max((d.error for d in found.failed if d.kind == "value"), default=0.0)
        yield f"the formula is right, the arithmetic is not: relative errors up to {worst:.1e}"
    yield from (f.detail for f in found.findings)
    yield from found.notes
    right = [f"d{o.name}" for o in found.op.differentiable if f"d{o.name}" not in found.gradients]
    if found.gradients and right and found.claims is None:
        yield f"{', '.join(right)} {_are(right)} right"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _proved(found: Verdict, proofs: Sequence[Proof] | None) -> Iterator[str]:
    if proofs is None:
        return
    if not found.right:
        yield "refuted by a counterexample"
        return
    for proof in proofs:
        yield f"proved: {proof}"
    for name in sorted(set(found.claims or ()) - {p.gradient for p in proofs}):
        yield f"{name}: agrees numerically; the normal form does not decide it"


def _counterexample(found: Verdict) -> Iterator[str]:
    example = found.counterexample
    if example is None:
        return
    case = example.case
    dtype = "" if "64" in str(case.call.dtype) else f", {str(case.call.dtype).removeprefix('torch.')}"
    yield f'smallest counterexample, in the situation "{case.situation}" with seed {case.seed}{dtype}:'
    cotangents = zip(found.op.outputs, case.call.cotangents, strict=True)
    for name, t in (*case.call.inputs.items(), *((f"d{o}", t) for o, t in cotangents)):
        yield f"  {name} {list(t.shape)}{_values(t)}"
    for operand in found.op.operands:
        if operand.kind == "scalar":
            yield f"  {operand.name} = {case.call.numbers[operand.name]:g}"
    yield f"  {example.message}"


def _values(t: Tensor) -> str:
    if t.numel() > _SHORT:
        return ""
    return f" = {_nested(t.tolist())}"


def _nested(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return f"{value + 0.0:.4g}" if isinstance(value, float) else str(value)


def _counts(found: Verdict) -> Iterator[str]:
    total = len(found.situations) - len(_names(found.refused))
    wrong = _names(found.failed)
    if wrong:
        more = f" and {len(wrong) - _MANY} more" if len(wrong) > _MANY else ""
        yield f"wrong in {len(wrong)} of {total} situations: {', '.join(wrong[:_MANY])}{more}"
    else:
        yield f"agrees with {_of_what(found)} in {total} situations"
    if found.refused:
        reason = found.refused[0].message
        short = reason if len(reason) < 80 else f"{reason[:77]}..."
        yield f"not held against it, since it raised there: {', '.join(_names(found.refused))} ({short})"


def _of_what(found: Verdict) -> str:
    if not isinstance(found.op, Opaque):
        return "the derived backward"
    return "finite differences" if found.op.by_differences else "autograd of its forward"


def _names(found: Sequence[Disagreement]) -> list[str]:
    return list(dict.fromkeys(d.case.situation for d in found))
