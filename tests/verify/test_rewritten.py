"""Right backwards under rewritings are acquitted: a sample here, all by `python -m tests.verify.rewritten`."""

import pytest

from tests.verify.rewritten import OPS, REWRITINGS, rewritten, verdict

EVERY = 3  # ops, of which each rewriting takes others


@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_a_rewritten_right_backward_is_acquitted(rewriting: str) -> None:
    first = list(REWRITINGS).index(rewriting) % EVERY
    found = {op.name: verdict(op, backward) for op, _, backward in rewritten(OPS[first::EVERY], [rewriting])}
    assert found and {name: (v.word, v.error) for name, v in found.items()} == dict.fromkeys(found, ("right", ""))
    texts = {f.text for v in found.values() for f in v.findings}
    assert texts == ({"computing in float32"} if rewriting == "in float32" else set())
    dtypes = {str(v.dtype) for v in found.values()}
    assert dtypes == {"torch.float32" if rewriting in ("in float32", "without float64") else "torch.float64"}


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert sum(1 for _ in rewritten()) >= 100
