"""Brute force on tiny problems: count posterior, bound and predictive density from their definitions.

Nothing here uses the library's computations: records of a law and a state are only read, counts are
enumerated n = 1 … ``COUNTS`` with log-sum-exp, sums over cells and factors are plain loops. Clarity over
speed. Section numbers are those of the theory page (MATH.md): 2 and 14 the bound, 16 the Gaussian,
20 the control, 22 prediction, 23 thinned counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, xlogy

COUNTS = 400
FLOOR = 0.05
DISPERSION_SHAPE, DISPERSION_RATE = 1.01, 1.0
EFFECT_SHAPE = 0.3


# --- tables over n ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """φ1(n), δ(n) and φ2(n) for n = 1 … N."""

    scale: np.ndarray
    shift: np.ndarray
    spread: np.ndarray


def table(linkage, size=COUNTS):
    """The three tables of a linkage, written out from the definitions of 4."""
    n = np.arange(1, size + 1)
    c = getattr(linkage, "c", None) or 0.0
    spread = {
        "ignorable": lambda: np.ones(size),
        "linear": lambda: np.maximum(1 - c + c * (-1.0) ** (n + 1), FLOOR),
        "exponential": lambda: np.maximum(1 - c + c * n, FLOOR),
        "compound": lambda: n.astype(float),
        "geometric": lambda: np.maximum(np.exp(c * (n - 1)), FLOOR),
        "free": lambda: entries(linkage, linkage.values, size),
    }[linkage.name]()
    scale, shift = entries(linkage, linkage.scale or (1.0,), size), entries(linkage, linkage.shift or (0.0,), size)
    if linkage.name == "compound" and linkage.mean == "scale":
        scale = n.astype(float)
    return Table(scale, shift, spread)


def entries(linkage, values, size):
    """The entry of a table that each count reads: of its bin where a thinned free table has bins of several counts."""
    found = []
    for e in range(1, size + 1):
        place = e - 1
        if linkage.name == "free":  # the last bin that does not begin after e
            place = max(b for b, start in enumerate(linkage.starts) if start <= e)
        found.append(values[min(place, len(values) - 1)])
    return np.array(found)


def thinning_of(linkage):
    """s: events for each recorded one; 1 where the value does not depend on the count (23)."""
    return 1.0 if linkage.name == "ignorable" and linkage.mean is None else float(linkage.thinning)


def log_density(family, y, first, second, dispersion, tables):
    """f(n) = E[log p(y | n)] for every n.

    ``first``, ``second``: E[μ] and E[μ²] of the Gaussian y ~ N(φ1 μ + δ, φ2 σ²); else E[θ] and E[Ψ(θ)].
    """
    if family == "gaussian":
        variance = dispersion * tables.spread
        mean = tables.shift + tables.scale * first
        away = (y - mean) ** 2 + tables.scale**2 * (second - first**2)
        return -0.5 * np.log(2 * pi * variance) - 0.5 * away / variance
    x = dispersion * tables.spread
    base = {
        "poisson": lambda: y * np.log(x) - lgamma(y + 1),
        "gamma": lambda: (x - 1) * log(y) - gammaln(x),
        "inverse_gaussian": lambda: np.log(x) - 0.5 * np.log(2 * pi * y**3) - x**2 / (2 * y),
        "negative_binomial": lambda: gammaln(y + x) - gammaln(x) - lgamma(y + 1),
        "binomial": lambda: _log_choose(x, y),
    }[family]()
    return y * first - x * second + base


def _log_choose(trials, y):
    out = np.full(len(trials), -np.inf)
    can = trials >= y
    out[can] = gammaln(trials[can] + 1) - lgamma(y + 1) - gammaln(trials[can] - y + 1)
    return out


# --- the count posterior ------------------------------------------------------------------------------------


def log_constants(size, thinning=1.0):
    """log((s^e − (s−1)^e)/e!), e = 1 … N: what multiplies g^e (23); −log n! without thinning."""
    e = np.arange(1, size + 1)
    return e * log(thinning) + np.log1p(-((1.0 - 1.0 / thinning) ** e)) - gammaln(e + 1)


def count_posterior(log_rate, density, thinning=1.0):
    """log Z and q(e) ∝ g^e (s^e − (s−1)^e)/e! exp f(e), e = 1 … N."""
    terms = np.arange(1, len(density) + 1) * log_rate + log_constants(len(density), thinning) + density
    log_z = logsumexp(terms)
    return float(log_z), np.exp(terms - log_z)


def truncated_poisson(rate, size=COUNTS, thinning=1.0):
    """P(e) of an observed cell; of a zero-truncated Poisson without thinning."""
    return count_posterior(np.log(rate), np.zeros(size), thinning)[1]


def log_truncation(rate, size=COUNTS, thinning=1.0):
    """log(e^{sg} − e^{(s−1)g}) as a sum over e ≥ 1; log(e^g − 1) without thinning."""
    return count_posterior(np.log(rate), np.zeros(size), thinning)[0]


# --- what is read from a state ------------------------------------------------------------------------------


def gamma_mean(factor):
    """E[u]."""
    return np.asarray(factor.alpha, float) / np.asarray(factor.beta, float)


def gamma_log_mean(factor):
    """E[log u]."""
    return digamma(np.asarray(factor.alpha, float)) - np.log(np.asarray(factor.beta, float))


def is_normal(law):
    """Whether the data model has normal lines (else gamma lines)."""
    return law.data.family == "gaussian"


def covariance(law, side, line):
    """Covariance matrix of one normal line, from variances or from its packed upper triangle."""
    d = side.mean.shape[1]
    if law.data.diagonal:
        return np.diag(np.asarray(side.spread[line], float))
    out, at = np.zeros((d, d)), 0
    for a in range(d):
        for b in range(a, d):
            out[a, b] = out[b, a] = side.spread[line, at] / (1.0 if a == b else np.sqrt(2.0))
            at += 1
    return out


def normal_moments(law, state, i, j):
    """E[μ] and E[μ²] of a cell: Var μ = a'S_b a + b'S_a b + tr(S_a S_b) (16)."""
    rows, cols = (side.data for side in state.sides)
    a, b = np.asarray(rows.mean[i], float), np.asarray(cols.mean[j], float)
    cov_a, cov_b = covariance(law, rows, i), covariance(law, cols, j)
    mean = float(a @ b)
    variance = float(a @ cov_b @ a + b @ cov_a @ b + np.trace(cov_a @ cov_b))
    return mean, mean**2 + variance


NEVER = -1e4  # log of a level that a line does not have


def rate_parts(law, state, i, j):
    """E log of every term that the rate of a cell is the sum of: u_k v_k, and with covariates of the pattern those of
    its effects and of each product of two levels."""
    return np.concatenate([log for log, _ in rate_terms(law, state, i, j)])


def rate_terms(law, state, i, j):
    """(E log, E) of the terms of Λ_ij, block by block, from the factors' and effects' own q and the levels as given."""
    K = law.pattern.factors
    lines = [side.pattern.weights.take(line) for side, line in zip(state.sides, (i, j), strict=True)]
    u, v = (type(w)(w.alpha[:K], w.beta[:K]) for w in lines)
    terms = [(gamma_log_mean(u) + gamma_log_mean(v), gamma_mean(u) * gamma_mean(v))]
    if law.pattern.designs is None:
        return terms
    levels = [None if d is None else d.x[line] for d, line in zip(law.pattern.designs, (i, j), strict=True)]
    logs = [None if x is None else np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), NEVER) for x in levels]
    for axis in (0, 1):
        if levels[axis] is not None:
            q = effects(law, state, 1 - axis).take((i, j)[1 - axis])
            terms.append((logs[axis] + gamma_log_mean(q), levels[axis] * gamma_mean(q)))
    if state.shared.effects.cross is not None:
        lead, other = law.lead, 1 - law.lead
        q = state.shared.effects.cross
        log = logs[lead][:, None] + gamma_log_mean(q) + logs[other]
        terms.append((log.ravel(), (levels[lead][:, None] * gamma_mean(q) * levels[other]).ravel()))
    return terms


def effects(law, state, axis):
    """q of the effects of the other axis's levels on lines of ``axis``: they come before the leading axis's second copy
    of its levels, and after its first."""
    sizes = [0 if d is None else d.x.shape[1] for d in law.pattern.designs]
    before = law.pattern.factors + (sizes[axis] if axis == law.lead else 0)
    weights, place = state.sides[axis].pattern.weights, slice(before, before + sizes[1 - axis])
    return type(weights)(weights.alpha[:, place], weights.beta[:, place])


def product_parts(state, i, j):
    """E log a_k + E log b_k and E[λ] of a cell of a Poisson factorization."""
    rows, cols = (side.data.weights for side in state.sides)
    a, b = rows.take(i), cols.take(j)
    return gamma_log_mean(a) + gamma_log_mean(b), float(gamma_mean(a) @ gamma_mean(b))


def data_moments(law, state, i, j, split=None):
    """The two moments that f(n) needs; ``split`` (R,) holds the allocation of y over components."""
    if is_normal(law):
        return normal_moments(law, state, i, j)
    logs, mean = product_parts(state, i, j)
    if split is None:
        return float(logsumexp(logs)), mean
    return float(split @ logs - xlogy(split, split).sum()), mean


# --- the bound ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Distributions of the latent variables of the observed cells, held as arguments of the bound."""

    counts: np.ndarray  # (cells, N) q(n) of the data's count
    pattern_counts: np.ndarray  # (cells, N) q(n) of the pattern's count: the same unless control
    share: np.ndarray  # (cells, K) ϕ, allocation of n over factors
    split: np.ndarray  # (cells, R) allocation of y over components; (cells, 0) for the Gaussian
    log_z: np.ndarray  # (cells,) what the E-step's normaliser was: the collapsed bound's first term

    @property
    def mean(self):
        """E[n] of the data's count."""
        return self.counts @ np.arange(1, self.counts.shape[1] + 1)


def triplets(cells):
    """(i, j, y) of every observed cell."""
    return list(zip(cells.row_index.tolist(), cells.col_index.tolist(), cells.values.tolist(), strict=True))


def expectations(law, state, cells, size=COUNTS):
    """The E-step: the optimal q(n), ϕ and splits of every observed cell."""
    tables, shared, s = table(state.shared.linkage, size), state.shared, thinning_of(state.shared.linkage)
    counts, pattern_counts, share, split, log_z = [], [], [], [], []
    for i, j, y in triplets(cells):
        logs = rate_parts(law, state, i, j)
        log_rate = logsumexp(logs)
        density = log_density(law.data.family, y, *data_moments(law, state, i, j), shared.dispersion, tables)
        if law.control:
            own_log_z, q = count_posterior(log(shared.rate), density, s)
            pattern_log_z, pattern_q = count_posterior(log_rate, np.zeros(size))
            value = own_log_z - log_truncation(shared.rate, size, s) + pattern_log_z
        else:
            value, q = count_posterior(log_rate, density, s)
            pattern_q = q
        counts.append(q)
        pattern_counts.append(pattern_q)
        share.append(np.exp(logs - log_rate))
        log_z.append(value)
        parts = np.empty(0) if is_normal(law) else product_parts(state, i, j)[0]
        split.append(np.exp(parts - logsumexp(parts)) if parts.size else parts)
    return Held(*(np.array(a) for a in (counts, pattern_counts, share, split, log_z)))


def crossing_weights(law, state, held, cell, y):
    """What a cell passes to the data model (6, 16): (ωt, ω) of the Gaussian, (y, κE[φ]) otherwise."""
    tables, q = table(state.shared.linkage, held.counts.shape[1]), held.counts[cell]
    if not is_normal(law):
        return y, state.shared.dispersion * float(q @ tables.spread)
    over = 1.0 / (tables.spread * state.shared.dispersion)
    weight = float(q @ (tables.scale**2 * over))
    return y * float(q @ (tables.scale * over)) - float(q @ (tables.scale * tables.shift * over)), weight


def exposures(law, state):
    """How often a missing and an observed cell are paid for: 1 and s (23).

    Where values do not move the pattern (control, ignorable) each counts once.
    """
    linkage = state.shared.linkage
    if law.control or (linkage.name == "ignorable" and linkage.mean is None):
        return 1.0, 1.0
    return 1.0, thinning_of(linkage)


def missing_cost(law, state, cells, hidden=()):
    """Σ E[Λ_ij] over all cells but the hidden ones, cell by cell, each as often as it is paid for."""
    rows, cols = (gamma_mean(side.pattern.weights) for side in state.sides)
    missing, observed = exposures(law, state)
    seen = {(i, j) for i, j, _ in triplets(cells)}
    total = 0.0
    for i in range(len(rows)):
        for j in range(len(cols)):
            if (i, j) not in hidden:
                rate = float(rows[i] @ cols[j])
                if law.pattern.designs is not None:
                    rate = sum(float(mean.sum()) for _, mean in rate_terms(law, state, i, j))
                total += (observed if (i, j) in seen else missing) * rate
    return total


def held_bound(law, state, cells, held, hidden=()):
    """L of 14: the bound with q(n) and the allocations as arguments (control: 20, two separate counts)."""
    shared, size = state.shared, held.counts.shape[1]
    tables, n = table(shared.linkage, size), np.arange(1, size + 1)
    s = thinning_of(shared.linkage)
    constants, pattern_constants = log_constants(size, s), log_constants(size, 1.0 if law.control else s)
    total = 0.0
    for p, (i, j, y) in enumerate(triplets(cells)):
        q, pattern_q, share = held.counts[p], held.pattern_counts[p], held.share[p]
        split = held.split[p] if held.split[p].size else None
        moments = data_moments(law, state, i, j, split)
        density = log_density(law.data.family, y, *moments, shared.dispersion, tables)
        total += float(q @ np.where(q > 0, density, 0.0))
        total += float(pattern_q @ pattern_constants) - xlogy(pattern_q, pattern_q).sum()
        total += float(pattern_q @ n) * float(share @ rate_parts(law, state, i, j) - xlogy(share, share).sum())
        if law.control:
            total += float(q @ (n * log(shared.rate) + constants)) - xlogy(q, q).sum()
            total -= log_truncation(shared.rate, size, s)
    return total - missing_cost(law, state, cells, hidden) - divergences(law, state) + log_priors(law, state)


def collapsed_bound(law, state, cells, hidden=(), size=COUNTS):
    """The bound of 2, with q(n) and the allocations at their optimum."""
    found = expectations(law, state, cells, size)
    rest = -missing_cost(law, state, cells, hidden) - divergences(law, state) + log_priors(law, state)
    return float(found.log_z.sum()) + rest


def gamma_divergence(factor, shape, rate, log_rate):
    """KL of gamma factors from Ga(shape, R), where R enters by E[R] and E[log R] (14), entry by entry."""
    rates, log_rates = (np.broadcast_to(x, factor.alpha.shape) for x in (rate, log_rate))
    total = 0.0
    for at in np.ndindex(factor.alpha.shape):
        a, b = float(factor.alpha[at]), float(factor.beta[at])
        log_mean = float(digamma(a)) - log(b)
        total += -lgamma(a) + a * log(b) + (a - 1) * log_mean - a
        total += lgamma(shape) - shape * log_rates[at] - (shape - 1) * log_mean + rates[at] * a / b
    return total


def hierarchy_divergence(weights, scale, shape, scale_shape, scale_rate):
    """KL of gamma lines and of the gamma rates of their priors."""
    rate, log_rate = gamma_mean(scale)[:, None], gamma_log_mean(scale)[:, None]
    own = gamma_divergence(weights, shape, rate, log_rate)
    return own + gamma_divergence(scale, scale_shape, scale_rate, log(scale_rate))


def normal_divergence(law, side, axis, priors):
    """KL of normal lines from their independent normal priors, over the free coordinates."""
    free = np.flatnonzero(law.data.axes[axis].free)
    mean, variance = priors.mean[axis][free], priors.variance[axis][free]
    total = 0.0
    for line in range(len(side.mean)):
        cov = covariance(law, side, line)[np.ix_(free, free)]
        away = np.asarray(side.mean[line], float)[free] - mean
        total += 0.5 * float(np.sum((np.diag(cov) + away**2) / variance) - len(free))
        total += 0.5 * float(np.sum(np.log(variance)) - np.linalg.slogdet(cov)[1])
    return total


def divergences(law, state):
    """All KL terms of a state."""
    total = 0.0
    for axis, side in enumerate(state.sides):
        p, weights = law.pattern, side.pattern.weights
        factors = type(weights)(weights.alpha[:, : p.factors], weights.beta[:, : p.factors])
        total += hierarchy_divergence(factors, side.pattern.activity, p.shape, p.activity_shape, p.activity_rate)
        if p.designs is not None:
            rate = EFFECT_SHAPE / state.shared.effects.levels[axis]
            total += gamma_divergence(effects(law, state, axis), EFFECT_SHAPE, rate, np.log(rate))
        if is_normal(law):
            total += normal_divergence(law, side.data, axis, state.shared.data)
        else:
            d = law.data
            total += hierarchy_divergence(side.data.weights, side.data.scale, d.shape, d.scale_shape, d.scale_rate)
    return total + cross_divergence(state)


def cross_divergence(state):
    """KL of ω, one for each pair of levels."""
    shared = state.shared.effects
    if shared is None or shared.cross is None:
        return 0.0
    rate = EFFECT_SHAPE / shared.cross_level
    return gamma_divergence(shared.cross, EFFECT_SHAPE, rate, log(rate))


def log_priors(law, state):
    """Log priors of the shared parameters, each up to the constant that makes its maximum 0 (4, 15)."""
    linkage, dispersion = state.shared.linkage, state.shared.dispersion
    total = 0.0
    if law.data.family not in ("poisson", "binomial"):
        total -= (DISPERSION_SHAPE + 1) * log(dispersion) + DISPERSION_RATE / dispersion
    if linkage.learn and hasattr(linkage, "c"):
        total -= 0.5 * (linkage.c / linkage.prior_width) ** 2
    if linkage.learn and linkage.name == "free":
        for before, after in zip(linkage.values[:-1], linkage.values[1:], strict=True):
            total += linkage.strength * (log(before) - log(after) - before / after + 1.0)
    if linkage.mean == "shift":
        for before, after in zip(linkage.shift[:-1], linkage.shift[1:], strict=True):
            total -= 0.5 * ((after - before) / linkage.shift_width) ** 2
    if linkage.mean == "scale" and linkage.scale:
        total -= 0.5 * sum(((v - 1.0) / linkage.scale_width) ** 2 for v in linkage.scale)
    return total


# --- prediction ---------------------------------------------------------------------------------------------


def predictive(law, state, i, j, y, plugin=False):
    """log p(y | observed), E[y | observed] and Var[y | observed] of one cell by enumeration (22)."""
    shared = state.shared
    rate = shared.rate if law.control else predicted_rate(state, i, j, plugin)
    prior, tables = truncated_poisson(rate, thinning=thinning_of(shared.linkage)), table(shared.linkage)
    if is_normal(law):
        mean, second = normal_moments(law, state, i, j)
        noise = 0.0 if plugin else tables.scale**2 * (second - mean**2)
        at = shared.center + shared.scale * (tables.scale * mean + tables.shift)  # in the units of y
        spread = shared.scale**2 * (shared.dispersion * tables.spread + tables.scale**2 * (second - mean**2))
        law_n = shared.scale**2 * (shared.dispersion * tables.spread + noise)
        logs = -0.5 * np.log(2 * pi * law_n) - 0.5 * (y - at) ** 2 / law_n
    else:
        mean, variance = product_rate(state, i, j)
        at = tables.spread * mean
        spread = at + tables.spread**2 * variance
        if plugin:
            logs = y * np.log(at) - at - lgamma(y + 1)
        else:
            size = mean**2 / variance
            logs = gammaln(y + size) - lgamma(size) - lgamma(y + 1)
            logs = logs + size * np.log(size / (size + at)) + y * np.log(at / (size + at))
    overall = float(prior @ at)
    moments = overall, float(prior @ (spread + (at - overall) ** 2))
    return float(logsumexp(np.log(np.maximum(prior, 1e-320)) + logs)), *moments


def predicted_rate(state, i, j, plugin):
    """E Λ where plugged in, else E[Λ | n ≥ 1] of a gamma Λ and its Poisson count n, by the trapezoidal rule."""
    mean, variance = product_moments(*(side.pattern.weights for side in state.sides), i, j)
    if plugin:
        return mean
    x = np.linspace(-60.0, 12.0, 14_401)
    shape = mean**2 / variance
    logs = shape * x - np.exp(x) * mean / variance + np.log(-np.expm1(-np.exp(x)))
    weight = np.exp(logs - logs.max())
    return float(weight @ np.exp(x) / weight.sum())


def product_rate(state, i, j):
    """E[λ] and Var[λ] of a cell of a Poisson factorization."""
    return product_moments(*(side.data.weights for side in state.sides), i, j)


def product_moments(rows, cols, i, j):
    """Mean and variance of Σ_k a_k b_k of gamma lines: Σ_k E a E b and Σ_k (E[a²]E[b²] − (E[a]E[b])²)."""
    a, b = gamma_mean(rows)[i], gamma_mean(cols)[j]
    a2 = a**2 + (np.asarray(rows.alpha) / np.asarray(rows.beta) ** 2)[i]
    b2 = b**2 + (np.asarray(cols.alpha) / np.asarray(cols.beta) ** 2)[j]
    return float(a @ b), float(np.sum(a2 * b2 - (a * b) ** 2))
