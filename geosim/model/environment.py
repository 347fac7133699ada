"""The environment of a robot: gravity, fluid, obstacles, loads, prescribed displacements, rigid plates. SI units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack, cast

import numpy as np

from geosim.arguments import Suggesting, guarded
from geosim.arrays import ArrayLike, Floats, brief, floats, frozen, ints, number, real_array, shown, whole
from geosim.collision.shapes import (
    ObstacleSet,
    Solids,
    check_parameters,
    join_solids,
    kind_of,
    make_solid,
    poses_between,
)
from geosim.errors import InputError
from geosim.geometry.surface import check_surface, read_surface

if TYPE_CHECKING:
    from geosim.model.select import VertexSelection

EARTH_GRAVITY = 9.81  # m/s^2


class ObstacleOptions(TypedDict, total=False):
    """What every shape of `Obstacle` may be given beside its own arguments."""

    friction: float
    motion: Any
    free: bool
    mass: float | None
    released: int


@guarded
@dataclass(frozen=True)
class Obstacle(metaclass=Suggesting):
    """A rigid obstacle; build one with `.sphere`, `.cylinder`, `.box`, `.plane` or `.mesh`.

    One that is `free` is held for its first commands; then it moves, without inertia, by its weight, contact and friction.

    Parameters
    ----------
    shape
        "sphere", "cylinder", "box", "plane" or "mesh"; each is described in `geosim.collision.shapes.KINDS`.
        Others are entry points.
    parameters
        What defines the shape, in metres (see the constructors).
    friction
        Coulomb coefficient, dimensionless.
    motion
        None, translations [m] (k, 3), or poses (k, 4, 4), one for each command, relative to the given place.
    free, mass, released
        Whether it moves by itself; its mass [kg]; and for how many commands it is held before (0: from the start).
    """

    shape: str
    parameters: Any
    friction: float = 0.0
    motion: Any = None
    free: bool = False
    mass: float | None = None
    released: int = 1

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(check_parameters(self.shape, self.parameters)))
        object.__setattr__(self, "friction", number(self.friction, "Obstacle: friction", low=0.0))
        if self.motion is not None:
            motion = real_array(self.motion, "Obstacle: motion")
            if motion.ndim not in (2, 3) or motion.shape[1:] not in ((3,), (4, 4)):
                raise InputError(
                    f"Obstacle: motion has shape {motion.shape}; give translations (k, 3) [m] or poses (k, 4, 4)"
                )
            bad = np.flatnonzero(~np.isfinite(motion.reshape(len(motion), -1)).all(axis=1))
            if len(bad):
                raise InputError(
                    f"Obstacle: motion[{bad[0]}] = {shown(motion[bad[0]].tolist())}{' m' * (motion.ndim == 2)} must be finite; "
                    "repeat the row before where the obstacle stays"
                )
            if motion.ndim == 3:
                _check_rigid(motion)
            object.__setattr__(self, "motion", frozen(motion))
        self._check_free()

    def _check_free(self) -> None:
        """Refuse what a free object cannot be, and what only a free one has."""
        name = f"Obstacle.{self.shape}"
        if not isinstance(self.free, (bool, np.bool_)):
            raise InputError(f"{name}: free = {shown(self.free)} must be True or False")
        whole(self.released, f"{name}: released", least=0)
        if not self.free:
            if self.mass is not None:
                raise InputError(
                    f"{name}: mass = {shown(self.mass)} goes with free=True only; what is held has no weight"
                )
            return
        if not np.isfinite(self.thickness):
            raise InputError(f"{name}: free = True, but a {self.shape} has no end and no weight; give it as a box")
        if self.motion is not None:
            raise InputError(f"{name}: free = True goes by its weight and its contacts; leave motion out")
        if self.mass is None:
            raise InputError(f"{name}: mass is missing; a free object needs one [kg], for example mass=0.05")
        object.__setattr__(self, "mass", number(self.mass, f"{name}: mass [kg]", above=0.0))

    @staticmethod
    def sphere(center: ArrayLike, radius: float, **options: Unpack[ObstacleOptions]) -> Obstacle:
        """Sphere of `radius` [m] about `center` [m]."""
        return Obstacle("sphere", {"center": center, "radius": radius}, **options)

    @staticmethod
    def cylinder(start: ArrayLike, end: ArrayLike, radius: float, **options: Unpack[ObstacleOptions]) -> Obstacle:
        """Solid cylinder of `radius` [m] with its axis from `start` to `end` [m]."""
        return Obstacle("cylinder", {"start": start, "end": end, "radius": radius}, **options)

    @staticmethod
    def box(lower: ArrayLike, upper: ArrayLike, **options: Unpack[ObstacleOptions]) -> Obstacle:
        """Axis-aligned box from `lower` to `upper` [m]."""
        return Obstacle("box", {"lower": lower, "upper": upper}, **options)

    @staticmethod
    def plane(point: ArrayLike, normal: ArrayLike, **options: Unpack[ObstacleOptions]) -> Obstacle:
        """Half-space behind the plane through `point` [m]; `normal` points to the free side."""
        return Obstacle("plane", {"point": point, "normal": normal}, **options)

    @staticmethod
    def mesh(path_or_trimesh: Any, *, units: str | None = None, **options: Unpack[ObstacleOptions]) -> Obstacle:
        """Closed surface from a file (with its `units`) or a trimesh.Trimesh (metres)."""
        if not (isinstance(path_or_trimesh, (str, Path)) or hasattr(path_or_trimesh, "faces")):
            raise InputError(f"Obstacle.mesh: {str(path_or_trimesh)[:60]!r} is neither a path nor a trimesh.Trimesh")
        surface = check_surface(read_surface(path_or_trimesh, units=units, name="obstacle"))
        return Obstacle("mesh", {"vertices": surface.vertices, "faces": surface.faces}, **options)

    @cached_property
    def middle(self) -> Floats:
        """Centre of mass [m] of the shape, filled evenly, where it was defined, (3,)."""
        points, faces = kind_of(self.shape).surface(self.parameters, np.zeros((1, 3)))
        corners = points[faces] - points.mean(axis=0)
        volumes = np.linalg.det(corners)
        return frozen(points.mean(axis=0) + volumes @ corners.sum(axis=1) / (4.0 * volumes.sum()))

    @cached_property
    def radius(self) -> float:
        """Largest distance [m] of its surface from its `middle`."""
        points = kind_of(self.shape).surface(self.parameters, np.zeros((1, 3)))[0]
        return float(np.linalg.norm(points - self.middle, axis=1).max())

    @cached_property
    def solid(self) -> Solids:
        """The shape as flat arrays for the kernels of `geosim.collision.shapes`; a mesh builds its tree here, once."""
        return make_solid(self.shape, self.parameters)

    @property
    def thickness(self) -> float:
        """Depth [m] to which the nearest surface is certainly the one that was entered; inf for a half-space."""
        return kind_of(self.shape).thickness(self.parameters)

    def pose(self, index: int) -> Floats:
        """Pose (4, 4) of the obstacle at command `index`, relative to where it was defined; -1 is the start."""
        pose = np.eye(4)
        if self.motion is not None and index >= 0:
            row = self.motion[min(index, len(self.motion) - 1)]
            if row.shape == (3,):
                pose[:3, 3] = row
            else:
                pose = row.copy()
        return pose


def unlikely_obstacles(obstacles: Sequence[Obstacle], vertices: Floats) -> list[str]:
    """Say which obstacles look as if given in another unit, beside a robot with these vertices [m], (n, 3).

    The size of an obstacle is its `thickness`: a floor may be as long and wide as it likes.
    """
    size = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    max_thickness_rel = 20.0  # over the robot's size: a sphere of 80 times its diameter, a box 100 times as thick
    return [
        f"obstacles[{i}]: the {one.shape} is {one.thickness / size:.3g} times as thick as the robot is large ({size:.3g} m); "
        "check its unit: 10 mm is 0.01 m"
        for i, one in enumerate(obstacles)
        if max_thickness_rel * size < one.thickness < np.inf
    ]


def _check_rigid(poses: Floats) -> None:
    """Refuse poses (k, 4, 4) that scale, shear or mirror."""
    turns = poses[:, :3, :3]
    stray = np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    rotation_rounding = 1e-6  # what rounding in a file leaves of R R^T = 1
    if (stray > rotation_rounding).any() or (np.abs(poses[:, 3] - [0.0, 0.0, 0.0, 1.0]) > rotation_rounding).any():
        raise InputError(
            f"Obstacle: motion: pose {int(np.argmax(stray)) + 1} scales or shears (R R^T is off the identity by "
            f"{stray.max():.2g}); give rotations, [0, 0, 0, 1] in the last row"
        )
    mirrored = np.flatnonzero(np.linalg.det(turns) < 0)
    if len(mirrored):
        raise InputError(f"Obstacle: motion: pose {mirrored[0] + 1} mirrors (its determinant is -1); give a rotation")


@guarded
@dataclass(frozen=True)
class Load:
    """A load; build one with `.force`, `.traction`, `.pressure` or, on rods, `.torque` and `.moment`.

    `kind` is the name of that method, `where` its vertices or faces, `value` its force, traction or pressure, a row a command.
    """

    kind: str
    where: Any
    value: Floats

    __repr__ = brief

    @staticmethod
    def force(vertices: VertexSelection, total_force: ArrayLike) -> Load:
        """Total force [N], (3,) or one a command (k, 3), spread consistently over vertices.

        Vertices (ids, bool array, `Select` or callable) that span faces of the skin share it by area, those that
        span edges by length, others equally.
        """
        return Load("force", vertices, _vectors(total_force, "Load.force: total_force"))

    @staticmethod
    def traction(faces: ArrayLike, t: ArrayLike) -> Load:
        """Dead traction t [Pa], (3,) or (k, 3), per rest area of `faces` (m, 3) vertex ids of the body's surface."""
        return Load("traction", ints(faces, "Load.traction: faces", (None, 3)), _vectors(t, "Load.traction: t"))

    @staticmethod
    def pressure(faces: ArrayLike, p: ArrayLike) -> Load:
        """Follower pressure p [Pa], a number or one a command (k,), on `faces` (m, 3) vertex ids of the body's surface.

        Positive pushes against the outward normal. It acts on the deformed faces, whichever way their ids go round.
        """
        value = np.atleast_1d(real_array(p, "Load.pressure: p"))
        return Load(
            "pressure", ints(faces, "Load.pressure: faces", (None, 3)), floats(value, "Load.pressure: p", (None,))
        )

    @staticmethod
    def torque(edges: Any, torque: Any) -> Load:
        """Torque [N m], a number or one a command (k,), on each of some edges of rods (e,), about their own directions.

        It turns with the edge; right-handed about the way from its first to its second vertex.
        """
        value = np.atleast_1d(real_array(torque, "Load.torque: torque"))
        return Load("torque", ints(edges, "Load.torque: edges", (None,)), floats(value, "Load.torque: torque", (None,)))

    @staticmethod
    def moment(edges: Any, moment: ArrayLike) -> Load:
        """Moment [N m] about fixed axes, (3,) or one a command (k, 3), on each of some edges of rods (e,).

        It does not turn with the edge, as `torque` does: what bends and what twists the edge depends on where that points.
        """
        return Load("moment", ints(edges, "Load.moment: edges", (None,)), _vectors(moment, "Load.moment: moment"))

    def at(self, index: int) -> Floats:
        """Return the force [N], moment [N m], traction [Pa] (3,), torque [N m] or pressure [Pa] () of command `index`."""
        return cast(Floats, self.value[min(index, len(self.value) - 1)])


def _vectors(value: Any, name: str, *, finite: bool = True) -> Floats:
    """One vector, or one a command, as (k, 3)."""
    array = real_array(value, name)
    if array.ndim == 1 and len(array) != 3:
        raise InputError(
            f"{name} = {shown(array.tolist())} has {len(array)} components; give [x, y, z], or a row a command"
        )
    return floats([array] if array.ndim == 1 else array, name, (None, 3), finite=finite)


@guarded
@dataclass(frozen=True)
class Prescribed:
    """Displacements prescribed on vertices, relative to rest.

    Parameters
    ----------
    vertices
        Ids, bool array, `Select` or callable.
    displacement
        [m], (3,) or one a command (k, 3), or one for every vertex (k, v, 3); nan leaves a component free.
    """

    vertices: Any
    displacement: Any

    __repr__ = brief

    def __post_init__(self) -> None:
        array = real_array(self.displacement, "Prescribed: displacement")
        if array.ndim == 1:
            array = array[None]
        if array.ndim not in (2, 3) or array.shape[-1] != 3 or array.size == 0 or np.isinf(array).any():
            raise InputError(
                f"Prescribed: displacement = {shown(np.array(self.displacement).tolist())} m has shape "
                f"{np.shape(self.displacement)}; give [x, y, z], (k, 3) or (k, vertices, 3), finite or nan where free"
            )
        object.__setattr__(self, "displacement", frozen(array.copy()))

    def at(self, index: int, count: int) -> Floats:
        """Return the displacements of command `index` for `count` vertices [m], shape (count, 3)."""
        row = self.displacement[min(index, len(self.displacement) - 1)]
        if row.ndim == 2 and len(row) != count:
            raise InputError(f"Prescribed: {len(row)} displacements for {count} vertices")
        return np.broadcast_to(row, (count, 3))


@guarded
@dataclass(frozen=True)
class RigidGroup:
    """Vertices that move as one rigid body: a bonded plate or disc, which may carry a load or follow a prescribed pose.

    A chamber that no body closes there is closed by the plate if its rim belongs to the group.

    Parameters
    ----------
    vertices
        Ids, bool array, `Select` or callable; at least three that are not on one line.
    displacement
        Of the reference point [m], (3,) or one a command (k, 3); nan leaves a component free (default: all).
    rotation
        Rotation vector from rest [rad], about fixed axes, (3,) or (k, 3); None: it turns freely. From one command to
        the next the vector changes linearly.
    force
        Dead force at the reference point [N], (3,) or (k, 3).
    moment
        Dead moment [N m], about fixed axes, (3,) or (k, 3).
    point
        The reference point at rest [m], (3,); default the mean of the vertices by the skin's area among them.
    """

    vertices: Any
    displacement: Any = (np.nan, np.nan, np.nan)
    rotation: Any = None
    force: Any = (0.0, 0.0, 0.0)
    moment: Any = (0.0, 0.0, 0.0)
    point: Any = None

    __repr__ = brief

    def __post_init__(self) -> None:
        for key in ("displacement", "rotation", "force", "moment"):
            if getattr(self, key) is None:
                continue
            array = _vectors(getattr(self, key), f"RigidGroup: {key}", finite=key != "displacement")
            if np.isinf(array).any() or (np.isfinite(array) != np.isfinite(array[:1])).any():
                raise InputError(
                    f"RigidGroup: {key} must prescribe the same components in every command; nan for the free ones"
                )
            object.__setattr__(self, key, array)
        if self.point is not None:
            object.__setattr__(self, "point", floats(self.point, "RigidGroup: point", (3,)))

    @property
    def held(self) -> Any:
        """Which of its six degrees of freedom are prescribed: displacement, then rotation; bool (6,)."""
        return np.concatenate([np.isfinite(self.displacement[0]), np.full(3, self.rotation is not None)])

    def at(self, key: str, index: int) -> Floats:
        """Return displacement, rotation, force or moment of command `index`, (3,); 0 where free."""
        value = getattr(self, key)
        return np.zeros(3) if value is None else np.nan_to_num(value[min(index, len(value) - 1)])


@guarded
@dataclass(frozen=True)
class Fluid:
    """A fluid around the robot: density [kg/m^3], dynamic viscosity [Pa s], drag coefficient [-].

    Around rods and shells it lifts and slows. Around a volumetric robot at rest it fills all space. Its pressure acts on the
    outer skin, is zero at the height of the origin, and grows along gravity. Chambers hold gas without weight; their gauge
    pressure counts from that zero. Viscosity and drag are refused there.
    """

    density: float
    viscosity: float = 0.0
    drag_coefficient: float = 0.0

    def __post_init__(self) -> None:
        for key in ("density", "viscosity", "drag_coefficient"):
            object.__setattr__(self, key, number(getattr(self, key), f"Fluid: {key}", low=0.0))


@guarded
@dataclass(frozen=True)
class Environment:
    """Everything around the robot; gravity and constant loads act in full in every frame.

    Parameters
    ----------
    gravity
        [m/s^2], shape (3,).
    obstacles, loads, prescribed
        Sequences of `Obstacle`, `Load`, `Prescribed`.
    fluid
        A `Fluid` or None.
    self_contact
        Whether the robot's surfaces feel each other.
    self_friction
        Coulomb coefficient between them.
    exclude_pairs
        Pairs (body or chamber names, or vertex sets) that never touch.
    rigid_groups
        Sequence of `RigidGroup`.
    """

    gravity: Any = (0.0, 0.0, 0.0)
    obstacles: Any = ()
    loads: Any = ()
    prescribed: Any = ()
    fluid: Fluid | None = None
    self_contact: bool = True
    self_friction: float = 0.0
    exclude_pairs: Any = ()
    rigid_groups: Any = ()
    _kinds: ClassVar[dict[str, type]] = {
        "obstacles": Obstacle,
        "loads": Load,
        "prescribed": Prescribed,
        "rigid_groups": RigidGroup,
    }

    __repr__ = brief

    def __post_init__(self) -> None:
        if np.ndim(self.gravity) == 0:
            raise InputError(f"gravity = {shown(self.gravity)} has no direction; write gravity = [0, 0, -9.81] [m/s^2]")
        object.__setattr__(self, "gravity", floats(self.gravity, "gravity", (3,)))
        size = float(np.linalg.norm(self.gravity))
        max_gravity = 1000.0  # [m/s^2], a hundred times the Earth's: more is a wrong unit (9810 mm/s^2)
        if size > max_gravity:
            raise InputError(
                f"gravity: {self.gravity.tolist()} m/s^2 is {size / EARTH_GRAVITY:.0f} times the Earth's; give m/s^2, "
                f"for example (0, 0, -9.81)"
            )
        for key, kind in self._kinds.items():
            given: Any = getattr(self, key)
            if not isinstance(given, (kind, Sequence)) or isinstance(given, str):
                raise InputError(f"Environment: {key} = {shown(given)} must be a sequence, each a {kind.__name__}")
            items: tuple[Any, ...] = tuple(given) if isinstance(given, Sequence) else (given,)
            for item in items:
                if not isinstance(item, kind):
                    raise InputError(f"Environment: {key} holds {str(item)[:60]!r}, which is not a {kind.__name__}")
            object.__setattr__(self, key, items)
        if self.fluid is not None and not isinstance(self.fluid, Fluid):
            raise InputError(f"Environment: fluid {self.fluid!r} is not a Fluid")
        if not isinstance(self.self_contact, (bool, np.bool_)):
            raise InputError(f"Environment: self_contact = {self.self_contact!r} must be True or False")
        object.__setattr__(self, "self_friction", number(self.self_friction, "Environment: self_friction", low=0.0))
        try:
            object.__setattr__(self, "exclude_pairs", tuple(self.exclude_pairs))
        except TypeError:
            raise InputError(f"Environment: exclude_pairs = {shown(self.exclude_pairs)} must be pairs") from None

    def refuse_torques(self) -> None:
        """Refuse torques on behalf of a robot that has no edges of rods.

        Raises
        ------
        InputError
            Which load is a torque.
        """
        for i, load in enumerate(self.loads):
            if load.kind in ("torque", "moment"):
                raise InputError(f"loads[{i}]: Load.{load.kind} acts on edges of rods; use Load.traction on this robot")

    def refuse_pressures(self, solver: str) -> None:
        """Refuse follower pressures on behalf of a solver that has dead loads alone.

        Raises
        ------
        InputError
            Which load is a pressure.
        """
        for i, load in enumerate(self.loads):
            if load.kind == "pressure":
                raise InputError(
                    f"loads[{i}]: {solver} has no Load.pressure; use EnergyShapeSolver, or Load.traction where faces turn little"
                )

    def refuse_free_objects(self, solver: str) -> None:
        """Refuse free objects on behalf of a solver that moves none.

        Raises
        ------
        InputError
            Which obstacle is free.
        """
        for i, obstacle in enumerate(self.obstacles):
            if obstacle.free:
                raise InputError(
                    f"obstacles[{i}]: free = True, but {solver} moves no objects; leave free out, or use EnergyShapeSolver"
                )

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows of everything that is given command by command, under its name; one row is the same in all."""
        tables = {f"obstacles[{i}]: motion": o.motion for i, o in enumerate(self.obstacles) if o.motion is not None}
        tables |= {f"loads[{i}]: its value": load.value for i, load in enumerate(self.loads)}
        tables |= {f"prescribed[{i}]: displacement": held.displacement for i, held in enumerate(self.prescribed)}
        for i, group in enumerate(self.rigid_groups):
            given = {key: getattr(group, key) for key in ("displacement", "rotation", "force", "moment")}
            tables |= {f"rigid_groups[{i}]: {key}": value for key, value in given.items() if value is not None}
        return {name: len(table) for name, table in tables.items()}

    @cached_property
    def obstacle_set(self) -> ObstacleSet:
        """The obstacles as flat arrays."""
        return ObstacleSet(
            join_solids([o.solid for o in self.obstacles]),
            *(
                frozen(np.array([getattr(o, key) for o in self.obstacles], dtype=float))
                for key in ("friction", "thickness")
            ),
        )

    def poses(self, index: int, share: float = 1.0) -> Floats:
        """Poses (o, 4, 4) of the obstacles at a share of the way from command `index` - 1 to `index`; -1 is the start."""
        before, after = (np.array([o.pose(i) for o in self.obstacles]).reshape(-1, 4, 4) for i in (index - 1, index))
        return poses_between(before, after, share)
