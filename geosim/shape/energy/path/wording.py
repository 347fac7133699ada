"""Messages on the load reached by a command, in the user's units."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Floats
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.energy.states.configuration import LoadState, NewtonOutcome

FLAT_TETS = "P1 elements fold at sharp inner edges under vacuum or cables."
BY_VALUE = "Prescribe volumes and cable lengths instead of pressures and tensions, or take"
FINER = "element='p2', a smaller max_edge there, or rounded edges."


def ratios(problem: ShapeProblem, volumes: Floats) -> Floats:
    """Return V/V0 of the chambers (c,) from all scalars (s,) that have a volume."""
    return volumes[: problem.chambers] / problem.rest_chamber_volumes


def way_reached(problem: ShapeProblem, share: float, volumes: Floats, beyond: NewtonOutcome | None) -> str:
    """Return which share of a command was reached, where, and what was left of the forces beyond it."""
    where = f", at V/V0 = {_listed(ratios(problem, volumes))}" if problem.chambers else ""
    left = f", residual {beyond.residual:.2g} beyond it" if beyond is not None else ""
    return f"{min(100.0 * share, 99.9):.3g} % of the command is reached{where}{left}."


def limit_reached(problem: ShapeProblem, origin: LoadState, end: LoadState, share: float, volumes: Floats) -> str:
    """Return the largest load that a body bears on the way from one target to another, where its scalars are `volumes` (s,)."""
    driven = np.flatnonzero(~end.by_value & (end.scalar_forces != origin.scalar_forces))
    driven = driven[driven < problem.chambers]
    if not len(driven):
        return f"The limit is {100.0 * share:.4g} % of the change of the loads."
    there = origin.towards(end, share, None)
    limit, asked = (pressures[driven] * problem.stress / 1e3 for pressures in (there.scalar_forces, end.scalar_forces))
    at = _listed(ratios(problem, volumes)[driven])
    return f"The limit is {_listed(limit)} kPa at V/V0 = {at}; {_listed(asked)} kPa was asked for."


def load_at(problem: ShapeProblem, origin: LoadState, end: LoadState, share: float, volumes: Floats) -> str:
    """Return pressures and volumes of the chambers at a share of the way, in brackets; empty where there are none."""
    if not problem.chambers:
        return ""
    there = origin.towards(end, share, None)
    driven = np.flatnonzero(
        ~end.by_value[: problem.chambers] & (end.scalar_forces != origin.scalar_forces)[: problem.chambers]
    )
    pressed = f"{_listed(there.scalar_forces[driven] * problem.stress / 1e3)} kPa, " if len(driven) else ""
    return f" ({pressed}V/V0 = {_listed(ratios(problem, volumes))})"


def _listed(values: Floats) -> str:
    """Return numbers as a user reads them."""
    return ", ".join(f"{v:.4g}" for v in np.atleast_1d(values))
