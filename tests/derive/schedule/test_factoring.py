"""What terms have in common stands in front, but where it joins a small factor that each of them has already."""

from derive import axes, mean, op, sqrt, sum, tensor
from derive.ir.equations import Op
from derive.pipeline import derivation_of
from derive.verify.verify import verify
from tests.derive.against_loops import code_of

n, d, k, c, s = axes("n d k c s")


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
    return next(str(s.value) for s in derivation_of(made).backward.statements if s.name == name)


def test_a_small_common_factor_joins_the_small_factors_of_the_terms() -> None:
    value = _value(unit_rows.op, "dv")
    assert value.startswith("g_over_r[k] * dw[k, d] - ") and value.endswith(" / r[k] * v[k, d]"), value
    assert ".addcmul_((sum_dw_w / r / r)[:, None], v, value=-1)" in code_of(unit_rows.op)
    assert verify(unit_rows.op).right


def test_a_common_factor_stands_in_front_where_a_term_is_large_alone() -> None:
    assert _value(rows_to_scale.op, "dv").startswith("rsqrt_w_sum[k] * (dw[k, d] - ")


@op
def groups_of_channels(f, x: tensor[n, k, c, s], g: tensor[k, c], b: tensor[k, c]):
    """Wu & He, 2018, as one writes it without xhat."""
    f.m[n, k] = mean(x[n, k, c, s], over=(c, s))
    f.v[n, k] = mean((x[n, k, c, s] - f.m[n, k]) ** 2, over=(c, s))
    f.y[n, k, c, s] = g[k, c] * (x[n, k, c, s] - f.m[n, k]) / sqrt(f.v[n, k] + 1e-5) + b[k, c]
    return f.y


def test_a_gain_meets_sums_over_places_and_nothing_waits_for_a_large_tensor() -> None:
    lines = [str(s) for s in derivation_of(groups_of_channels.op).backward.statements]
    large = [line.partition(" = ")[0] for line in lines if line.partition(" = ")[0].endswith("[n, k, c, s]")]
    assert large == ["dx[n, k, c, s]"], lines
    assert _summed_over_places(lines) == ["sum_dy_x_minus_m", "sum_dy"], lines
    assert verify(groups_of_channels.op).right


def _summed_over_places(lines: list[str]) -> list[str]:
    return [line.partition("[")[0] for line in lines if line.endswith("over=s)")]


@op
def shares_of_shares(f, p: tensor[n, d], x: tensor[n, d]):
    """What keeps a sum from being 0 is no number in front of anything."""
    f.r[n] = sum(p[n, d], over=d)
    f.y[n, d] = (f.r[n] + 1e-9) * x[n, d] * sum(x[n, k] * (f.r[n] + 1e-9), over=k)
    return f.y


def test_a_tiny_number_stays_in_its_sum() -> None:
    code = code_of(shares_of_shares.op)
    assert "1e9" not in code and "+ 1e-09" in code, code
    assert verify(shares_of_shares.op).right
