"""What terms have in common stands in front, but where it joins a small factor that each of them has already."""

from derive import axes, op, sqrt, sum, tensor
from derive.equations import Op
from derive.verify.verify import verify
from tests.derive.against_loops import code_of

n, d, k = axes("n d k")


@op
def unit_rows(f, x: tensor[n, d], v: tensor[k, d], g: tensor[k]):
    """Weights of a length of their own (Salimans & Kingma, 2016)."""
    f.r[k] = sqrt(sum(v[k, d] ** 2, over=d))
    f.w[k, d] = g[k] * v[k, d] / f.r[k]
    f.y[n, k] = sum(x[n, d] * f.w[k, d], over=d)
    return f.y


@op
def rows_to_scale(f, v: tensor[k, d]):
    """One term has no small factor: what both have is divided by once."""
    f.w[k, d] = v[k, d] / sqrt(sum(v[k, d] ** 2, over=d))
    return f.w


def _value(made: Op, name: str) -> str:
    return next(str(s.value) for s in made.derivation.backward.statements if s.name == name)


def test_a_small_common_factor_joins_the_small_factors_of_the_terms() -> None:
    value = _value(unit_rows.op, "dv")
    assert value.startswith("g_over_r[k] * dw[k, d] - ") and value.endswith(" / r[k] * v[k, d]"), value
    assert ".addcmul_((sum_dw_w / r / r)[:, None], v, value=-1)" in code_of(unit_rows.op)
    assert verify(unit_rows.op).right


def test_a_common_factor_stands_in_front_where_a_term_is_large_alone() -> None:
    assert _value(rows_to_scale.op, "dv").startswith("rsqrt_w_sum[k] * (dw[k, d] - ")
