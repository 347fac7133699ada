"""Unknown parameters of a robot (moduli, wall thickness, offsets) and their effect on a problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from geosim.arguments import guarded
from geosim.arrays import MIN_DIVISOR, Floats, Ints, number
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.geometry.harmonic import harmonic
from geosim.material.materials import Material
from geosim.model.actuation import Actuation, Inflation
from geosim.model.contract import Robot, Solver
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.rods.robot import RodShellRobot

MIN_VOLUME_KEPT_REL = 0.02  # of an element: flatter ones are meshed again, since they would decide what is computed


@guarded
@dataclass(frozen=True)
class Problem:
    """What is solved for one measurement: the arguments of `geosim.solve`."""

    robot: Robot
    actuation: Actuation
    environment: Environment | None = None
    solver: Solver[Any] | None = None


@guarded
@dataclass(frozen=True)
class Parameter:
    """One unknown: its name, first value, bounds, and what it does to a problem.

    Parameters
    ----------
    name
        Shown in tables.
    initial
        First value.
    change
        (Problem, value) -> Problem.
    lower, upper
        Bounds.
    logarithmic
        Whether steps are relative (for positive quantities); False steps by `step`.
    step
        Finite-difference step: relative if logarithmic, else in the unit of the parameter.
    prior
        Standard deviation of what is known of it beforehand, about `initial`: of its logarithm if logarithmic, else in its unit;
        inf where nothing is. A tolerance is a parameter with a prior. With priors sigmas of measurements count as they are given.
    """

    name: str
    initial: float
    change: Callable[[Problem, float], Problem]
    lower: float = 0.0
    upper: float = np.inf
    logarithmic: bool = True
    step: float = 0.01
    prior: float = np.inf

    def __post_init__(self) -> None:
        number(self.initial, f"parameter {self.name}: initial")
        if not self.prior > 0.0:
            raise InputError(
                f"parameter {self.name}: prior = {self.prior!r} must be a positive standard deviation, or inf"
            )
        number(self.step, f"parameter {self.name}: step", above=0.0)
        if not (self.lower <= self.initial <= self.upper and self.lower < self.upper):
            raise InputError(
                f"parameter {self.name}: initial = {self.initial!r} must lie in [{self.lower}, {self.upper}]"
            )
        if self.logarithmic and not (self.initial > 0 and self.lower >= 0):
            raise InputError(
                f"parameter {self.name}: initial = {self.initial!r} must be positive; or pass logarithmic=False"
            )

    @classmethod
    def material(cls, constant: str, initial: float, **options: Any) -> Parameter:
        """Constant of the material [Pa, or dimensionless], the same in all bodies."""

        def change(problem: Problem, value: float) -> Problem:
            try:
                return _with_material(problem, lambda m: dataclasses.replace(m, **{constant: value}))
            except TypeError:
                raise InputError(f"parameter {constant}: the robot's material has no constant of this name") from None

        return cls(constant, initial, change, **options)

    @classmethod
    def youngs_modulus(cls, initial: float, **options: Any) -> Parameter:
        """Young's modulus at rest [Pa], 3 mu of an incompressible body; all its moduli are scaled together.

        Of several bodies it is that of the first region; the others keep their ratios to it.
        """

        def change(problem: Problem, value: float) -> Problem:
            robot = problem.robot
            first = next(iter(robot.materials.values())) if isinstance(robot, VolumetricRobot) else None
            return _with_material(problem, lambda m: m.stiffened(value / (3.0 * (first or m).shear_modulus)))

        return cls("E", initial, change, **options)

    @classmethod
    def pressure_offset(cls, initial: float = 0.0, step: float = 100.0, **options: Any) -> Parameter:
        """Offset [Pa] added to every prescribed pressure (a gauge that does not read zero)."""

        def change(problem: Problem, value: float) -> Problem:
            act = problem.actuation
            if not isinstance(act, Inflation):
                raise InputError("parameter pressure offset: the actuation prescribes no pressure")
            return dataclasses.replace(problem, actuation=dataclasses.replace(act, pressure=act.pressure + value))

        options = {"lower": -np.inf, "logarithmic": False, **options}
        return cls("pressure offset", initial, change, step=step, **options)

    @classmethod
    def friction(cls, initial: float = 0.3, obstacle: int | None = None, **options: Any) -> Parameter:
        """Coulomb's coefficient of one obstacle, or of all of them.

        Parameters
        ----------
        obstacle
            Its number, from 0; None: all have the same coefficient.
        """

        def change(problem: Problem, value: float) -> Problem:
            around = problem.environment
            if around is None or not around.obstacles:
                raise InputError("parameter friction: the environment has no obstacle")
            if obstacle is not None and not 0 <= obstacle < len(around.obstacles):
                raise InputError(
                    f"parameter friction: there is no obstacle {obstacle}; there are {len(around.obstacles)}"
                )
            rubbed = tuple(
                dataclasses.replace(o, friction=value) if obstacle in (None, i) else o
                for i, o in enumerate(around.obstacles)
            )
            return dataclasses.replace(problem, environment=dataclasses.replace(around, obstacles=rubbed))

        options = {"upper": 3.0, **options}
        return cls("friction" if obstacle is None else f"friction {obstacle}", initial, change, **options)

    @classmethod
    def wall_thickness(cls, initial: float = 1.0, **options: Any) -> Parameter:
        """Factor on the wall between chambers and skin: the chamber walls move, the skin stays."""
        options = {"lower": 0.5, "upper": 1.5, **options}
        return cls("wall factor", initial, lambda p, v: dataclasses.replace(p, robot=thicken(p.robot, v)), **options)


def changed(problem: Problem, parameters: Sequence[Parameter], values: Sequence[float]) -> Problem:
    """Return the problem with parameters at these values."""
    for parameter, value in zip(parameters, values):
        problem = parameter.change(problem, value)
    return problem


def _with_material(problem: Problem, change: Callable[[Material], Material]) -> Problem:
    """Return the problem with every material of its robot changed."""
    robot = problem.robot
    if isinstance(robot, VolumetricRobot):
        made: dict[str, Any] = {"materials": {region: change(m) for region, m in robot.materials.items()}}
    elif isinstance(robot, RodShellRobot):
        both = {"rod_material": robot.rod_material, "shell_material": robot.shell_material}
        made = {key: change(m) for key, m in both.items() if m is not None}
    else:
        raise InputError(
            f"{type(robot).__name__}: has no material that can be fitted; write Parameter(name, initial, change)"
        )
    return dataclasses.replace(problem, robot=dataclasses.replace(robot, **made))


def thicken(robot: Robot, factor: float) -> VolumetricRobot:
    """Return a robot whose walls between chambers and skin are `factor` times as thick.

    Chamber vertices move by (factor - 1) times their distance to the skin, away from it; the vertices between
    follow harmonically (graph Laplacian), the skin stays. Where that flattens an element the moved surfaces are meshed again.

    Raises
    ------
    InputError
        The robot has no chamber, or an element would turn inside out and its surfaces cannot be meshed again.
    """
    if not isinstance(robot, VolumetricRobot):
        raise InputError(f"wall factor: a {type(robot).__name__} has no chamber wall")
    vertices = robot.vertices
    hull = np.unique(topology.boundary_faces(robot.tets))
    inner = np.setdiff1d(np.unique(topology.boundary_faces(robot.body_tets)), hull)
    if len(inner) == 0:
        raise InputError("wall factor: the robot has no chamber wall")
    distance, near = cKDTree(vertices[hull]).query(vertices[inner])
    away = (vertices[inner] - vertices[hull][near]) / np.maximum(distance, MIN_DIVISOR)[:, None]
    move = np.zeros_like(vertices)
    move[inner] = (factor - 1.0) * distance[:, None] * away
    moved = vertices + harmonic(robot.tets, move, np.concatenate([hull, inner]))
    volumes = topology.tet_volumes(moved, robot.tets) / topology.tet_volumes(vertices, robot.tets)
    if volumes.min() > MIN_VOLUME_KEPT_REL:
        return dataclasses.replace(robot, vertices=moved)
    return _meshed_again(robot, moved, factor)


def _meshed_again(robot: VolumetricRobot, moved: Floats, factor: float) -> VolumetricRobot:
    """Return the robot on a new mesh of its moved surfaces, whose tets would be flat or inside out on the old one."""
    import trimesh

    refused = f"wall factor = {factor:.4g} turns elements inside out"
    if robot.remesh is None or robot.layers or robot.fibres or len(robot.materials) > 1:
        raise InputError(f"{refused}; narrow the bounds or refine the mesh")
    held = {key: robot.remesh.keywords[key] for key in ("fixed", "tip", "cables")}
    if any(held[key] is not None and not callable(held[key]) for key in ("fixed", "tip")):
        raise InputError(
            f"{refused}, and what is held is given by numbers of vertices; give a Select, or narrow the bounds"
        )
    before, after = (float(np.median(_edge_lengths(at, robot.body_tets))) for at in (robot.vertices, moved))
    longest = float(_edge_lengths(robot.vertices, robot.body_tets).max()) * min(1.0, after / before)
    surfaces = [trimesh.Trimesh(moved, faces, process=True) for faces in (robot.skin, *robot.chamber_walls)]
    try:
        made = VolumetricRobot.from_surfaces(
            surfaces[0],
            surfaces[1:],
            material=next(iter(robot.materials.values())),
            max_edge=longest,
            name=robot.name,
            **held,
        )
    except InputError as error:
        raise InputError(f"{refused}, and so meshed again: {error}") from None
    return dataclasses.replace(made, units=robot.units)


def _edge_lengths(vertices: Floats, tets: Ints) -> Floats:
    """Lengths [m] of the edges of tets."""
    ends = vertices[topology.mid_edges(tets, 0)[0]]
    return np.asarray(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1))
