"""Energies, kernels and steps in time."""

from derive import *

b, d, h, i, j, k, m, n, p, s, t, v = axes("b d h i j k m n p s t v")
c2, r2, xyz, p2, two, three = axes("c2=2 r2=2 xyz=3 p2=2 two=2 three=3")


@op
def coulomb_energy(f, x: tensor[n, p], q: tensor[n]):
    """Coulomb's energy of all pairs."""
    f.r[n, m] = sqrt(sum((x[n, p] - x[m, p]) ** 2, over=p))
    f.e[()] = sum(where(ne(n, m), q[n] * q[m] / f.r[n, m], 0), over=(n, m)) / 2
    return f.e


@op
def screened_charges(f, x: tensor[n, p], q: tensor[n]):
    """Yukawa's energy, each pair once."""
    f.r[n, m] = sqrt(sum((x[n, p] - x[m, p]) ** 2, over=p))
    f.e[()] = sum(where(n < m, q[n] * q[m] * exp(-f.r[n, m]), 0), over=(n, m))
    return f.e


@op
def lennard_jones_energy(f, x: tensor[n, d], sigma: tensor[()]):
    """The energy of Lennard-Jones, in units of its depth."""
    f.d2[n, m] = sum((x[n, d] - x[m, d]) ** 2, over=d)
    f.s6[n, m] = where(n < m, (sigma[()] ** 2 / f.d2[n, m]) ** 3, 0)
    f.E[()] = 4 * sum(f.s6[n, m] ** 2 - f.s6[n, m], over=(n, m))
    return f.E


@op
def lennard_jones_with_forces(f, x: tensor[i, d], s: tensor[()]):
    """The energy of Lennard-Jones and the forces of all pairs."""
    f.dv[i, j, d] = x[i, d] - x[j, d]
    f.r2[i, j] = sum(f.dv[i, j, d] ** 2, over=d)
    f.s6[i, j] = where(ne(i, j), (s[()] ** 2 / where(ne(i, j), f.r2[i, j], 1)) ** 3, 0)
    f.energy[()] = sum(f.s6[i, j] ** 2 - f.s6[i, j], over=(i, j))
    f.fm[i, j] = where(ne(i, j), (2 * f.s6[i, j] ** 2 - f.s6[i, j]) / where(ne(i, j), f.r2[i, j], 1), 0)
    f.force[i, d] = sum(f.fm[i, j] * f.dv[i, j, d], over=j)
    return f.energy, f.force


@op
def repelled_points(f, x: tensor[n, d]):
    """An energy that falls with the eighth power of the distance."""
    f.r2[n, m] = sum((x[n, d] - x[m, d]) ** 2, over=d)
    f.e[()] = sum(where(ne(n, m), 1 / (1 + f.r2[n, m]) ** 4, 0), over=(n, m))
    return f.e


@op
def locally_periodic(f, x: tensor[n, k], period: tensor[()], width: tensor[()]):
    """A locally periodic kernel (Duvenaud, 2014)."""
    f.y[n, k] = exp(-2 * sin(pi * x[n, k] / period[()]) ** 2 - x[n, k] ** 2 / (2 * width[()] ** 2))
    return f.y


@op
def matern(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    """Matern 5/2, its distance divided by a learned length (Rasmussen & Williams, 2006)."""
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l[()]
    f.K[n, m] = (1 + sqrt(5) * f.r[n, m] + 5 * f.r[n, m] ** 2 / 3) * exp(-sqrt(5) * f.r[n, m])
    return f.K


@op
def matern_rougher(f, x: tensor[n, d], z: tensor[m, d], l: tensor[()]):
    """Matern 3/2 under a learned length."""
    f.r[n, m] = sqrt(sum((x[n, d] - z[m, d]) ** 2, over=d)) / l[()]
    f.K[n, m] = (1 + sqrt(3) * f.r[n, m]) * exp(-sqrt(3) * f.r[n, m])
    return f.K


@op
def leapfrog(f, q: tensor[n, d], p: tensor[n, d], stiffness: tensor[d]):
    """A step of a leapfrog: half a kick, a drift, half a kick."""
    f.half[n, d] = p[n, d] - stiffness[d] * sin(q[n, d]) / 2
    f.there[n, d] = q[n, d] + f.half[n, d]
    f.after[n, d] = f.half[n, d] - stiffness[d] * sin(f.there[n, d]) / 2
    return f.there, f.after


@op
def upwind_step(f, u: tensor[n, t], g: constant[t]):
    """An upwind difference on a circle."""
    f.y[n, t] = where(g[t] > 0, u[n, t] - u[n, (t - 1) % size(t)], u[n, (t + 1) % size(t)] ** 2)
    return f.y


@op
def saturating_rate(f, a: tensor[n], b: tensor[n], k: tensor[n]):
    """A rate with saturation (Michaelis & Menten, 1913)."""
    f.y[n] = a[n] * b[n] / (k[n] + b[n])
    return f.y


@op
def determinants(f, x: tensor[n, r2, c2]):
    """The logarithm of a 2 by 2 determinant."""
    f.y[n] = log(abs(x[n, 0, 0] * x[n, 1, 1] - x[n, 0, 1] * x[n, 1, 0]))
    return f.y


@op
def cross_product(f, a: tensor[n, xyz], b: tensor[n, xyz]):
    """A cross product by its places."""
    f.c[n, xyz] = where(
        eq(xyz, 0), a[n, 1] * b[n, 2] - a[n, 2] * b[n, 1],
        where(eq(xyz, 1), a[n, 2] * b[n, 0] - a[n, 0] * b[n, 2], a[n, 0] * b[n, 1] - a[n, 1] * b[n, 0]),
    )  # fmt: skip
    return f.c


@op
def complex_product(f, a: tensor[..., p2], b: tensor[..., p2]):
    """A complex product, its parts along a fixed axis."""
    f.re[...] = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    f.im[...] = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return f.re, f.im


@op
def pinhole(f, x: tensor[n, three]):
    """Seen by a pinhole: places on a plane."""
    f.y[n, two] = x[n, two] / x[n, 2]
    return f.y


@op
def discounted_returns(f, r: tensor[b, t], gamma: scalar = 0.9):
    """Discounted sums of what comes."""
    f.g[b, t] = sum(where(s >= t, gamma ** (s - t) * r[b, s], 0), over=s)
    return f.g


@op
def state_decay(f, a: tensor[i], x: tensor[i, k]):
    """States that are what came before, fading (SSD: Dao & Gu, 2024)."""
    f.c[i] = sum(where(j <= i, a[j], 0), over=j)
    f.l[i, j] = where(j <= i, exp(f.c[i] - f.c[j]), 0)
    f.y[i, k] = sum(f.l[i, j] * x[j, k], over=j)
    return f.y


@op
def selective_states(f, s: tensor[b, k, v], q: tensor[b, k], x: tensor[b, v]):
    """A step of the delta rule (Widrow & Hoff, 1960)."""
    f.o[b, v] = sum(s[b, k, v] * q[b, k], over=k)
    f.t[b, k, v] = tanh(s[b, k, v] - q[b, k] * f.o[b, v]) * (x[b, v] - f.o[b, v])
    return f.t


@op
def fast_sine(f, x: tensor[k, h], w: tensor[h]):
    """A sine of thirty times a product."""
    f.y[k] = sin(30 * sum(x[k, h] * w[h], over=h))
    return f.y


@op
def angles_of_places(f, x: tensor[t, h], z: tensor[t, h], base: scalar = 10000.0):
    """Half of a rotary embedding (Su et al., 2021)."""
    f.y[t, h] = x[t, h] * cos(t / base ** (h / size(h))) - z[t, h] * sin(t / base ** (h / size(h)))
    return f.y


@op
def kronecker_layer(f, x: tensor[n, i, j], a: tensor[i, s], b: tensor[j, t]):
    """A layer whose matrix is a Kronecker product."""
    f.y[n, (s, t)] = sum(x[n, i, j] * a[i, s] * b[j, t], over=(i, j))
    return f.y


@op
def rotary_by_a_choice(f, x: tensor[..., d], c: constant[t], s: constant[t]):
    """Rotary embedding, told by the place of a half."""
    f.z[..., r2, t] = x[..., (r2, t)]
    f.w[..., r2, t] = where(
        eq(r2, 0), f.z[..., 0, t] * c[t] - f.z[..., 1, t] * s[t], f.z[..., 1, t] * c[t] + f.z[..., 0, t] * s[t]
    )
    f.y[..., (r2, t)] = f.w[..., r2, t]
    return f.y


@op
def periodic_waves(f, u: tensor[n, d], a: tensor[m, d], b: tensor[m, d], c: tensor[n]):
    """Sums of sines and cosines of products apart."""
    f.y[n, m] = sum(a[m, d] * cos(u[n, d]) + b[m, d] * sin(u[n, d]) + c[n], over=d)
    return f.y


@op
def heat_residual(f, x: constant[n, two], w: tensor[two, h], c: tensor[h], o: tensor[h]):
    """How far a perceptron is from the heat equation: derivatives inside a spec, the second one too."""
    f.h[n, h] = tanh(sum(x[n, two] * w[two, h], over=two) + c[h])
    f.u[n] = sum(f.h[n, h] * o[h], over=h)
    f.ut[n] = derivative(f.u[n], x[n, 1])
    f.ux[n] = derivative(f.u[n], x[n, 0])
    f.uxx[n] = derivative(f.ux[n], x[n, 0])
    f.loss[()] = mean((f.ut[n] - 0.1 * f.uxx[n]) ** 2, over=n)
    return f.loss


@op
def forces_of_an_energy(f, x: tensor[n, p], q: tensor[n], target: constant[n, p]):
    """Soft Coulomb forces as the derivative of their energy, held against known ones."""
    f.s[n, m] = sum((x[n, p] - x[m, p]) ** 2, over=p)
    f.e[()] = sum(q[n] * q[m] * rsqrt(1 + f.s[n, m]), over=(n, m)) / 2
    f.force[n, p] = -derivative(f.e[()], x[n, p])
    f.loss[()] = mean((f.force[n, p] - target[n, p]) ** 2, over=(n, p))
    return f.loss


HOSTILE = {
    "coulomb_energy": "far apart, far from zero",
    "screened_charges": "far apart, far from zero",
    "lennard_jones_energy": "far apart",
    "lennard_jones_with_forces": "far apart",
    "repelled_points": "far apart, far from zero",
    "locally_periodic": "scale 30",
    "matern": "far from zero, nearly equal",
    "matern_rougher": "far from zero, nearly equal",
    "leapfrog": "scale 30",
    "upwind_step": "ties, far from zero",
    "saturating_rate": "scale 1e4",
    "determinants": "scale 1e4",
    "cross_product": "scale 1e4",
    "complex_product": "scale 1e4",
    "pinhole": "scale 1e4",
    "discounted_returns": "scale 1e4",
    "state_decay": "scale 30",
    "selective_states": "scale 30",
    "fast_sine": "scale 30",
    "angles_of_places": "scale 1e4",
    "kronecker_layer": "scale 1e4",
    "rotary_by_a_choice": "scale 1e4",
    "periodic_waves": "scale 30",
}
