"""Viscous stress: quasi-linear viscoelasticity (a Prony series) and Kelvin and Voigt's, at the points of the strain energy.

With the distortional second Piola-Kirchhoff stress S0 of the law, instantaneous moduli and shares g of times tau,

    S(t) = S_volume + (1 - sum g) S0 + sum h + 2 viscosity dE/dt,        dh/dt + h / tau = g dS0/dt.

In an increment d in which S0 changes linearly, h follows exactly [Taylor, Pister, Goudreau 1970]:

    h1 = exp(-d / tau) h0 + g a (S0_1 - S0_0),        a = (1 - exp(-d / tau)) tau / d.

The increment therefore has a potential, and its tangent is symmetric:

    c W + H : E + viscosity / d |E - E0|^2,    c = 1 - sum g (1 - a),    H = sum exp(-d / tau) h0 - g a S0_0.

E and S do not turn with the body: a rigid motion makes no stress. The rate of E is a backward difference, of first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints, einsum, frozen
from geosim.kernels import kernel
from geosim.material.laws import FIRST
from geosim.material.materials import Hyperelastic
from geosim.material.tensors import stresses
from geosim.shape.energy.discretisation.smoothing import Smoothing, bear_domain, deform_domain, stiffen_domain
from geosim.shape.energy.problem import ShapeProblem


@dataclass(frozen=True)
class Viscosity:
    """The viscous materials of a body.

    Parameters
    ----------
    points
        Where the strain energy is taken: domains of linear tets, points of quadratic ones.
    starts
        Of the rows of the tangent.
    shares, times
        Of every material g and tau [s], (materials, terms); shares of 0 where it has fewer.
    viscosities
        Of every material, over the unit of stress [s], (materials,).
    table, isochoric_table
        Of the problem.
    moduli
        Which entries of the table are moduli, bool.
    """

    points: Smoothing
    starts: Ints
    shares: Floats
    times: Floats
    viscosities: Floats
    table: Floats
    isochoric_table: Floats
    moduli: Floats

    def scaled(self, factors: Floats) -> Floats:
        """Return the table with the moduli of distortion times a factor of every material (materials,)."""
        return np.where(self.moduli, factors[:, None] * self.table, self.table)

    @property
    def relaxed_table(self) -> Floats:
        """The table when all is relaxed, whose energy the body stores."""
        return self.scaled(1.0 - self.shares.sum(axis=1))

    def stresses(self, x: Floats, table: Floats) -> tuple[Floats, Floats]:
        """Return strains and second Piola-Kirchhoff stresses of a table, (k, 3, 3) each."""
        F = self.points.deformations(x)
        P = stresses(table, self.points.material, F)
        return 0.5 * (einsum("kia,kib->kab", F, F) - np.eye(3)), np.asarray(np.linalg.solve(F, P), dtype=float)

    def relaxed(self, x: Floats) -> History:
        """Return the history of a body that has long been where it is."""
        strains, stresses = self.stresses(x, self.isochoric_table)
        return History(self, strains, stresses, np.zeros((self.shares.shape[1], *strains.shape)))

    def decay(self, span: float) -> tuple[Floats, Floats]:
        """Return exp(-d / tau) and g a of every term and point, (terms, k, 1, 1) each."""
        mine, ratio = self.points.material, span / self.times
        shares = self.shares * -np.expm1(-ratio) / ratio
        return np.exp(-ratio)[mine].T[:, :, None, None], shares[mine].T[:, :, None, None]


@dataclass(frozen=True)
class History:
    """What the points remember between two increments.

    Parameters
    ----------
    viscosity
        Of the body.
    strains, stresses, branches
        E (k, 3, 3), S0 (k, 3, 3) and h (terms, k, 3, 3).
    """

    viscosity: Viscosity
    strains: Floats
    stresses: Floats
    branches: Floats

    def ended(self, x: Floats, span: float) -> History:
        """Return the history after an increment [s] that ended at x."""
        kept, shares = self.viscosity.decay(span)
        strains, stresses = self.viscosity.stresses(x, self.viscosity.isochoric_table)
        branches = kept * self.branches + shares * (stresses - self.stresses)
        return History(self.viscosity, strains, stresses, branches)

    def potential(self, span: float) -> ViscousPotential:
        """Return what an increment [s] adds to the potential."""
        viscosity = self.viscosity
        kept, shares = viscosity.decay(span)
        pull = np.sum(kept * self.branches - shares * self.stresses, axis=0)
        ratio = span / viscosity.times
        factors = 1.0 - np.sum(viscosity.shares * (1.0 + np.expm1(-ratio) / ratio), axis=1)
        rates = 2.0 * viscosity.viscosities[viscosity.points.material] / span
        return ViscousPotential(viscosity, self.strains, pull, rates, factors, viscosity.scaled(factors))


@dataclass(frozen=True)
class ViscousPotential:
    """What an increment of time adds to the potential of viscous materials.

    Parameters
    ----------
    viscosity
        Of the body.
    before, pull, rates
        E0 (k, 3, 3), H (k, 3, 3) and 2 viscosity / d (k,).
    factors, table
        c of every material, and the table of materials with their moduli times c.
    """

    viscosity: Viscosity
    before: Floats
    pull: Floats
    rates: Floats
    factors: Floats
    table: Floats

    def add(self, x: Floats, matrix: bool, data: Floats, force: Floats, scale: Floats) -> float:
        """Add forces, their norms and (with `matrix`) the tangent; return the energy."""
        points, given = self.viscosity.points, (self.viscosity.starts, self.before, self.pull, self.rates)
        domains = points.starts, points.nodes, points.slopes, points.volumes, points.ranks
        return float(_add(x, *domains, *given, matrix, data, force, scale))

    def work(self, x: Floats, ended: History) -> float:
        """Return the work of the viscous stresses at x, where forces balance, over the increment to `ended`."""
        viscosity, mine = self.viscosity, self.viscosity.points.material
        strains, stresses = viscosity.stresses(x, viscosity.table)
        left = (self.factors - 1.0 + viscosity.shares.sum(axis=1))[mine, None, None]
        viscous = left * stresses + self.pull + self.rates[:, None, None] * (strains - self.before)
        powers = np.einsum("kij,kij->k", viscous, ended.strains - self.before)
        return float(viscosity.points.volumes @ powers)


def make_viscosity(problem: ShapeProblem) -> Viscosity | None:
    """Return the viscosity of a problem's materials; None where none is viscous."""
    materials: Sequence[Hyperelastic] = list(problem.robot.materials.values())
    if not any(m.viscous for m in materials):
        return None
    terms = max(len(m.relaxation_shares) for m in materials)
    shares, times = np.zeros((len(materials), terms)), np.ones((len(materials), terms))
    moduli = np.zeros(problem.table.shape, dtype=bool)
    for i, m in enumerate(materials):
        shares[i, : len(m.relaxation_shares)] = m.relaxation_shares
        times[i, : len(m.relaxation_times)] = m.relaxation_times
        of_term = [c.unit == "Pa" for c in m.declared().values()]
        count = len(m.constants())
        moduli[i, FIRST : FIRST + count] = np.tile(of_term, count // len(of_term))
        moduli[i, FIRST - 1] = problem.table[i, FIRST - 1] >= 0.0  # the slope at rest of the full form
    return Viscosity(
        problem.smoothing or _points(problem),
        problem.pattern.indptr,
        frozen(shares),
        frozen(times),
        frozen(np.array([m.viscosity for m in materials]) / problem.stress),
        problem.table,
        problem.isochoric_table,
        frozen(moduli),
    )


def _points(problem: ShapeProblem) -> Smoothing:
    """Return the points of the strain energy of quadratic tets as domains of one element each."""
    mesh, rule = problem.mesh, problem.element.energy
    order = np.argsort(mesh.tets, axis=1)
    slopes = einsum("qak,ekj->eqaj", rule.slopes, mesh.barycentric)
    slopes = np.take_along_axis(slopes, order[:, None, :, None], axis=2)
    nodes = np.repeat(np.take_along_axis(mesh.tets, order, axis=1), len(rule.weights), axis=0)
    none = np.empty((0, 0), dtype=np.int64)
    return Smoothing(
        none,
        none,
        frozen(nodes.shape[1] * np.arange(len(nodes) + 1)),
        frozen(nodes.ravel()),
        frozen(np.repeat(mesh.material, len(rule.weights))),
        frozen(np.ascontiguousarray(slopes.reshape(-1, 3))),
        frozen((mesh.volumes[:, None] * rule.weights).ravel()),
    ).placed(problem.pattern)


@kernel
def _add(x, starts, nodes, slopes, volumes, ranks, indptr, before, pull, rates, matrix, data, force, scale):
    """As `ViscousPotential.add`: with S = H + r (E - E0), of stress P = F S and tangent dF S : dF + r / 2 |dE|^2."""
    F, P, S = np.empty((3, 3, 1)), np.empty((3, 3, 1)), np.empty((3, 3))
    A, B, U, V, squares = np.empty((9, 9, 1)), np.empty((9, 9)), np.empty((3, 9)), np.empty(9), np.empty((3, 3))
    energy, at = 0.0, 0
    for k in range(len(volumes)):
        mine, g = nodes[starts[k] : starts[k + 1]], slopes[starts[k] : starts[k + 1]]
        deform_domain(x, mine, g, 0, F)
        for i in range(3):
            for j in range(3):
                strain = 0.5 * (F[0, i, 0] * F[0, j, 0] + F[1, i, 0] * F[1, j, 0] + F[2, i, 0] * F[2, j, 0])
                strain -= 0.5 if i == j else 0.0
                change = strain - before[k, i, j]
                S[i, j] = pull[k, i, j] + rates[k] * change
                energy += volumes[k] * (pull[k, i, j] * strain + 0.5 * rates[k] * change * change)
                squares[i, j] = F[i, 0, 0] * F[j, 0, 0] + F[i, 1, 0] * F[j, 1, 0] + F[i, 2, 0] * F[j, 2, 0]
        for i in range(3):
            for j in range(3):
                P[i, j, 0] = F[i, 0, 0] * S[0, j] + F[i, 1, 0] * S[1, j] + F[i, 2, 0] * S[2, j]
        bear_domain(P, 0, volumes[k], mine, g, force, scale)
        if matrix:
            for r in range(9):
                for s in range(9):
                    i, j, m, n = r // 3, r % 3, s // 3, s % 3
                    value = 0.5 * rates[k] * F[i, n, 0] * F[m, j, 0]
                    value += S[j, n] if i == m else 0.0
                    value += 0.5 * rates[k] * squares[i, m] if j == n else 0.0
                    A[r, s, 0] = value
            at = stiffen_domain(A, 0, volumes[k], mine, g, B, U, V, ranks, at, indptr, data)
    return energy
