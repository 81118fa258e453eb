"""Arithmetic: element by element under each way of broadcasting, products of matrices, reductions."""

from derive import *

n, d, i, j, k = axes("n d i j k")


# --- sums and differences ---------------------------------------------------------------------------------


@op
def add(f, x: tensor[...], y: tensor[...]):
    """The sum of two tensors of one shape."""
    f.z[...] = x[...] + y[...]
    return f.z


@op
def add_bias(f, x: tensor[..., d], b: tensor[d]):
    """A vector added to every row."""
    f.y[..., d] = x[..., d] + b[d]
    return f.y


@op
def add_column(f, x: tensor[..., d], c: tensor[...]):
    """A number a row, added to the whole of that row."""
    f.y[..., d] = x[..., d] + c[...]
    return f.y


@op
def add_outer(f, a: tensor[i], b: tensor[j]):
    """Every sum of an element of `a` and an element of `b`."""
    f.y[i, j] = a[i] + b[j]
    return f.y


@op
def add_number(f, x: tensor[...], a: tensor[()]):
    """One learned number added everywhere."""
    f.y[...] = x[...] + a[()]
    return f.y


@op
def sub(f, x: tensor[...], y: tensor[...]):
    """The difference of two tensors of one shape."""
    f.z[...] = x[...] - y[...]
    return f.z


@op
def sub_outer(f, a: tensor[i], b: tensor[j]):
    """Every difference of an element of `a` and an element of `b`."""
    f.y[i, j] = a[i] - b[j]
    return f.y


@op
def neg(f, x: tensor[...]):
    """The negative."""
    f.y[...] = -x[...]
    return f.y


# --- products and quotients -------------------------------------------------------------------------------


@op
def mul(f, x: tensor[...], y: tensor[...]):
    """The product of two tensors of one shape, element by element."""
    f.z[...] = x[...] * y[...]
    return f.z


@op
def mul_row(f, x: tensor[..., d], g: tensor[d]):
    """A gain a feature: every row multiplied by one vector."""
    f.y[..., d] = x[..., d] * g[d]
    return f.y


@op
def mul_column(f, x: tensor[n, d], c: tensor[n]):
    """A weight a row, that multiplies the whole of that row."""
    f.y[n, d] = x[n, d] * c[n]
    return f.y


@op
def scale(f, x: tensor[...], a: tensor[()]):
    """Everything multiplied by one learned number."""
    f.y[...] = a[()] * x[...]
    return f.y


@op
def outer(f, a: tensor[i], b: tensor[j]):
    """The outer product of two vectors."""
    f.y[i, j] = a[i] * b[j]
    return f.y


@op
def div(f, x: tensor[...], y: tensor[...]):
    """The quotient of two tensors of one shape, element by element."""
    f.z[...] = x[...] / y[...]
    return f.z


@op
def div_column(f, x: tensor[..., d], c: tensor[...]):
    """Every row divided by a number of its own."""
    f.y[..., d] = x[..., d] / c[...]
    return f.y


@op
def reciprocal(f, x: tensor[...]):
    """One over each element."""
    f.y[...] = 1 / x[...]
    return f.y


# --- powers -----------------------------------------------------------------------------------------------


@op
def square(f, x: tensor[...]):
    """The square of each element."""
    f.y[...] = x[...] ** 2
    return f.y


@op
def pow(f, x: tensor[...], exponent: scalar = 2.0):
    """Each element to one power."""
    f.y[...] = x[...] ** exponent
    return f.y


@op
def pow_elementwise(f, x: tensor[...], y: tensor[...]):
    """Each element of `x`, not negative, to the power in `y`."""
    f.z[...] = x[...] ** y[...]
    return f.z


# --- products of vectors and matrices ---------------------------------------------------------------------


@op
def dot(f, a: tensor[i], b: tensor[i]):
    """The inner product of two vectors."""
    f.y[()] = sum(a[i] * b[i], over=i)
    return f.y


@op
def matvec(f, a: tensor[i, k], x: tensor[k]):
    """A matrix times a vector."""
    f.y[i] = sum(a[i, k] * x[k], over=k)
    return f.y


@op
def matmul(f, a: tensor[i, k], b: tensor[k, j]):
    """The product of two matrices."""
    f.c[i, j] = sum(a[i, k] * b[k, j], over=k)
    return f.c


@op
def batched_matmul(f, a: tensor[..., i, k], b: tensor[..., k, j]):
    """The product of two matrices, for each of the leading axes."""
    f.c[..., i, j] = sum(a[..., i, k] * b[..., k, j], over=k)
    return f.c


# --- reductions -------------------------------------------------------------------------------------------


@op
def sum_all(f, x: tensor[...]):
    """The sum of all elements."""
    f.y[()] = sum(x[...], over=...)
    return f.y


@op
def mean_all(f, x: tensor[...]):
    """The mean of all elements."""
    f.y[()] = mean(x[...], over=...)
    return f.y


@op
def sum_rows(f, x: tensor[..., d]):
    """The sum over every axis but the last."""
    f.y[d] = sum(x[..., d], over=...)
    return f.y


@op
def var(f, x: tensor[..., d], correction: scalar = 1):
    """The variance over the last axis, with Bessel's correction by default."""
    f.mu[...] = mean(x[..., d], over=d)
    f.v[...] = sum((x[..., d] - f.mu[...]) ** 2, over=d) / (size(d) - correction)
    return f.v


# --- the words of the notation, each as an op of its own --------------------------------------------------
# They stand last: from its definition on, such a name is the op.


@op
def abs(f, x: tensor[...]):
    """The absolute value, with derivative 0 at 0."""
    f.y[...] = abs(x[...])
    return f.y


@op
def exp(f, x: tensor[...]):
    """The exponential function."""
    f.y[...] = exp(x[...])
    return f.y


@op
def log(f, x: tensor[...]):
    """The natural logarithm."""
    f.y[...] = log(x[...])
    return f.y


@op
def sqrt(f, x: tensor[...]):
    """The square root."""
    f.y[...] = sqrt(x[...])
    return f.y


@op
def sum(f, x: tensor[..., d]):
    """The sum over the last axis."""
    f.y[...] = sum(x[..., d], over=d)
    return f.y


@op
def mean(f, x: tensor[..., d]):
    """The mean over the last axis."""
    f.y[...] = mean(x[..., d], over=d)
    return f.y


@op
def amax(f, x: tensor[..., d]):
    """The maximum over the last axis; ties share the gradient evenly."""
    f.y[...] = amax(x[..., d], over=d)
    return f.y
