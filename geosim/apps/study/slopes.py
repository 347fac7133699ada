"""Derivatives of the measures of a design by its dimensions, and how far its mesh may be off: what one equilibrium knows besides.

All derivatives of a design come from one factorisation at its last equilibrium, see `geosim.response.derivatives`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.linear.factorise import FactorisationError
from geosim.model.robot import VolumetricRobot
from geosim.response.accuracy.bars import mesh_bar
from geosim.response.accuracy.correction import correct
from geosim.response.derivatives.equilibrium import equilibrium
from geosim.response.derivatives.parameters import Differences, refuse_closed
from geosim.response.derivatives.quantities import ContactConfiguration, Measure, Several, quantity
from geosim.response.derivatives.rest_shape import design_motions
from geosim.response.derivatives.tangent import Tangent
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver


@dataclass(frozen=True)
class _Source:
    """What a column is read off: a measure that has derivatives, which of its values or all their sum, its unit over SI."""

    of: str | Measure
    index: int | slice
    factor: float


def _sources(names: Collection[str], result: Result) -> dict[str, _Source]:
    """Return what columns are read off, without those that have no derivative."""
    robot, mm = result.robot, 1e3
    body, obstacles = np.flatnonzero(robot.body_vertices), range(len(result.environment.obstacles))
    known = {"max_stretch": _Source("max_stretch", 0, 1.0), "max_von_mises_kpa": _Source("max_von_mises", 0, 1e-3)}
    for k, axis in enumerate("xyz"):
        known |= {f"tip_{axis}_mm": _Source("tip", k, mm), f"size_{axis}_mm": _Source(_extent(k, body), 0, mm)}
        known |= {f"obstacle_force_{axis}_n_{o + 1}": _Source("obstacle_forces", 3 * o + k, 1.0) for o in obstacles}
    known |= {f"grip_force_n_{o + 1}": _Source("grip_force", o, 1.0) for o in obstacles}
    if obstacles:
        known["grip_force_n"] = _Source("grip_force", slice(None), 1.0)
    for c in range(robot.chambers):
        known[f"pressure_kpa_{c + 1}"] = _Source("chamber_pressures", c, 1e-3)
        known[f"volume_mm3_{c + 1}"] = _Source("chamber_volumes", c, 1e9)
    if result.spine is not None:
        known["bend_angle_deg"] = _Source("bend_angle", 0, float(np.degrees(1.0)))
    if robot.chambers:
        known["pressure_kpa"] = _Source("chamber_pressures", int(np.argmax(result.chamber_pressures[-1])), 1e-3)
    one_material = isinstance(robot, VolumetricRobot) and len(robot.materials) == 1
    if "stretch_margin" in names and one_material and np.isfinite(result.stretch_margin[-1]):
        share = -float(result.stretch_margin[-1] / result.max_stretch[-1])
        known["stretch_margin"] = _Source("max_stretch", 0, share)
    return {name: known[name] for name in names if name in known}


def _extent(axis: int, body: Ints) -> Measure:
    """Return the size [m] along an axis of some vertices as a measure of positions."""

    def extent(positions: Floats) -> tuple[Floats, Floats]:
        along = positions[body, axis]
        gradient = np.zeros_like(positions)
        gradient[body[np.argmax(along)], axis] += 1.0
        gradient[body[np.argmin(along)], axis] -= 1.0
        return np.asarray(np.ptp(along)), gradient

    return extent


def slopes(
    result: Result, names: Iterable[str], dimensions: Mapping[str, tuple[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the derivatives of measures at the last command by dimensions of the design; what has none is left out.

    Parameters
    ----------
    names
        Columns of the table, without case and command.
    dimensions
        Key of the study -> name of the generator's argument (as of `sensitivity`, "channel:0"), and SI over the key's unit.
    """
    robot, solver = result.robot, result.solver
    if not isinstance(robot, VolumetricRobot) or not isinstance(solver, EnergyShapeSolver) or not dimensions:
        return {}
    names = tuple(names)
    sources = _sources(names, result)
    out: dict[str, dict[str, float]] = {}
    try:
        ways = design_motions(robot, [to for to, _ in dimensions.values()])
        motions = {key: unit * way for (key, (_, unit)), way in zip(dimensions.items(), ways)}
        if "mass_g" in names:
            out["mass_g"] = {key: 1e3 * _mass_slope(robot, motion) for key, motion in motions.items()}
        if sources:
            out |= _by_dimensions(result, solver, sources, motions)
    except (InputError, FactorisationError):  # cables with friction, a fold, a whole number: then values have to do
        return out
    return out


def _by_dimensions(
    result: Result, solver: EnergyShapeSolver, sources: Mapping[str, _Source], motions: Mapping[str, Floats]
) -> dict[str, dict[str, float]]:
    frame = result.checked_frame(-1)
    tangent = Tangent.at(equilibrium(result, frame))
    at = ContactConfiguration.of(tangent)
    kinds = tuple(dict.fromkeys(source.of for source in sources.values()))
    # dimensions move the mesh as a whole: what is touched is not asked
    several = Several.of([quantity(of, tangent.problem, at, result) for of in kinds])
    refuse_closed(tangent, f"design.{next(iter(motions))}")
    made = Differences(tangent, several, solver, frame)
    rows = dict(zip(kinds, several.split(made.by_all([made.along(way) for way in motions.values()]))))
    return {
        name: {key: float(source.factor * np.sum(rows[source.of][source.index, k])) for k, key in enumerate(motions)}
        for name, source in sources.items()
    }


def _mass_slope(robot: VolumetricRobot, motion: Floats) -> float:
    """Derivative of the mass of the bodies [kg] along a motion (n, 3) [m]: density times its divergence."""
    gradients, volumes = (of(robot.vertices, robot.tets) for of in (topology.tet_gradients, topology.tet_volumes))
    growth = volumes * np.einsum("eai,eai->e", motion[robot.tets], gradients)
    return float(sum(growth[robot.regions == region].sum() * m.density for region, m in robot.materials.items()))


def mesh_bars(result: Result, names: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return what measures change by with every tet split into eight, and the bar of what they are then; some have none.

    Parameters
    ----------
    names
        As of `slopes`.

    Raises
    ------
    InputError
        As `geosim.error_bars`.
    """
    found = _sources(tuple(names), result)  # extents belong to the vertices of one mesh
    sources = {name: source for name, source in found.items() if isinstance(source.of, str)}
    out: dict[str, tuple[float, float]] = {}
    if not sources:
        return out
    corrected = correct(result, -1)
    for name, source in sources.items():
        assert isinstance(source.of, str)
        coarse, _, fine = corrected.values(source.of)
        _, bar = mesh_bar(corrected, source.of)
        change = source.factor * float(np.sum(np.ravel(fine - coarse)[source.index]))
        width = abs(source.factor) * float(np.sum(np.ravel(bar)[source.index]))
        out[name] = (change, max(width - abs(change), 0.0))
    return out
