"""Finite elements over the unknowns: samples of the prior's box are solved, polynomials go through them.

`SolvedTest` says how. Unknowns of a robot:

    modulus                 factor on all moduli; modulus.NAME of the body of that name or region
    conditioning            share of all moduli that first cycles have taken
    material.CONSTANT       a constant of the material [SI]
    DIMENSION, DIMENSION_mm  of a robot of a design: wall_mm, channel:0_mm, place of channels, layer_mm
    wall_factor             factor on walls between chambers and skin, of any robot
    layer_modulus           factor on the moduli of all layers
    friction, cable_friction  Coulomb's coefficient of all obstacles, of all cables
    pressure_offset_kpa     of the gauge
    offset.MEASURE          added to a measure as it is read: where a marker sits
    factor.MEASURE          on its change from rest: how a tip is seated against a gauge
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.stats import qmc

from geosim.apps.calibrate.parameters import thicken
from geosim.apps.condition.prediction import as_loads
from geosim.apps.condition.response import Curve, FittedResponse, fitted_curve
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import Unknowns
from geosim.apps.study.measures import measured
from geosim.apps.study.slopes import mesh_bars
from geosim.arguments import guarded, suggestion
from geosim.arrays import Floats, choice, whole
from geosim.errors import InputError
from geosim.generate import GENERATORS, make
from geosim.generate.derivatives import remade
from geosim.generate.design import Design
from geosim.generate.dimensions import dimensions
from geosim.generate.moving import DesignMesh
from geosim.measures.turning import arc_curvature
from geosim.model.actuation import CableTensions, Inflation
from geosim.model.contract import taken
from geosim.model.environment import Environment, Prescribed
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.shape.energy.solver import EnergyShapeSolver
from geosim.solve import solve

LEAST_REACHED = 0.7  # of the samples: with fewer a polynomial knows the rest of the box by guessing
Loads = Literal["pressure_kpa", "volume_ratio", "cable_tension_n"]
OWN_MEASURES = ("curvature", "tip_displacement", "blocked_force")  # beside columns of a study


@guarded
@dataclass(frozen=True)
class SolvedTest:
    """How finite elements of a test are solved.

    Parameters
    ----------
    loads
        What load_1 and load_2 are: pressures of chambers 1 and 2 [kPa], their volume ratios less 1, or tensions of cables [N].
        None: pressures where the robot has chambers, else tensions.
    solves
        Samples of the unknowns; every one is solved along all loads.
    solver
        Default `EnergyShapeSolver()`.
    material, max_edge
        Of the mesh, where a `Design` is given; edges in m.
    mesh
        Whether the bar of the mesh is computed, at the middle of the box.
    progress
        Called with the samples that are done and their number.
    """

    loads: Loads | None = None
    solves: int = 40
    solver: EnergyShapeSolver | None = None
    material: Any = "ecoflex-00-30"
    max_edge: float | None = None
    mesh: bool = True
    progress: Callable[[int, int], Any] | None = None

    def __post_init__(self) -> None:
        if self.loads is not None:
            choice(self.loads, "SolvedTest: loads", get_args(Loads))
        whole(self.solves, "SolvedTest: solves", least=4)


@dataclass(frozen=True)
class Problem:
    """A robot in its environment, with what its gauge reads at zero [kPa]."""

    robot: VolumetricRobot
    environment: Environment
    gauge: float = 0.0


def solved_response(
    robot_or_design: VolumetricRobot | Design,
    test: tuple[TestRows, tuple[str, ...], Any],
    unknowns: Unknowns,
    environment: Environment | None,
    plan: SolvedTest,
    seed: int,
) -> FittedResponse:
    """Return the polynomials of all measures through solved samples.

    Parameters
    ----------
    robot_or_design
        What is solved.
    test
        Its rows; the measures; further loads, or None.
    unknowns
        The priors.
    environment
        Of the test.
    plan
        How it is solved.
    seed
        Of the samples.

    Raises
    ------
    InputError
        An unknown does not fit the robot, or too few samples are in equilibrium.
    """
    rows, measures, more = test
    robot = robot_or_design
    if isinstance(robot, Design):
        robot = robot.robot(plan.material, plan.max_edge)
    kind = plan.loads or ("pressure_kpa" if robot.chambers else "cable_tension_n")
    base, changes, shifts = _read_unknowns(unknowns, robot, environment or Environment(), measures)
    loads = np.vstack([np.zeros((1, 2)), rows.loads] + ([] if more is None else [as_loads(more)]))
    loads = np.unique(loads.round(9), axis=0)
    loads = loads[np.argsort(np.linalg.norm(loads, axis=1), kind="stable")]
    places = _places(plan.solves, len(changes), seed)
    whole_box = np.zeros((len(places), len(unknowns.names)))
    fitted = tuple(unknowns.names.index(name) for name in changes)
    whole_box[:, list(fitted)] = places
    values = unknowns.at_box(whole_box)
    tables: list[dict[str, Floats]] = []
    meshes: dict[str, float] = {}
    for i in range(len(places)):
        problem = base
        for name, change in changes.items():
            problem = change(problem, float(values[name][i]))
        curves, result = _curves(problem, loads, kind, measures, plan)
        tables.append(curves)
        if i == 0 and plan.mesh:
            meshes = _mesh_shares(result, measures, curves)
        if plan.progress is not None:
            plan.progress(i + 1, len(places))
    return FittedResponse(_fitted(places, loads, tables, measures), meshes, shifts, fitted)


def _places(count: int, dimensions: int, seed: int) -> Floats:
    """Return samples of the box (count, dimensions), its middle first; one where nothing is unknown."""
    if dimensions == 0:
        return np.zeros((1, 0))
    power = int(np.ceil(np.log2(count)))
    drawn = qmc.Sobol(dimensions, rng=np.random.default_rng(seed)).random_base2(power)
    return np.vstack([np.zeros((1, dimensions)), 2.0 * drawn[: count - 1] - 1.0])


def _fitted(
    places: Floats, loads: Floats, tables: list[dict[str, Floats]], measures: tuple[str, ...]
) -> dict[str, Curve]:
    out = {}
    for measure in measures:
        known = np.array([table[measure] for table in tables])
        reached = np.isfinite(known)
        least = max(LEAST_REACHED * len(places), 1.0)
        kept = reached.sum(axis=0) >= least
        if not kept[0] or not kept[1:].any():
            raise InputError(
                f"condition: {measure} is known for {int(reached.all(axis=1).sum())} of {len(places)} samples only; narrow the "
                "unknowns, or leave out the largest loads"
            )
        samples = reached[:, kept].all(axis=1)
        if samples.sum() < least:  # samples that stop early end the curve for all
            kept &= reached.sum(axis=0) == reached.sum(axis=0).max()
            samples = reached[:, kept].all(axis=1)
        out[measure] = fitted_curve(places[samples], loads[kept], known[np.ix_(samples, kept)], measure)
    return out


def _curves(
    problem: Problem, loads: Floats, kind: str, measures: tuple[str, ...], plan: SolvedTest
) -> tuple[dict[str, Floats], Result | None]:
    """Return measures at all loads, nan where there is no equilibrium, and the free result."""
    free = [m for m in measures if m != "blocked_force"]
    out: dict[str, Floats] = {}
    result = None
    if free:
        result = _solved(problem, loads, kind, problem.environment, plan)
        rows = measured(result)["frames"]
        own = _own_measures(result)
        for measure in free:
            column = own.get(measure, [row.get(measure) for row in rows])
            if len(rows) and all(value is None for value in column):
                raise InputError(
                    f"measure {measure!r} is no column of this robot's summary{suggestion(measure, rows[-1])}; there are "
                    f"{', '.join((*OWN_MEASURES, *rows[-1]))}"
                )
            out[measure] = _padded([np.nan if v is None else float(v) for v in column], len(loads))
    if "blocked_force" in measures:
        robot = problem.robot
        held = replace(
            problem.environment, prescribed=(*problem.environment.prescribed, Prescribed(robot.tip, np.zeros(3)))
        )
        blocked = _solved(problem, loads, kind, held, plan)
        out["blocked_force"] = _padded(np.linalg.norm(blocked.blocked_force, axis=1).tolist(), len(loads))
        if not problem.environment.gravity.any():
            out["blocked_force"][0] = 0.0
    return out, result


def _solved(problem: Problem, loads: Floats, kind: str, environment: Environment, plan: SolvedTest) -> Result:
    robot = problem.robot
    if kind == "cable_tension_n":
        actuation: Any = CableTensions(_columns(loads, len(robot.cables), "cable"))
    else:
        asked = _columns(loads, robot.chambers, "chamber")
        if kind == "pressure_kpa":
            actuation = Inflation(
                pressure=1e3 * (asked + np.where(np.any(asked != 0.0, axis=1), problem.gauge, 0.0)[:, None])
            )
        else:
            actuation = Inflation(volume_ratio=1.0 + asked)
    return solve(robot, actuation, environment, solver=plan.solver, throw=False)


def _columns(loads: Floats, count: int, word: str) -> Floats:
    """Return a column a chamber or cable: the first load drives the first, or the only one, the second the second."""
    if count == 0:
        raise InputError(f"condition: this robot has no {word}; choose SolvedTest(loads=) for what the test drives")
    if count == 1 and loads[:, 1].any():
        raise InputError(f"condition: the test has load_2, but this robot has one {word}")
    out = np.zeros((len(loads), count))
    out[:, : min(2, count)] = loads[:, : min(2, count)]
    return out


def _padded(values: list[float], count: int) -> Floats:
    return np.append(values, np.full(count - len(values), np.nan))


def _own_measures(result: Result) -> dict[str, list[float]]:
    """Return curvature [1/m] of the arc through base and tip, and how far the tip has moved [mm], of every frame."""
    robot = taken(result.robot, VolumetricRobot, "condition")
    rest_tip = robot.tip_weights @ robot.vertices[robot.tip]
    out = {"tip_displacement": (1e3 * np.linalg.norm(result.tip - rest_tip, axis=1)).tolist()}
    if len(robot.fixed):
        base = robot.vertices[robot.fixed].mean(axis=0)
        out["curvature"] = [arc_curvature(base, rest_tip, tip)[0] for tip in result.tip]
    return out


def _mesh_shares(result: Result | None, measures: tuple[str, ...], values: Mapping[str, Floats]) -> dict[str, float]:
    """Return bounds of the mesh at the last load, as shares of the changes from rest, of the measures that have one."""
    if result is None or not result.converged:
        return {}
    source = {"curvature": "bend_angle_deg"}  # the turning of an arc is its curvature times its length
    axes = ("tip_x_mm", "tip_y_mm", "tip_z_mm")
    try:
        bars = {
            k: sum(map(abs, v)) for k, v in mesh_bars(result, (*(source.get(m, m) for m in measures), *axes)).items()
        }
    except InputError:
        return {}
    bars["tip_displacement"] = float(np.linalg.norm([bars[axis] for axis in axes]))
    turned = float(np.degrees(result.bend_angle[-1]))
    changes = {m: turned if m in source else float(abs(values[m][-1] - values[m][0])) for m in measures}
    asked = {m: bars.get(source.get(m, m)) for m in measures}
    return {m: bar / changes[m] for m, bar in asked.items() if bar is not None and changes[m] > 0.0}


Change = Callable[[Problem, float], Problem]


def _read_unknowns(
    unknowns: Unknowns, robot: VolumetricRobot, environment: Environment, measures: tuple[str, ...]
) -> tuple[Problem, dict[str, Change], dict[str, tuple[str, str]]]:
    """Return the problem, what every solved unknown does to it, and the unknowns that act on readings."""
    changes: dict[str, Change] = {}
    shifts: dict[str, tuple[str, str]] = {}
    dims = _Dimensions(robot)
    for name in unknowns.names:
        head, _, rest = name.partition(".")
        if head in ("offset", "factor"):
            if rest not in measures:
                raise InputError(f"unknown {name}: {rest!r} is no measure of the test; there are {', '.join(measures)}")
            shifts[name] = (rest, head)
        else:
            changes[name] = _change(name, robot, environment, dims)
    # dimensions make the robot anew: they come first
    first = sorted(changes, key=lambda name: dims.named(name) is None)
    return Problem(robot, environment), {name: changes[name] for name in first}, shifts


class _Dimensions:
    """Moves the mesh of a robot to other dimensions of its design."""

    def __init__(self, robot: VolumetricRobot) -> None:
        self.robot = robot
        self.design = robot.design if isinstance(robot.design, Design) else None
        self.mesh = None if self.design is None else DesignMesh.of(robot, self.design)

    def named(self, name: str) -> tuple[str, float] | None:
        """Return the dimension of a name, and the unit of its value in SI; None where there is none."""
        if self.design is None or self.design.name not in GENERATORS:
            return None
        plain, _, index = name.removeprefix("design.").partition(":")
        for one in dimensions(GENERATORS[self.design.name]).values():
            if plain not in (one.key, one.name):
                continue
            if isinstance(one.default, int | str):
                raise InputError(f"unknown {name}: {one.name} is a count; it is known without a test")
            return (f"{one.name}:{index}" if index else one.name), (one.scale if plain == one.key else 1.0)
        return None

    def change(self, key: str, unit: float) -> Change:
        """Return the change of a problem to a value of a dimension."""

        def moved(problem: Problem, value: float) -> Problem:
            before = problem.robot.design
            assert isinstance(before, Design)
            assert self.mesh is not None
            design = remade(before, key, unit * value, make)
            robot = self.mesh.moved(design)
            if robot is None:
                longest = None if self.robot.remesh is None else self.robot.remesh.keywords.get("max_edge")
                robot = design.robot(next(iter(self.robot.materials.values())), longest)
            return replace(problem, robot=replace(robot, materials=problem.robot.materials))

        return moved


def _change(name: str, robot: VolumetricRobot, environment: Environment, dims: _Dimensions) -> Change:
    """Return what an unknown does to a problem.

    Raises
    ------
    InputError
        The robot has none of that name.
    """
    found = dims.named(name)
    if found is not None:
        return dims.change(*found)
    if name.partition(".")[0] in ("modulus", "conditioning", "material"):
        return _of_material(name, robot)
    has = {"layer_modulus": robot.layers, "friction": environment.obstacles, "cable_friction": robot.cables}
    if name in PLAIN_CHANGES and has.get(name, True):
        return PLAIN_CHANGES[name]
    own = () if dims.design is None else tuple(dimensions(GENERATORS[dims.design.name]))
    listed = (
        "modulus", "conditioning", "material.CONSTANT", *PLAIN_CHANGES, "offset.MEASURE", "factor.MEASURE", *own,
    )  # fmt: skip
    raise InputError(
        f"unknown {name!r} is none of this robot's{suggestion(name, listed)}; there are {', '.join(listed)}"
    )


def _stiffer(material: Any, factor: float) -> Any:
    if hasattr(material, "stiffened"):
        return material.stiffened(factor)
    return replace(material, youngs_modulus=factor * material.youngs_modulus)


def _each(of: str, parts: str, change: Callable[[Any, float], Any]) -> Change:
    """Return the change of a problem in which each of some parts is changed: `of` is "robot" or "environment"."""

    def changed(problem: Problem, value: float) -> Problem:
        owner = getattr(problem, of)
        made = tuple(change(one, value) for one in getattr(owner, parts))
        return replace(problem, **{of: replace(owner, **{parts: made})})

    return changed


def _rubbing(one: Any, friction: float) -> Any:
    return replace(one, friction=friction)


PLAIN_CHANGES: dict[str, Change] = {
    "wall_factor": lambda p, v: replace(p, robot=thicken(p.robot, v)),
    "layer_modulus": _each("robot", "layers", lambda one, v: replace(one, material=_stiffer(one.material, v))),
    "friction": _each("environment", "obstacles", _rubbing),
    "cable_friction": _each("robot", "cables", _rubbing),
    "pressure_offset_kpa": lambda p, v: replace(p, gauge=v),
}


def _of_material(name: str, robot: VolumetricRobot) -> Change:
    """Return what an unknown does to the materials of all bodies, or of one."""
    head, _, rest = name.partition(".")
    names = {str(region): region for region in robot.materials}
    names |= {str(label): region for region, label in getattr(robot, "region_names", {}).items()}
    if head == "material":
        if not any(hasattr(m, rest) for m in robot.materials.values()):
            raise InputError(
                f"unknown {name}: no body has a constant {rest!r}; the robot has {', '.join(map(str, robot.materials.values()))}"
            )
        return lambda p, v: _with(p, lambda r, m: replace(m, **{rest: v}) if hasattr(m, rest) else m)
    if rest and rest not in names:
        raise InputError(f"unknown {name}: there is no body {rest!r}; there are {', '.join(names)}")
    chosen = {names[rest]} if rest else set(robot.materials)
    factor = (lambda v: 1.0 - v) if head == "conditioning" else float
    return lambda p, v: _with(p, lambda r, m: m.stiffened(factor(v)) if r in chosen else m)


def _with(problem: Problem, change: Callable[[Any, Any], Any]) -> Problem:
    robot = problem.robot
    return replace(problem, robot=replace(robot, materials={r: change(r, m) for r, m in robot.materials.items()}))
