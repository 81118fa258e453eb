"""What a pass leaves behind is put away."""

from derive import axes, constant, exp, index, op, sum, tensor
from derive.pipeline import derivation_of

n, c, d = axes("n c d")


@op
def scores_of_a_table(f, table: tensor[n, c], x: constant[n, c, d], label: index(c)[n]):
    f.z[n, c, d] = exp(table[n, c] + x[n, c, d])
    f.y[n, d] = sum(f.z[n, c, d], over=c) - table[n, label[n]]
    return f.y


def test_what_is_made_only_to_be_added_to_is_not_copied():
    lines = [str(s) for s in derivation_of(scores_of_a_table.op).backward.statements]
    assert lines[-2].startswith("dtable[n, c] = sum(") and lines[-1].startswith("dtable[n, c] = dtable, at "), lines
