"""Losses and likelihoods."""

from derive import *

c, d, i, j, k, m, n, r, t, v = axes("c d i j k m n r t v")


@op
def logits_by_maximum(f, x: tensor[n], z: constant[n]):
    """Binary cross-entropy of logits, as the documentation of PyTorch has it."""
    f.y[n] = maximum(x[n], 0) - x[n] * z[n] + log(1 + exp(-abs(x[n])))
    return f.y


@op
def logits_by_minimum(f, x: tensor[n], z: constant[n]):
    """Binary cross-entropy by the smaller of the logit and 0."""
    f.y[n] = z[n] * x[n] + minimum(x[n], 0) - log1p(exp(-abs(x[n])))
    return f.y


@op
def huber_by_its_parts(f, a: tensor[n], b: tensor[n], width: scalar = 1.0):
    """Huber's loss by its square part and its linear part."""
    f.r[n] = abs(a[n] - b[n])
    f.q[n] = minimum(f.r[n], width)
    f.loss[()] = mean(f.q[n] ** 2 / 2 + width * (f.r[n] - f.q[n]), over=n)
    return f.loss


@op
def negative_binomial(f, la: tensor[n], r: tensor[()], y: constant[n]):
    """The likelihood of counts with a learned dispersion."""
    f.mu[n] = exp(la[n])
    f.loss[()] = -sum(r[()] * log(r[()] / (r[()] + f.mu[n])) + y[n] * log(f.mu[n] / (r[()] + f.mu[n])), over=n)
    return f.loss


@op
def softmax_entropy(f, z: tensor[n, c]):
    """The entropy of a softmax, from its logarithm."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.logp[n, c] = z[n, c] - f.lse[n]
    f.h[n] = -sum(exp(f.logp[n, c]) * f.logp[n, c], over=c)
    return f.h


@op
def softened_targets(f, z: tensor[n, c], p: constant[n, c], tau: constant[n]):
    """A cross-entropy with given targets at a temperature of each row."""
    f.m[n] = amax(z[n, c] / tau[n], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, d] / tau[n] - f.m[n]), over=d))
    f.loss[n] = -sum(p[n, c] * (z[n, c] / tau[n] - f.lse[n]), over=c)
    return f.loss


@op
def divergence_at_a_temperature(f, z: tensor[n, c], q: tensor[n, c], tau: scalar):
    """A softmax's divergence from given log-probabilities."""
    f.m[n] = amax(z[n, c], over=c)
    f.logp[n, c] = (z[n, c] - f.m[n]) / tau - log(sum(exp((z[n, c] - f.m[n]) / tau), over=c))
    f.y[n] = sum(exp(f.logp[n, c]) * (f.logp[n, c] - q[n, c]), over=c)
    return f.y


@op
def two_mixed_labels(f, z: tensor[n, c], y: index(c)[n], w: index(c)[n], lam: constant[n], s: scalar = 0.1):
    """Smoothed cross-entropy of two mixed labels (Zhang et al., 2018)."""
    f.m[n] = amax(z[n, c], over=c)
    f.logp[n, c] = z[n, c] - f.m[n] - log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.a[n] = lam[n] * f.logp[n, y[n]] + (1 - lam[n]) * f.logp[n, w[n]]
    f.loss[()] = -mean((1 - s) * f.a[n] + s * mean(f.logp[n, c], over=c), over=n)
    return f.loss


@op
def mean_cubed_error(f, x: tensor[n, d], t: tensor[n, d]):
    """The mean of cubed distances."""
    f.r[n, d] = abs(x[n, d] - t[n, d])
    f.y[()] = mean(f.r[n, d] ** 3, over=(n, d))
    return f.y


@op
def generalised_cross_entropy(f, z: tensor[n, c], y: index(c)[n], q: scalar = 0.7):
    """Generalised cross-entropy (Zhang & Sabuncu, 2018)."""
    f.p[n, c] = exp(z[n, c]) / sum(exp(z[n, c]), over=c)
    f.loss[()] = mean((1 - f.p[n, y[n]] ** q) / q, over=n)
    return f.loss


@op
def pairwise_sigmoid_loss(f, x: tensor[i, d], y: tensor[j, d], t: tensor[()], b: tensor[()]):
    """A logistic loss of all pairs of unit vectors (Zhai et al., 2023)."""
    f.u[i, d] = x[i, d] / sqrt(sum(x[i, d] ** 2, over=d))
    f.v[j, d] = y[j, d] / sqrt(sum(y[j, d] ** 2, over=d))
    f.z[i, j] = exp(t[()]) * sum(f.u[i, d] * f.v[j, d], over=d) + b[()]
    f.l[i, j] = where(eq(i, j), 1, -1)
    f.loss[()] = sum(softplus(-f.l[i, j] * f.z[i, j]), over=(i, j)) / size(i)
    return f.loss


@op
def distilled_beside_a_label(f, z: tensor[n, c], teacher: constant[n, c], y: index(c)[n], tau: scalar = 4):
    """Distillation beside a hard label (Hinton, Vinyals & Dean, 2015)."""
    f.p[n, c] = exp(teacher[n, c] / tau) / sum(exp(teacher[n, c] / tau), over=c)
    f.q[n, c] = exp(z[n, c] / tau) / sum(exp(z[n, c] / tau), over=c)
    f.soft[n] = -sum(f.p[n, c] * log(f.q[n, c]), over=c)
    f.hard[n] = -log(exp(z[n, y[n]]) / sum(exp(z[n, c]), over=c))
    f.loss[()] = mean(tau**2 * f.soft[n] + f.hard[n], over=n)
    return f.loss


@op
def squared_odds(f, x: constant[n, d], w: tensor[d], bias: tensor[()], y: constant[n]):
    """A logistic model with a bias, its probability squared and cubed."""
    f.p[n] = sigmoid(sum(x[n, d] * w[d], over=d) + bias[()])
    f.loss[()] = -mean(y[n] * log(f.p[n] ** 2 + 1) + f.p[n] ** 3, over=n)
    return f.loss


@op
def mixture_of_losses(f, z: tensor[n, d], loss_of: tensor[n, d]):
    """A mixture of given losses under learned weights."""
    f.top[n] = amax(z[n, d], over=d)
    f.logp[n, d] = z[n, d] - f.top[n] - log(sum(exp(z[n, d] - f.top[n]), over=d))
    f.joint[n, d] = f.logp[n, d] - loss_of[n, d] ** 2
    f.most[n] = amax(f.joint[n, d], over=d)
    f.loss[()] = -mean(f.most[n] + log(sum(exp(f.joint[n, d] - f.most[n]), over=d)), over=n)
    return f.loss


@op
def ranking_likelihood(f, s: tensor[i]):
    """The likelihood of a ranking (ListMLE: Xia et al., 2008)."""
    f.top[()] = amax(s[i], over=i)
    f.rest[i] = sum(where(j >= i, exp(s[j] - f.top[()]), 0), over=j)
    f.loss[()] = sum(f.top[()] + log(f.rest[i]) - s[i], over=i)
    return f.loss


@op
def margin_of_own_logit(f, z: tensor[n, c], y: index(c)[n]):
    """A margin on the logit of the label, which is made of that logit (Deng et al., 2019)."""
    f.r[n] = sqrt(1 + z[n, y[n]] ** 2)
    f.s[n, c] = where(eq(c, y[n]), z[n, c] - f.r[n], z[n, c])
    f.m[n] = amax(f.s[n, c], over=c)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.s[n, c] - f.m[n]), over=c)) - f.s[n, y[n]], over=n)
    return f.loss


@op
def soft_targets_in_one_line(f, s: tensor[n, c], a: constant[n, c]):
    """Cross-entropy with targets that are a softmax themselves (Hinton et al., 2015)."""
    f.t[n, c] = exp(a[n, c]) / sum(exp(a[n, j]), over=j)
    f.loss[()] = mean(sum(f.t[n, c] * (log(sum(exp(s[n, k]), over=k)) - s[n, c]), over=c), over=n)
    return f.loss


@op
def mixture_of_logistics(f, x: constant[n], w: tensor[k], mu: tensor[n, k], ls: tensor[n, k]):
    """The logarithm of a mixture of logistic densities (Salimans et al., 2017)."""
    f.z[n, k] = (x[n] - mu[n, k]) * exp(-ls[n, k])
    f.y[n] = log(sum(exp(w[k] + f.z[n, k] - ls[n, k] - 2 * log(1 + exp(f.z[n, k]))), over=k))
    return f.y


@op
def one_positive_among_negatives(f, pos: tensor[n], neg: tensor[n, c]):
    """InfoNCE (van den Oord, Li & Vinyals, 2018)."""
    f.loss[n] = -log(exp(pos[n]) / (exp(pos[n]) + sum(exp(neg[n, c]), over=c)))
    return f.loss


@op
def balanced_log_sum(f, z: tensor[n, c], w: tensor[c]):
    """The normaliser of a balanced softmax (Ren et al., 2020)."""
    f.y[n] = log(sum(w[c] ** 2 * exp(z[n, c]), over=c))
    return f.y


@op
def proportional_hazards(f, s: tensor[n], time: constant[n]):
    """What a proportional hazards model sums over those at risk (Cox, 1972)."""
    f.y[n] = log(sum(where(time[m] >= time[n], exp(s[m]), 0), over=m))
    return f.y


@op
def share_of_a_kind(f, z: tensor[n, c], same: constant[n, c]):
    """Minus the logarithm of the share of those of a kind."""
    f.e[n, c] = exp(z[n, c])
    f.y[n] = -log(sum(same[n, c] * f.e[n, c], over=c) / sum(f.e[n, c], over=c))
    return f.y


@op
def counted_label(f, z: tensor[n, c], y: index(c)[n], w: constant[c]):
    """Cross-entropy with counts of classes as weights."""
    f.loss[n] = -log(w[y[n]] * exp(z[n, y[n]]) / sum(w[c] * exp(z[n, c]), over=c))
    return f.loss


@op
def masked_entropy(f, z: tensor[n, c], keep: constant[n, c]):
    """The entropy of a softmax of what a mask keeps."""
    f.w[n, c] = where(keep[n, c] > 0, z[n, c], -oo)
    f.m[n] = amax(f.w[n, c], over=c)
    f.e[n, c] = exp(f.w[n, c] - f.m[n])
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(where(f.p[n, c] > 0, f.p[n, c] * log(f.p[n, c]), 0), over=c)
    return f.h


@op
def cross_entropy_at_a_temperature(f, z: tensor[n, c], q: tensor[n, c], tau: scalar = 0.5):
    """Cross-entropy of a softmax at a temperature (Hinton et al., 2015)."""
    f.m[n] = amax(z[n, c], over=c)
    f.e[n, c] = exp((z[n, c] - f.m[n]) / tau)
    f.p[n, c] = f.e[n, c] / sum(f.e[n, c], over=c)
    f.h[n] = -sum(q[n, c] * log(f.p[n, c]), over=c)
    return f.h


@op
def log_log_link(f, x: tensor[n], t: tensor[n]):
    """The likelihood of rare events under a complementary log-log link."""
    f.p[n] = 1 - exp(-exp(x[n]))
    f.loss[()] = -sum(t[n] * log(f.p[n]) + (1 - t[n]) * log(1 - f.p[n]), over=n)
    return f.loss


@op
def preference_of_two(f, a: tensor[n], r: tensor[n], beta: scalar = 0.5):
    """How likely the better of two is preferred."""
    f.loss[()] = -mean(log(sigmoid(beta * (a[n] - r[n]))), over=n)
    return f.loss


@op
def focal_of_a_choice(f, x: tensor[n], t: constant[n]):
    """Focal loss by a choice between both probabilities."""
    f.p[n] = sigmoid(x[n])
    f.pt[n] = where(t[n] > 0.5, f.p[n], 1 - f.p[n])
    f.loss[n] = -((1 - f.pt[n]) ** 2) * log(f.pt[n])
    f.kept[n] = log(where(t[n] > 0.5, f.p[n], 2))
    return f.loss, f.kept


@op
def log_of_one_share_of_two(f, x: tensor[n], z: tensor[n]):
    """A share of two exponentials, and its logarithm."""
    f.first[n] = exp(x[n])
    f.second[n] = exp(z[n])
    f.p[n] = f.first[n] / (f.first[n] + f.second[n])
    f.loss[n] = -log(f.p[n])
    return f.loss, f.p


@op
def log_cosh_in_steps(f, x: tensor[n]):
    """The logarithm of a hyperbolic cosine, exponential by exponential."""
    f.u[n] = exp(x[n])
    f.v[n] = exp(-x[n])
    f.c[n] = (f.u[n] + f.v[n]) / 2
    f.y[n] = log(f.c[n])
    return f.y


@op
def focal_of_classes(f, z: tensor[n, c], y: index(c)[n]):
    """Focal loss (Lin et al., 2017): what the model is sure of counts for less."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.logp[n, c] = z[n, c] - f.lse[n]
    f.own[n] = f.logp[n, y[n]]
    f.loss[()] = mean(-((1 - exp(f.own[n])) ** 2) * f.own[n], over=n)
    return f.loss


@op
def ratio_less_its_logarithm(f, a: tensor[n], b: tensor[n]):
    """An estimate of a divergence from two log-probabilities."""
    f.y[n] = expm1(a[n] - b[n]) - (a[n] - b[n])
    return f.y


@op
def zero_inflated_counts(f, x: constant[n], z: tensor[n], y: tensor[n]):
    """The likelihood of counts of which more than expected are 0."""
    f.zero[n] = softplus(y[n] - z[n]) - softplus(-z[n])
    f.ll[n] = where(eq(x[n], 0), f.zero[n], -softplus(z[n]) + x[n] * y[n])
    f.loss[()] = -mean(f.ll[n], over=n)
    return f.loss


@op
def signs_of_pairs(f, a: tensor[i, d], b: tensor[j, d]):
    """A logistic loss of all pairs, those on the diagonal the other way."""
    f.s[i, j] = sum(a[i, d] * b[j, d], over=d)
    f.z[i, j] = (2 * delta(i, j) - 1) * f.s[i, j]
    f.loss[()] = -mean(log(sigmoid(f.z[i, j])), over=(i, j))
    return f.loss


@op
def smoothed_one_hot(f, z: tensor[n, c], y: index(c)[n], a: scalar = 0.1):
    """Cross-entropy with smoothed labels, by a table."""
    f.hot[n, c] = delta(c, y[n])
    f.q[n, c] = (1 - a) * f.hot[n, c] + a / size(c)
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -mean(sum(f.q[n, c] * f.logp[n, c], over=c), over=n)
    return f.loss


@op
def weighted_one_hot(f, z: tensor[n, c], y: index(c)[n], w: constant[c]):
    """Cross-entropy with class weights, by a table."""
    f.hot[n, c] = where(eq(c, y[n]), w[c], 0)
    f.logp[n, c] = z[n, c] - log(sum(exp(z[n, c]), over=c))
    f.loss[()] = -sum(f.hot[n, c] * f.logp[n, c], over=(n, c)) / sum(f.hot[n, c], over=(n, c))
    return f.loss


@op
def brier_by_a_table(f, z: tensor[n, c], y: index(c)[n]):
    """Brier's score and the label's logit, by a table."""
    f.hot[n, c] = where(eq(c, y[n]), 1, 0)
    f.loss[()] = sum((z[n, c] - f.hot[n, c]) ** 2, over=(n, c)) + sum(f.hot[n, c] * z[n, c], over=(n, c))
    return f.loss


@op
def cross_entropy_of_probabilities(f, p_: tensor[n], t_: constant[n]):
    """Cross-entropy of probabilities with a small number added."""
    f.loss[()] = -mean(t_[n] * log(p_[n] + 1e-8) + (1 - t_[n]) * log(1 - p_[n] + 1e-8), over=n)
    return f.loss


@op
def quantile_huber(f, x: tensor[n], d: scalar, tau: scalar = 0.3):
    """Huber's loss, its sides weighed by a quantile."""
    f.w[n] = abs(tau - where(x[n] < 0, 1, 0))
    f.y[n] = f.w[n] * where(abs(x[n]) <= d, x[n] ** 2 / (2 * d), abs(x[n]) - d / 2)
    return f.y


@op
def bisquare(f, x: tensor[n], d: scalar):
    """Tukey's loss, which is constant beyond a distance."""
    f.r[n] = x[n] / d
    f.y[n] = where(abs(f.r[n]) <= 1, d**2 / 6 * (1 - (1 - f.r[n] ** 2) ** 3), d**2 / 6)
    return f.y


@op
def smooth_hinge(f, x: tensor[n]):
    """A hinge with a parabola at its corner."""
    f.y[n] = where(x[n] >= 1, 0, where(x[n] <= 0, 1 / 2 - x[n], (1 - x[n]) ** 2 / 2))
    return f.y


@op
def modified_huber_hinge(f, x: tensor[n]):
    """A squared hinge that is linear far out."""
    f.y[n] = where(x[n] >= -1, maximum(0, 1 - x[n]) ** 2, -4 * x[n])
    return f.y


@op
def margins_of_classes(f, z: tensor[n, c], y: index(c)[n]):
    """The hinge loss of several classes: all but the label's own."""
    f.loss[()] = mean(sum(where(ne(c, y[n]), relu(1 + z[n, c] - z[n, y[n]]), 0), over=c), over=n)
    return f.loss


@op
def rotated_label(f, z: tensor[n, c], y: index(c)[n], cosine: scalar = 0.9, sine: scalar = 0.4):
    """The label's exponential turned by an angle, over the sum of squares."""
    f.u[n, c] = exp(z[n, c])
    f.l[n, c] = where(eq(y[n], c), cosine * f.u[n, c] - sine * sqrt(f.u[n, c] ** 2 + 1), f.u[n, c])
    f.o[n, c] = f.l[n, c] / sum(f.l[n, c] ** 2, over=c)
    return f.o


@op
def rooted_label(f, z: tensor[n, c], y: index(c)[n], k: scalar = 0.3):
    """Cross-entropy where the label's own logit is a root of its square."""
    f.l[n, c] = where(eq(y[n], c), sqrt(z[n, c] ** 2 + k), z[n, c])
    f.m[n] = amax(f.l[n, c], over=c)
    f.loss[()] = mean(f.m[n] + log(sum(exp(f.l[n, c] - f.m[n]), over=c)) - z[n, y[n]], over=n)
    return f.loss


@op
def spread_labels_with_ignored(f, z: tensor[n, c], y: index(c)[n], ignore: scalar = -100):
    """Label smoothing that ignores labels, each step an equation."""
    f.m[n] = amax(z[n, c], over=c)
    f.lse[n] = f.m[n] + log(sum(exp(z[n, c] - f.m[n]), over=c))
    f.picked[n] = z[n, y[n]]
    f.nll[n] = f.lse[n] - f.picked[n]
    f.spread[n] = f.lse[n] - mean(z[n, c], over=c)
    f.each[n] = where(ne(y[n], ignore), 0.9 * f.nll[n] + 0.1 * f.spread[n], 0)
    f.loss[()] = sum(f.each[n], over=n) / sum(where(ne(y[n], ignore), 1, 0), over=n)
    return f.loss


@op
def next_token(f, z: tensor[n, t, v], y: index(v)[n, t], skip: scalar = -100):
    """Cross-entropy of the next place's label, some of them skipped."""
    f.lse[n, t] = log(sum(exp(z[n, t, v]), over=v))
    nll = f.lse[n, t] - z[n, t, y[n, t + 1]]
    f.loss[()] = sum(where((t + 1 < size(t)) & ne(y[n, t + 1], skip), nll, 0), over=(n, t)) / size(n)
    return f.loss


@op
def path_of_labels(f, em: tensor[n, t, c], tr: tensor[c, c], y: index(c)[n, t]):
    """The score of one labelling of a chain (Lafferty, McCallum & Pereira, 2001)."""
    f.e[n] = sum(em[n, t, y[n, t]], over=t)
    f.s[n] = f.e[n] + sum(where(t > 0, tr[y[n, t - 1], y[n, t]], 0), over=t)
    return f.s


@op
def cross_entropy_of_two_softmaxes(f, a: tensor[n, c], b: tensor[n, c]):
    """Cross-entropy of one softmax against another, both learned."""
    f.lp[n, c] = a[n, c] - log(sum(exp(a[n, c]), over=c))
    f.lq[n, c] = b[n, c] - log(sum(exp(b[n, c]), over=c))
    f.loss[()] = -sum(exp(f.lp[n, c]) * f.lq[n, c], over=(n, c))
    return f.loss


@op
def supervised_contrast(f, z: tensor[i, d], y: index(c)[i], classes: length(c)):
    """Each row contrasted with all others, for those of its class."""
    f.s[i, j] = sum(z[i, d] * z[j, d], over=d)
    f.logp[i, j] = f.s[i, j] - log(sum(where(ne(i, j), exp(f.s[i, j]), 0), over=j))
    f.loss[()] = -mean(sum(where(eq(y[i], y[j]), f.logp[i, j], 0), over=j), over=i)
    return f.loss


@op
def triplet(f, x: tensor[n, d], p: tensor[n, d], q: tensor[n, d], margin: scalar = 1.0):
    """The triplet loss by distances with a small number under their roots."""
    f.u[n] = sqrt(sum((x[n, d] - p[n, d]) ** 2, over=d) + 1e-6)
    f.v[n] = sqrt(sum((x[n, d] - q[n, d]) ** 2, over=d) + 1e-6)
    f.loss[()] = mean(relu(f.u[n] - f.v[n] + margin), over=n)
    return f.loss


@op
def squared_hinge_and_hinge(f, s: tensor[n, d], t: constant[n, d]):
    """A hinge and its square."""
    f.m[n, d] = maximum(1 - t[n, d] * s[n, d], 0)
    f.loss[()] = mean(f.m[n, d] ** 2 + f.m[n, d], over=(n, d))
    return f.loss


@op
def entropy_or_nothing(f, p: tensor[n, d]):
    """A value times its logarithm, 0 where it is not above 0."""
    f.y[n, d] = where(p[n, d] > 0, p[n, d] * log(p[n, d]), 0)
    return f.y


@op
def mutual_information(f, joint: tensor[n, c]):
    """The mutual information of a joint table, cells of 0 left out."""
    f.a[n] = sum(joint[n, c], over=c)
    f.b[c] = sum(joint[n, c], over=n)
    f.i[n, c] = joint[n, c] * (log(joint[n, c]) - log(f.a[n]) - log(f.b[c]))
    f.loss[()] = sum(where(joint[n, c] > 0, f.i[n, c], 0), over=(n, c))
    return f.loss


@op
def jensen_shannon(f, x: tensor[n, c], z: tensor[n, c]):
    """The divergence of two tables from their mean."""
    f.m[n, c] = (x[n, c] + z[n, c]) / 2
    first = where(x[n, c] > 0, x[n, c] * (log(x[n, c]) - log(f.m[n, c])), 0)
    f.h[n] = sum(first + where(z[n, c] > 0, z[n, c] * (log(z[n, c]) - log(f.m[n, c])), 0), over=c) / 2
    return f.h


@op
def uniformity_on_a_sphere(f, x: tensor[n, d]):
    """The logarithm of the mean of a kernel of all pairs."""
    f.loss[()] = log(mean(exp(-2 * sum((x[i, d] - x[j, d]) ** 2, over=d)), over=(i, j)))
    return f.loss


@op
def overlap_of_intervals(f, a: tensor[n], b: tensor[n], c: tensor[m], e: tensor[m]):
    """How long the overlap of any two intervals is."""
    f.y[n, m] = maximum(minimum(b[n], e[m]) - maximum(a[n], c[m]), 0)
    return f.y


@op
def pinball(f, x: tensor[n, d], tau: constant[d]):
    """The quantile loss by a maximum of two slopes."""
    f.y[n, d] = maximum(tau[d] * x[n, d], (tau[d] - 1) * x[n, d])
    return f.y


@op
def ranked_pairs_in_order(f, s: tensor[i], y: constant[i]):
    """A logistic loss of all pairs that should be in order (Burges et al., 2005)."""
    f.loss[()] = sum(where(y[i] > y[j], softplus(s[j] - s[i]), 0), over=(i, j))
    return f.loss


@op
def strict_margin_of_gains(f, p: tensor[n], q: tensor[n], u: constant[n], v: constant[n]):
    """How much more one log-probability gained on its reference than another, squared."""
    f.y[n] = ((p[n] - u[n]) - (q[n] - v[n])) ** 2
    return f.y


@op
def z_regularised_loss(f, z: tensor[i, r], y: index(r)[i], u: index(r)[i], w: tensor[i]):
    """Cross-entropy with the square of its normaliser, and scores read at another index."""
    f.top[i] = amax(z[i, r], over=r)
    f.lse[i] = log(sum(exp(z[i, r] - f.top[i]), over=r)) + f.top[i]
    f.loss[()] = mean(f.lse[i] ** 2 + f.lse[i] - z[i, y[i]], over=i)
    f.side[()] = sum(w[i] * z[i, u[i]], over=i)
    return f.loss, f.side


@op
def paired_rows_with_a_temperature(f, a: tensor[n, d], b: tensor[m, d], temperature: tensor[()]):
    """The loss of paired rows, with a temperature that is learned (Radford et al., 2021)."""
    f.s[n, m] = sum(a[n, d] * b[m, d], over=d) / temperature[()]
    f.top[n] = amax(f.s[n, m], over=m)
    f.u[n, m] = exp(f.s[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.loss[()] = -mean(log(f.p[n, n]), over=n)
    return f.loss


@op
def paired_rows_with_a_scale(f, a: tensor[n, d], b: tensor[m, d], scale: tensor[()]):
    """The loss of paired rows, with a scale that is learned and may be 0."""
    f.s[n, m] = scale[()] * sum(a[n, d] * b[m, d], over=d)
    f.top[n] = amax(f.s[n, m], over=m)
    f.u[n, m] = exp(f.s[n, m] - f.top[n])
    f.p[n, m] = f.u[n, m] / sum(f.u[n, m], over=m)
    f.loss[()] = -mean(log(f.p[n, n]), over=n)
    return f.loss


@op
def one_positive_of_many(f, pos: tensor[n], neg: tensor[n, c]):
    """InfoNCE (van den Oord, Li & Vinyals, 2018)."""
    f.loss[n] = -log(exp(pos[n]) / (exp(pos[n]) + sum(exp(neg[n, c]), over=c)))
    return f.loss


HOSTILE = {
    "logits_by_maximum": "scale 30, scale 300, mask",
    "logits_by_minimum": "scale 30, scale 100, mask",
    "huber_by_its_parts": "ties, scale 1e4",
    "negative_binomial": "scale 30",
    "softmax_entropy": "scale 30, scale 300, nearly equal",
    "softened_targets": "scale 30, scale 300",
    "divergence_at_a_temperature": "scale 30, nearly equal",
    "two_mixed_labels": "scale 30, scale 300",
    "mean_cubed_error": "ties, scale 1e4",
    "generalised_cross_entropy": "scale 30",
    "pairwise_sigmoid_loss": "scale 30, nearly equal",
    "distilled_beside_a_label": "scale 30",
    "squared_odds": "scale 30, mask",
    "mixture_of_losses": "scale 30, scale 300",
    "ranking_likelihood": "scale 30, scale 300",
    "margin_of_own_logit": "scale 30, scale 300",
    "soft_targets_in_one_line": "scale 30, scale 100",
    "mixture_of_logistics": "scale 30, far apart",
    "one_positive_among_negatives": "scale 30, scale 100",
    "balanced_log_sum": "scale 30, scale 100",
    "proportional_hazards": "scale 30, scale 100, ties",
    "share_of_a_kind": "scale 30, mask",
    "counted_label": "scale 30, scale 100",
    "masked_entropy": "scale 30, mask",
    "cross_entropy_at_a_temperature": "scale 30",
    "log_log_link": "scale 1e-4",
    "preference_of_two": "scale 30, scale 300",
    "focal_of_a_choice": "scale 30, mask",
    "log_of_one_share_of_two": "scale 30, scale 100",
    "log_cosh_in_steps": "scale 30, scale 100, scale 1e-4",
    "focal_of_classes": "scale 30, scale 300",
    "ratio_less_its_logarithm": "nearly equal, scale 1e-4",
    "zero_inflated_counts": "scale 30, mask",
    "signs_of_pairs": "scale 30, scale 300",
    "smoothed_one_hot": "scale 30, scale 100",
    "weighted_one_hot": "scale 30",
    "brier_by_a_table": "ties, nearly equal",
    "cross_entropy_of_probabilities": "mask",
    "quantile_huber": "ties, scale 30",
    "bisquare": "ties, scale 30",
    "smooth_hinge": "ties, scale 30",
    "modified_huber_hinge": "ties, scale 30",
    "margins_of_classes": "ties, scale 30",
    "rotated_label": "scale 30",
    "rooted_label": "scale 30, scale 300",
    "spread_labels_with_ignored": "scale 30, scale 300",
    "next_token": "scale 30, scale 100",
    "path_of_labels": "scale 1e4",
    "cross_entropy_of_two_softmaxes": "scale 30, scale 100",
    "supervised_contrast": "nearly equal",
    "triplet": "far apart, nearly equal, far from zero",
    "squared_hinge_and_hinge": "ties, scale 30",
    "entropy_or_nothing": "ties, zeros",
    "mutual_information": "ties",
    "jensen_shannon": "ties, nearly equal",
    "uniformity_on_a_sphere": "far apart, nearly equal",
    "overlap_of_intervals": "ties, far apart",
    "pinball": "ties, scale 1e4",
    "ranked_pairs_in_order": "scale 30, ties",
    "strict_margin_of_gains": "nearly equal, far from zero",
    "z_regularised_loss": "scale 30",
    "paired_rows_with_a_temperature": "scale 30, scale 300",
    "paired_rows_with_a_scale": "scale 30, scale 300",
    "one_positive_of_many": "scale 30, scale 300",
}
