"""Polynomial chaos with derivatives: functions on a box as sums of products of Legendre polynomials.

    y(s) = sum_a w_a prod_j P_{a_j}(s_j),    s in [-1, 1]^m,    |a| <= p,

fitted by least squares to values and first derivatives at samples (gradient-enhanced; Blatman, Sudret 2011, J. Comput. Phys. 230;
Peng, Hampton, Doostan 2016, J. Comput. Phys. 310).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial import legendre

from geosim.arrays import Floats, Ints

ROWS_PER_TERM = 1.5  # values, and derivatives, of one output over the weights that are fitted to them: fewer overfit


@dataclass(frozen=True)
class PolynomialChaos:
    """Weights of products of Legendre polynomials.

    Parameters
    ----------
    exponents
        Degrees of the factors of every term, (t, m).
    weights
        Of the terms in every output, (t, outputs).
    """

    exponents: Ints
    weights: Floats

    @cached_property
    def degree(self) -> int:
        """Largest total degree."""
        return int(self.exponents.sum(axis=1).max())

    @cached_property
    def by_powers(self) -> tuple[Floats, Floats]:
        """Coefficients of s^k in P_i and in its derivative, (degree + 1, degree + 1) each, a column a polynomial."""
        size = self.degree + 1
        value, slope = np.zeros((size, size)), np.zeros((size, size))
        for i in range(size):
            powers = legendre.leg2poly(np.eye(size)[i])
            value[: len(powers), i] = powers
            slope[: len(powers) - 1, i] = powers[1:] * np.arange(1, len(powers))
        return value, slope

    def factors(self, s: Floats) -> Floats:
        """Return the factors of every term at points (..., m), (..., m, t)."""
        powers = s[..., None] ** np.arange(self.degree + 1)
        return np.take_along_axis(powers @ self.by_powers[0], self._columns(s), axis=-1)

    def _columns(self, s: Floats) -> Ints:
        return np.broadcast_to(self.exponents.T, (*s.shape, len(self.exponents)))

    def terms(self, s: Floats) -> Floats:
        """Return the terms at points (..., m), (..., t)."""
        return np.asarray(self.factors(s).prod(axis=-2))

    def slopes(self, s: Floats) -> Floats:
        """Return the derivatives of the terms at points (..., m) by every coordinate, (..., m, t)."""
        powers = s[..., None] ** np.arange(self.degree + 1)
        steep = np.take_along_axis(powers @ self.by_powers[1], self._columns(s), axis=-1)
        factors, out = self.factors(s), np.empty(steep.shape)
        for j in range(s.shape[-1]):
            others = np.delete(factors, j, axis=-2).prod(axis=-2)
            out[..., j, :] = steep[..., j, :] * others
        return out

    def __call__(self, s: Floats) -> Floats:
        """Return the outputs at points (..., m), (..., outputs)."""
        return np.asarray(self.terms(s) @ self.weights)

    def jacobian(self, s: Floats) -> Floats:
        """Return their derivatives, (..., outputs, m)."""
        return np.asarray(np.swapaxes(self.slopes(s) @ self.weights, -1, -2))


def total_degree(m: int, degree: int) -> Ints:
    """Return the exponents of all terms up to a total degree, (t, m)."""
    found = [a for a in itertools.product(range(degree + 1), repeat=m) if sum(a) <= degree]
    return np.array(sorted(found, key=sum), dtype=np.int64)


def highest_degree(samples: int, m: int) -> int:
    """Return the largest total degree that values and derivatives of this many samples determine."""
    degree = 1
    while len(total_degree(m, degree + 1)) * ROWS_PER_TERM <= samples * (m + 1):
        degree += 1
    return degree


def fitted(s: Floats, values: Floats, slopes: Floats, degree: int) -> PolynomialChaos:
    """Return the least-squares fit of a total degree.

    Parameters
    ----------
    s
        Samples in the box (k, m).
    values, slopes
        Outputs (k, outputs) and their derivatives by s (k, m, outputs).
    degree
        Total degree.
    """
    terms = PolynomialChaos(total_degree(s.shape[1], degree), np.zeros((0, 0)))
    # Derivatives of P_p grow as p^2: weighted so, errors of both kinds of rows mean as much.
    weight = 1.0 / (1.0 + degree)
    rows = np.vstack([terms.terms(s), weight * terms.slopes(s).reshape(-1, len(terms.exponents))])
    right = np.vstack([values, weight * slopes.reshape(-1, values.shape[1])])
    return PolynomialChaos(terms.exponents, np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0], dtype=float))
