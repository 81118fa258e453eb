"""A formula in the notation: proved by normal form where that decides, refuted by a counterexample."""

import pytest

from derive.catalogue import find
from derive.errors import DeriveError
from derive.pipeline import derivation_of
from derive.verify.formula import of_formula, parse
from derive.verify.judge import Verdict, judge
from derive.verify.proof import prove

TRUE = {
    "softmax": "dx[..., d] = p[..., d]*(dp[..., d] - sum(dp[..., e]*p[..., e], over=e))",
    "log_softmax": "dx[..., k] = dy[..., k] - exp(y[..., k])*sum(dy[..., j], over=j)",
    "tanh": "dx[...] = dy[...]*(1 - tanh(x[...])**2)",
    "embedding": "dC[r, e] = sum(delta(r, ix[...])*demb[..., e], over=...)",
    "matmul": "da[i, k] = sum(dc[i, j]*b[k, j], over=j); db[k, j] = sum(a[i, k]*dc[i, j], over=i)",
    "layernorm": "c[...] = mean(dxhat[..., k]*xhat[..., k], over=k);"
    "dx[..., d] = rstd[...]*(dxhat[..., d] - mean(dxhat[..., k], over=k) - xhat[..., d]*c[...])",
}


def judged(name: str, text: str) -> tuple[Verdict, int]:
    op = find(name)
    formula = parse(text, derivation_of(op))
    found = judge(op, of_formula(formula, derivation_of(op)))
    return found, len(prove(formula, derivation_of(op))) if found.right else 0


@pytest.mark.parametrize("name", TRUE)
def test_a_true_formula_is_proved(name: str) -> None:
    found, proofs = judged(name, TRUE[name])
    assert found.right and proofs == TRUE[name].count("; db") + 1


def test_a_false_formula_is_refuted_and_explained() -> None:
    found, _ = judged("softmax", "dx[..., d] = p[..., d]*dp[..., d]")
    assert (found.word, found.error) == ("wrong", "missing term")
    assert found.explanations[0].text == (
        "equals the derived gradient without the term -p[..., d]*sum(dp[..., d']*p[..., d'], over=d')"
    )
    assert found.counterexample is not None and found.counterexample.expected != 0, "one share alone would tell nothing"


def test_no_false_formula_is_proved() -> None:
    """Every proof is of a difference; one that is not 0 must not be found 0 by any of the substitutions."""
    for name, text in TRUE.items():
        op = find(name)
        wrong = text.replace("dp[..., d] -", "dp[..., d] +").replace("dy[", "2*dy[").replace("dc[i", "-dc[i")
        wrong = wrong.replace("demb", "3*demb").replace("rstd[...]*(", "rstd[...]**2*(")
        assert wrong != text
        assert prove(parse(wrong, derivation_of(op)), derivation_of(op)) == ()


def test_a_formula_with_a_smaller_domain_is_right_only_there() -> None:
    found, _ = judged("layernorm", "dgamma[d] = sum(dy[..., d]*(y[..., d] - beta[d])/gamma[d], over=...)")
    assert (found.word, found.where) == ("right only where", "gamma is nowhere 0")


@pytest.mark.parametrize(
    "text, message",
    {
        "dx[..., d] = q[..., d]": "op softmax: the formula reads q, which the op does not have; it may read x, ",
        "dx[..., d] = p[..., k]": "equation dx: axis k stands on the right only; put k on the left, or sum over it",
        "dx[..., d] == 3": "the formula is not an equation; write it as",
        "dx[..., d] = p[d]": "equation dx: reads p[d]; p has the axes [..., d]",
        "dx[d] = 1": "equation dx: has other axes than the input; write dx[..., d]",
        "dx[..., d] = p[..., d] if d else 0": "equation dx: asks whether d is true, which each element answers",
        "dx[..., d] = 0 if p[..., d] == 0 else 1": "equation dx: == asks whether p[..., d] and 0 are written alike",
        "dx[..., d] = p[..., d] and dp[..., d]": "equation dx: asks whether p[..., d] is true",
        "dx[..., d] = 1/0": "equation dx: the formula cannot be read: division by zero; write it as",
        "dx[..., d] = p[..., d]/(d - d)": "equation dx: the formula divides by 0; divide by what is not 0 everywhere",
        "dx[..., d] = 10.0**1000": "equation dx: the formula cannot be read: ",
        "dx[..., d] = (1, 2)[5]": "equation dx: the formula cannot be read: tuple index out of range",
        "dx[..., d] = (yield 3)": "equation dx: the formula cannot be read: 'yield' outside function",
        "dx[..., d] = (": "the formula is not an equation: '(' was never closed",
        "r[..., d] = p[..., d]": "the formula defines no gradient; define one of dx",
        "p[..., d] = dp[..., d]": "p is a tensor of the op already; give it another name",
        "dx[..., d] = amax(p[..., e], over=e)": "amax stands in the formula; read the forward's tensor in its place",
        "dx[..., d] = __import__('os').name": "the formula cannot be read",
        "": "the formula is empty",
    }.items(),
)
def test_what_is_no_formula_is_told(text: str, message: str) -> None:
    with pytest.raises(DeriveError) as error:
        parse(text, derivation_of(find("softmax")))
    assert message in str(error.value)
