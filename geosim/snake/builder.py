"""Builds a multibody robot part by part: tets, bodies, joints, attachments, distances, lines, wheels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, floats, ints, number, real_array, whole
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.material.materials import LinearElastic
from geosim.snake.model import ID_ARRAYS, REAL_ARRAYS, MultibodyRobot
from geosim.snake.rotation import matrices

# What a part has where nothing else is said: coefficient of friction; stiffness of a point that is tied [N/m], of an attached
# particle [N/m], and of a direction that a joint holds [N m].
FRICTION, JOINT_STIFFNESS, ATTACHMENT_STIFFNESS, AXIS_STIFFNESS = 1.0, 1e6, 1e5, 1e3


def box_inertia(mass: float, size: Any) -> Floats:
    """Principal moments of a box [kg m^2] of full `size` [m] (3,)."""
    a, b, c = np.asarray(size, dtype=float) ** 2
    return mass / 12.0 * np.array([b + c, a + c, a + b])


def disc_inertia(mass: float, radius: float, width: float) -> Floats:
    """Principal moments of a disc [kg m^2] with its axle along y."""
    across = mass * (3.0 * radius**2 + width**2) / 12.0
    return np.array([across, 0.5 * mass * radius**2, across])


def _box_mesh(half: Floats) -> tuple[Floats, Ints]:
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return signs * half, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], dtype=np.int64)


def _disc_mesh(radius: float, width: float, sides: int = 20) -> tuple[Floats, Ints]:
    angle = 2 * np.pi * np.arange(sides) / sides
    ring = np.column_stack([radius * np.cos(angle), np.zeros(sides), radius * np.sin(angle)])
    side = np.array([0.0, 0.5 * width, 0.0])
    vertices = np.vstack([ring - side, ring + side, -side[None], side[None]])
    i, j = np.arange(sides), (np.arange(sides) + 1) % sides
    low, high = np.full(sides, 2 * sides), np.full(sides, 2 * sides + 1)
    return vertices, np.vstack(
        [
            np.column_stack([i, i + sides, j]),
            np.column_stack([j, i + sides, j + sides]),
            np.column_stack([low, i, j]),
            np.column_stack([high, j + sides, i + sides]),
        ]
    )


def _unit(axis: Any, name: str) -> Floats:
    """Return the direction of an axis (3,), of length 1."""
    given = floats(axis, name, (3,), most=1e100)
    if not given.any():
        raise InputError(f"{name}: the zero vector has no direction")
    return given / np.linalg.norm(given)


@guarded
class MultibodyBuilder:
    """Collects parts and returns a `MultibodyRobot`; every `add_...` returns the ids it made.

    Nodes of points: `particle ids` as they are, bodies through `body(b)`, the world is None.
    """

    def __init__(self, name: str = "multibody") -> None:
        self.name = name
        self._lists: dict[str, list[Any]] = {}
        self._chambers = 0
        self._joints = 0
        self._fixed: list[tuple[str, int]] = []
        self._looks: list[tuple[int, Floats, Ints]] = []

    def _put(self, key: str, *values: Any) -> None:
        self._lists.setdefault(key, []).extend(values)

    def _count(self, key: str) -> int:
        return len(self._lists.get(key, ()))

    def add_particles(self, positions: Any, mass: float = 0.0, velocity: Any = (0.0, 0.0, 0.0)) -> Ints:
        """Add particles at positions [m] (k, 3) with a mass [kg] each, besides that of their tets."""
        positions = floats(positions, "add_particles: positions", (None, 3))
        first = self._count("particles")
        self._put("particles", *positions)
        self._put("particle_masses", *[number(mass, "add_particles: mass [kg]", low=0.0)] * len(positions))
        moving = real_array(velocity, "add_particles: velocity")
        moving = np.tile(moving, (len(positions), 1)) if moving.ndim == 1 else moving
        self._put("particle_velocities", *floats(moving, "add_particles: velocity", (len(positions), 3)))
        return np.arange(first, first + len(positions))

    def add_tets(self, vertices: Any, tets: Any, material: LinearElastic) -> Ints:
        """Add a soft part: vertices [m] (k, 3), tets (m, 4) into them; its mass is lumped. Returns the particles."""
        if not isinstance(material, LinearElastic):
            raise InputError(f"add_tets: material {str(material)[:60]!r} must be a LinearElastic")
        ids = self.add_particles(vertices)
        vertices = np.asarray(vertices, dtype=float)
        tets = ints(tets, "add_tets: tets", (None, 4), below=len(ids))
        volumes = topology.tet_volumes(vertices, tets)
        if len(tets) == 0 or volumes.min() <= 0:
            raise InputError("add_tets: every tet must have a positive volume; swap two vertices of a negative one")
        masses = np.zeros(len(ids))
        np.add.at(masses, tets, (material.density * volumes / 4.0)[:, None])
        for i, m in zip(ids, masses):
            self._lists["particle_masses"][i] += m
        self._put("tets", *(tets + ids[0]))
        self._put("youngs_modulus", *[material.youngs_modulus] * len(tets))
        self._put("poisson_ratio", *[material.poisson_ratio] * len(tets))
        return ids

    def add_body(
        self,
        mass: float,
        inertia: Any,
        position: Any,
        orientation: Any = (1.0, 0.0, 0.0, 0.0),
        *,
        velocity: Any = (0.0, 0.0, 0.0),
        spin: Any = (0.0, 0.0, 0.0),
        size: Any = None,
        solid: bool = False,
        friction: float = FRICTION,
        disc: tuple[float, float] | None = None,
    ) -> int:
        """Add a rigid body.

        Parameters
        ----------
        mass, inertia
            [kg]; principal moments [kg m^2] (3,).
        position, orientation
            Centre [m]; quaternion (w, x, y, z), normalised here.
        velocity, spin
            [m/s] and [rad/s] in the world.
        size
            Full size [m] of the box that is shown.
        solid
            Whether the box is touched by the probes of other bodies and has probes on its corners.
        friction
            Coefficient of the box; a contact has the geometric mean of its two sides.
        disc
            (radius, width) [m] of a wheel that is shown, axle along the body's y.
        """
        b = self._count("body_masses")
        q = floats(orientation, "add_body: orientation", (4,))
        if np.linalg.norm(q) == 0:
            raise InputError("add_body: orientation is the zero quaternion; (1, 0, 0, 0) is no rotation")
        self._put("body_masses", float(mass))
        self._put("body_inertias", floats(inertia, "add_body: inertia", (3,)))
        self._put("body_positions", floats(position, "add_body: position", (3,)))
        self._put("body_orientations", q / np.linalg.norm(q))
        self._put("body_velocities", floats(velocity, "add_body: velocity", (3,)))
        self._put("body_spins", floats(spin, "add_body: spin", (3,)))
        if size is not None:
            half = 0.5 * floats(size, "add_body: size", (3,))
            self._looks.append((b, *_box_mesh(half)))
            if solid:
                self._put("boxes", b)
                self._put("box_sizes", half)
                self._put("box_friction", number(friction, "friction", low=0.0))
                for corner in _box_mesh(half)[0]:
                    self._add_probe(("body", b), corner, np.zeros(3), 0.0, friction)
        if disc is not None:
            self._looks.append((b, *_disc_mesh(*disc)))
        return b

    def _particles(self, ids: Any, name: str) -> list[int]:
        """Return ids of particles that are there."""
        rows = np.atleast_1d(ids) if isinstance(ids, (int, np.integer)) else ids
        return list(map(int, ints(rows, f"{name}: particles", (None,), below=self._count("particles"))))

    def _body(self, body: int, name: str) -> tuple[str, int]:
        """Return the node of a body that is there."""
        return "body", whole(body, f"{name}: body", least=0, most=self._count("body_masses") - 1)

    def _add_probe(self, node: tuple[str, int], center: Any, axis: Any, radius: float, friction: float) -> None:
        self._put("probes", node)
        self._put("probe_centers", floats(center, "center", (3,)))
        self._put("probe_axes", floats(axis, "axis", (3,)))
        self._put("probe_radii", number(radius, "radius [m]", low=0.0))
        self._put("probe_friction", number(friction, "friction", low=0.0))

    def add_ball(self, body: int, center: Any, radius: float, friction: float = FRICTION) -> None:
        """Let a ball fixed in a body touch the surroundings: centre in its frame [m], radius [m]."""
        self._add_probe(self._body(body, "add_ball"), center, np.zeros(3), radius, friction)

    def add_wheel(self, body: int, radius: float, friction: float = FRICTION, axis: Any = (0.0, 1.0, 0.0)) -> None:
        """Let the rim of a wheel about a body's centre touch the surroundings."""
        axis = _unit(axis, "add_wheel: axis")
        self._add_probe(self._body(body, "add_wheel"), np.zeros(3), axis, radius, friction)

    def add_particle_contact(self, particles: Any, friction: float = FRICTION, radius: float = 0.0) -> None:
        """Let particles touch the surroundings."""
        for p in self._particles(particles, "add_particle_contact"):
            self._add_probe(("particle", p), np.zeros(3), np.zeros(3), radius, friction)

    def _position(self, body: int) -> tuple[Floats, Floats]:
        body = self._body(body, "a joint or an attachment")[1]
        R = matrices(np.array([self._lists["body_orientations"][body]]))[0]
        return self._lists["body_positions"][body], R

    def _local(self, body: int | None, point: Any) -> Floats:
        place = floats(point, "point", (3,))
        if body is None:
            return place
        X, R = self._position(body)
        return np.asarray(R.T @ (place - X))

    def _direction(self, body: int | None, vector: Any) -> Floats:
        return (
            np.asarray(vector, dtype=float)
            if body is None
            else self._position(body)[1].T @ np.asarray(vector, dtype=float)
        )

    def attach(self, particles: Any, body: int | None, stiffness: float = ATTACHMENT_STIFFNESS) -> None:
        """Attach particles where they are to a body (None: the world), Eq. (6); [N/m] each."""
        for p in self._particles(particles, "attach"):
            local = self._local(body, self._lists["particles"][p])
            self._add_pair(("particle", p), np.zeros(3), self._body_node(body), local, stiffness, "attachment")

    def _body_node(self, body: int | None) -> tuple[str, int]:
        return ("world", -1) if body is None else self._body(body, "a joint or an attachment")

    def _add_pair(
        self, node_a: tuple[str, int], a: Any, node_b: tuple[str, int], b: Any, stiffness: float, kind: str
    ) -> None:
        self._put("pairs", (node_a, node_b))
        self._put("pair_points", (np.asarray(a, dtype=float), np.asarray(b, dtype=float)))
        self._put("pair_stiffness", number(stiffness, "stiffness [N/m]", low=0.0))
        self._put("pair_kinds", kind)

    def add_ball_joint(self, body_a: int, body_b: int | None, point: Any, stiffness: float = JOINT_STIFFNESS) -> None:
        """Tie two bodies (None: the world) together at a point of the world [m]."""
        self._add_pair(
            self._body(body_a, "a joint"),
            self._local(body_a, point),
            self._body_node(body_b),
            self._local(body_b, point),
            stiffness,
            "joint",
        )
        self._joints += 1

    def add_hinge(
        self,
        body_a: int | None,
        body_b: int,
        point: Any,
        axis: Any,
        *,
        stiffness: float = JOINT_STIFFNESS,
        axis_stiffness: float = AXIS_STIFFNESS,
        spring: float = 0.0,
        target: float = 0.0,
        damping: float = 0.0,
        limits: tuple[float, float] | tuple[float, float, float] | None = None,
    ) -> None:
        """Add a hinge at a point [m] about an axis of the world.

        Parameters
        ----------
        body_a, body_b
            The angle is that of `body_b` about the axis of `body_a` (None: the world), zero as built.
        stiffness, axis_stiffness
            Of the three anchor rows [N/m] and the two axis rows [N m].
        spring, target, damping
            Optional motor: stiffness [N m/rad] towards an angle [rad], damping [N m s/rad].
        limits
            Optional lower and upper angle [rad], and how stiffly they hold [N m/rad] (10, unless given).
        """
        axis = _unit(axis, "add_hinge: axis")
        if limits is not None and len(limits) not in (2, 3):
            raise InputError(
                f"add_hinge: limits = {limits} must be lower and upper angle [rad], and perhaps a stiffness [N m/rad]"
            )
        u = np.cross(axis, np.eye(3)[int(np.argmin(abs(axis)))])
        u /= np.linalg.norm(u)
        self.add_ball_joint(body_b, body_a, point, stiffness)
        for v in (u, np.cross(axis, u)):
            self._add_axis(body_a, axis, body_b, v, axis_stiffness)
        if spring or damping or limits is not None:
            held = (*limits, 10.0)[:3] if limits is not None else (-np.inf, np.inf, 0.0)
            self._put("hinges", tuple(-1 if b is None else b for b in (body_a, body_b)))
            self._put("hinge_frames", [[self._direction(b, axis), self._direction(b, u)] for b in (body_a, body_b)])
            self._put("hinge_gains", (spring, target, damping, *held))

    def _add_axis(self, a: int | None, u: Any, b: int | None, w: Any, stiffness: float) -> None:
        self._put("axes", tuple(-1 if k is None else k for k in (a, b)))
        self._put("axis_vectors", (self._direction(a, u), self._direction(b, w)))
        self._put("axis_stiffness", float(stiffness))

    def add_fixed_joint(
        self,
        body_a: int | None,
        body_b: int,
        point: Any,
        *,
        stiffness: float = JOINT_STIFFNESS,
        axis_stiffness: float = AXIS_STIFFNESS,
    ) -> None:
        """Weld a body to another (None: the world) at a point of the world [m]."""
        self.add_ball_joint(body_b, body_a, point, stiffness)
        e = np.eye(3)
        for i in range(3):
            self._add_axis(body_a, e[i], body_b, e[(i + 1) % 3], axis_stiffness)

    def add_distances(self, ends: Any, stiffness: float) -> None:
        """Hold the distances between particles (k, 2) as they are; [N/m]."""
        self._add_springs(ends, stiffness, -1, 1.0)

    def add_chamber(self) -> int:
        """Add a pressure chamber; returns its id."""
        self._chambers += 1
        return self._chambers - 1

    def add_line(self, particles: Any, chamber: int, stiffness: float, modulus: float) -> None:
        """Add an actuation line through particles (k,): r = r0 (1 + P / modulus), Eqs. (3) and (4); [N/m] each, [Pa]."""
        ids = ints(particles, "add_line: particles", (None,), below=self._count("particles"))
        chamber = whole(chamber, "add_line: chamber", least=0, most=self._chambers - 1)
        self._add_springs(np.column_stack([ids[:-1], ids[1:]]), stiffness, chamber, modulus)

    def _add_springs(self, ends: Any, stiffness: float, chamber: int, modulus: float) -> None:
        ends = ints(ends, "distance constraint", (None, 2), below=self._count("particles"))
        places = self._lists[
            "particles"
        ]  # of thousands, and this is called for every line: only the ends are looked at
        x = np.array([[places[i] for i in pair] for pair in ends]).reshape(-1, 2, 3)
        rest = np.linalg.norm(x[:, 0] - x[:, 1], axis=1)
        if len(rest) and rest.min() == 0:
            raise InputError("distance constraint: its two particles are at the same place")
        self._put("springs", *ends)
        self._put("spring_rest", *rest)
        self._put("spring_stiffness", *[number(stiffness, "stiffness [N/m]", low=0.0)] * len(ends))
        self._put("spring_chamber", *[chamber] * len(ends))
        self._put("spring_modulus", *[number(modulus, "modulus [Pa]")] * len(ends))

    def fix_particles(self, particles: Any) -> None:
        """Hold particles in place."""
        self._fixed += [("particle", p) for p in self._particles(particles, "fix_particles")]

    def fix_body(self, body: int) -> None:
        """Hold a body in place."""
        self._fixed.append(self._body(body, "fix_body"))

    def build(self, kind: type[MultibodyRobot] = MultibodyRobot, **extra: Any) -> Any:
        """Return the robot, a `MultibodyRobot` or another `kind` of it with its `extra` fields.

        Raises
        ------
        InputError
            A value is impossible: the sentence names it.
        """
        n, b = self._count("particles"), self._count("body_masses")
        first = {"particle": 0, "body": n, "world": 0}
        node: Callable[[tuple[str, int]], int] = lambda item: first[item[0]] + item[1]  # noqa: E731
        values: dict[str, Any] = {}
        for key, shape in {**REAL_ARRAYS, **{key: shape for key, (shape, _) in ID_ARRAYS.items()}}.items():
            given = self._lists.get(key, [])
            if key in ("pairs", "probes"):
                given = [[node(end) for end in item] if key == "pairs" else node(item) for item in given]
            wanted = [-1 if isinstance(a, str) else a for a in shape]
            values[key] = np.array(given, dtype=np.int64 if key in ID_ARRAYS else np.float64).reshape(wanted)
        values["pair_kinds"] = tuple(self._lists.get("pair_kinds", ()))
        fixed = np.zeros(n + b, dtype=bool)
        fixed[[node(i) for i in self._fixed]] = True
        return kind(
            **values,
            joints=self._joints,
            chambers=self._chambers,
            fixed=fixed,
            looks=tuple(self._looks),
            name=self.name,
            **extra,
        )
