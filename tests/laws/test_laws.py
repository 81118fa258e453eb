"""What stands for a rule that is taken away, and that what is found without it is another derivation."""

from derive.pipeline import derive_op
from derive.rules.stability.deviations import with_deviations
from derive.rules.tables.algebra import COMPLEMENTS
from derive.schedule.share import share
from tests.corpus import corpus
from tests.laws.taken import Rule, rules, watched, without


def _rule(f: object) -> Rule:
    return next(r for r in rules() if r.function is f)


def test_a_rule_is_gone_and_comes_back() -> None:
    spec = next(s for s in corpus() if s.name == "next_token")
    whole = derive_op(spec.op)
    with without(_rule(share)):
        assert derive_op(spec.op).backward != whole.backward
    assert derive_op(spec.op).backward == whole.backward


def test_what_fires_is_seen() -> None:
    spec = next(s for s in corpus() if s.name == "calculator_correlation")
    fired: set[str] = set()
    with watched(fired):
        derive_op(spec.op)
    assert _rule(with_deviations).name in fired


def test_every_pass_of_the_orders_is_a_rule() -> None:
    names = {r.name for r in rules()}
    assert {"schedule.one_choice.one_choice", "contract.distributivity.distributed"} <= names
    assert {"rules.stability.near_one.with_digits_near_one", "collapse.masked.use_masked"} <= names


def test_a_row_is_a_rule() -> None:
    spec = next(s for s in corpus() if s.name == "bce_with_logits")
    row = next(r for r in rules() if r.function is COMPLEMENTS[0])
    fired: set[str] = set()
    with watched(fired):
        whole = derive_op(spec.op)
    assert row.name in fired and "complement" in {s.law for s in whole.closed.steps}
    with without(row):
        assert "complement" not in {s.law for s in derive_op(spec.op).closed.steps}
