"""Roots of slopes: where a function of a positive number is largest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nmar.arrays import Array

__all__ = ["log_root"]


def log_root(slope: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
    """Return x > 0 where a slope crosses zero from above: Newton in log x, kept inside a bracket.

    `slope(x)` returns the slope and its derivative with respect to x. Where Newton's step is no use, the
    search moves uphill by doubling strides until the root is bracketed, and bisects from then on.
    """
    z = np.log(np.clip(start, 1e-30, 1e30))
    low, high, stride = np.full_like(z, -np.inf), np.full_like(z, np.inf), 1.0
    for _ in range(100):
        x = np.exp(z)
        value, derivative = slope(x)
        rising = value > 0
        low, high = np.where(rising, z, low), np.where(rising, high, z)
        flat = derivative * x >= 0
        newton = np.where(flat, np.inf, -value / np.where(flat, 1.0, derivative * x))
        done = np.abs(newton) <= 1e-13
        useful = done | ((z + newton > low) & (z + newton < high) & (np.abs(newton) <= 2 * stride))
        bracketed = np.isfinite(high - low)
        middle = 0.5 * (np.where(bracketed, high, z) - np.where(bracketed, low, z))
        away = np.where(bracketed, np.where(rising, middle, -middle), np.where(rising, stride, -stride))
        z = np.clip(z + np.where(useful, np.where(useful, newton, 0.0), away), -100.0, 100.0)
        stride *= 2
        if done.all():
            break
    return np.exp(z)
