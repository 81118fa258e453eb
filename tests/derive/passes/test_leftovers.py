"""What a pass leaves behind is put away."""

from derive import axes, constant, exp, index, op, sum, tensor

n, c, d = axes("n c d")


@op
def scores_of_a_table(f, table: tensor[c, d], x: constant[n, c, d], label: index(c)[n]):
    f.z[n, c, d] = exp(table[c, d] + x[n, c, d])
    f.y[n] = sum(f.z[n, c, d], over=(c, d)) - sum(table[label[n], d], over=d)
    return f.y


def test_what_is_made_only_to_be_added_to_is_not_copied():
    lines = [str(s) for s in scores_of_a_table.op.derivation.backward.statements]
    assert lines[-2].startswith("dtable[c, d] = sum(") and lines[-1].startswith("dtable[c, d] = dtable, at "), lines
