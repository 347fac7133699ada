"""Stability of an equilibrium: the lowest eigenvalue of its stiffness, apart from rounding and neutral motions.

The pivots of a factorisation count eigenvalues below zero, and those of free motions (a twist that nothing holds, a ring that
turns) are rounding of either sign. So the mode behind them is found by inverse iteration, (K + s D) v <- D v with the smallest
shift s that makes the matrix definite, and is one of instability where v K v is below the rounding of that product.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from geosim.arrays import ROUNDING_REL, Floats
from geosim.rods.balance import Balance, step_size
from geosim.rods.newton import Solution, definite


def judge(balance: Balance, solution: Solution) -> Floats | None:
    """Mark a solution that is not stable; return where to go on from it if the loads push it off, else None."""
    mode, pushed = falling_mode(balance, solution)
    solution.unstable = mode is not None
    if mode is None or not pushed:
        return None
    edge, _, turn = step_size(mode, balance.system.stencils.springs, balance.system.rest, balance.system.turns)
    # rad that an edge turns at most on the way from a saddle: within reach of Newton's method, beyond that of its slope
    saddle_push_rad = 0.1
    return np.asarray(solution.q + saddle_push_rad / max(edge, turn) * mode)


def falling_mode(balance: Balance, solution: Solution) -> tuple[Floats | None, bool]:
    """Return a mode (dofs,) along which the energy falls from an equilibrium, or None, and whether the loads push along it."""
    eigenvalue_rounding = 64 * np.finfo(float).eps  # of v K v over |v| |K| |v|: entries are sums of some products each
    system, order = balance.system, balance.order
    values, extra = balance.jacobian(solution.q, solution.trial)
    none = np.zeros(len(order))
    found, negative = system.pattern.solve(values, none, extra)
    if not len(order) or (found is not None and negative == 0):
        return None, False
    shifted = definite(balance, values, none, extra)
    if shifted is None:
        return None, False
    _, firm, weight = shifted
    matrix = system.pattern.matrix(values)
    if extra is not None:
        row, col, data = extra.entries
        rest = scipy.sparse.coo_array((data, (row, col)), matrix.shape)
        matrix = matrix + 0.5 * (rest + rest.T)
    loads = balance.b[order]
    # a shift is at most ten times the eigenvalue sought: 0.9^40 of a neutral mode is left beside it
    eigen_iterations = 40
    # From the loads themselves iteration stays in their symmetry: what falls there is where they push.
    for start, pushes in ((loads, True), (np.random.default_rng(0).standard_normal(len(order)), False)):
        v = start
        for _ in range(eigen_iterations):
            found, _ = system.pattern.solve(firm, weight * v, extra)
            v = v if found is None or not np.any(found) else found / np.linalg.norm(found)
        if v @ (matrix @ v) >= -eigenvalue_rounding * (abs(v) @ (abs(matrix) @ abs(v))):
            continue
        share = float(loads @ v)
        mode = np.zeros(system.dofs)
        mode[order] = v if share >= 0 else -v
        # along a mode less of the loads is rounding of loads that do not push that way at all
        return mode, pushes and abs(share) > ROUNDING_REL * float(np.linalg.norm(loads))
    return None, False
