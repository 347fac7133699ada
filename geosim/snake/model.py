"""Multibody robots: particles, tetrahedra, rigid bodies, constraints, probes; the builder that puts them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import NO_EDGES, NO_TETS, Bools, Floats, Ints, floats, frozen, ints
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.display import Displayed
from geosim.snake.rotation import matrices

REAL_ARRAYS: dict[str, tuple[str | int, ...]] = {
    "particles": ("n", 3),
    "particle_masses": ("n",),
    "particle_velocities": ("n", 3),
    "youngs_modulus": ("t",),
    "poisson_ratio": ("t",),
    "spring_rest": ("s",),
    "spring_stiffness": ("s",),
    "spring_modulus": ("s",),
    "body_masses": ("b",),
    "body_inertias": ("b", 3),
    "body_positions": ("b", 3),
    "body_orientations": ("b", 4),
    "body_velocities": ("b", 3),
    "body_spins": ("b", 3),
    "pair_points": ("p", 2, 3),
    "pair_stiffness": ("p",),
    "axis_vectors": ("a", 2, 3),
    "axis_stiffness": ("a",),
    "hinge_frames": ("j", 2, 2, 3),
    "hinge_gains": ("j", 6),
    "probe_centers": ("c", 3),
    "probe_axes": ("c", 3),
    "probe_radii": ("c",),
    "probe_friction": ("c",),
    "box_sizes": ("k", 3),
    "box_friction": ("k",),
}
# Fields of ids: their shape, and what they number.
ID_ARRAYS: dict[str, tuple[tuple[str | int, ...], str]] = {
    "tets": (("t", 4), "n"),
    "springs": (("s", 2), "n"),
    "spring_chamber": (("s",), "chambers"),
    "pairs": (("p", 2), "nodes"),
    "axes": (("a", 2), "b"),
    "hinges": (("j", 2), "b"),
    "probes": (("c",), "nodes"),
    "boxes": (("k",), "b"),
}
_POSITIVE = ("particle_masses", "body_masses", "body_inertias", "youngs_modulus")
_NOT_NEGATIVE = (
    *("spring_stiffness", "spring_rest", "pair_stiffness", "axis_stiffness"),
    *("probe_friction", "probe_radii", "box_friction"),
)


@guarded
@dataclass(frozen=True)
class MultibodyRobot(Displayed):
    """Soft and rigid parts tied together by compliant constraints, section IV of [Gasoto2019].

    Build one with `MultibodyBuilder` or `make_snake`. A *node* is a particle (0 .. n - 1), a body (n + b) or
    the world (-1); a *point* of a node is given in the frame of the body, or in the world.

    Parameters
    ----------
    particles
        Rest positions [m], shape (n, 3).
    particle_masses
        [kg], shape (n,).
    tets
        Particle ids, positively oriented, shape (m, 4).
    youngs_modulus, poisson_ratio
        [Pa], [-], shape (m,).
    springs, spring_rest, spring_stiffness
        Distance constraints: ids (s, 2), rest lengths [m], stiffness [N/m] (inverse compliance).
    spring_chamber
        Chamber whose pressure drives the spring's rest length, Eq. (4), or -1, shape (s,).
    spring_modulus
        Modulus E of Eq. (4) [Pa], shape (s,).
    body_masses, body_inertias
        [kg] (b,); principal moments [kg m^2] (b, 3).
    body_positions, body_orientations
        Centres [m] (b, 3), unit quaternions (w, x, y, z) (b, 4).
    pairs, pair_points, pair_stiffness
        Point-to-point constraints: nodes (p, 2), points [m] (p, 2, 3), [N/m] (p,).
    pair_kinds
        "attachment" or "joint", length p.
    axes, axis_vectors, axis_stiffness
        Rows u . w = 0 between vectors of two bodies: bodies (a, 2), vectors (a, 2, 3), [N m] (a,).
    hinges, hinge_frames, hinge_gains
        Springs of hinges: bodies (j, 2), (axis, reference) of each (j, 2, 2, 3), gains (j, 6): stiffness
        [N m/rad], target [rad], damping [N m s/rad], lower and upper limit [rad], stiffness of the limits.
    joints
        Number of hinges and fixed joints.
    probes, probe_centers, probe_axes, probe_radii, probe_friction
        What can touch: nodes (c,), centres (c, 3), wheel axes or zero (c, 3), radii [m], coefficients.
    boxes, box_sizes, box_friction
        Bodies (k,) that probes of other bodies can touch as boxes about their centre; half sizes [m] (k, 3).
    fixed
        Nodes held in place, shape (n + b,).
    chambers
        Number of pressure chambers.
    looks
        (body, vertices [m], faces) of the solids shown for rigid bodies.
    particle_velocities, body_velocities, body_spins
        At the start [m/s], [m/s], [rad/s] (world).
    name
        Shown in summaries.
    notices
        One line for everything that was repaired on the way in.
    """

    particles: Floats
    particle_masses: Floats
    tets: Ints
    youngs_modulus: Floats
    poisson_ratio: Floats
    springs: Ints
    spring_rest: Floats
    spring_stiffness: Floats
    spring_chamber: Ints
    spring_modulus: Floats
    body_masses: Floats
    body_inertias: Floats
    body_positions: Floats
    body_orientations: Floats
    pairs: Ints
    pair_points: Floats
    pair_stiffness: Floats
    pair_kinds: tuple[str, ...]
    axes: Ints
    axis_vectors: Floats
    axis_stiffness: Floats
    hinges: Ints
    hinge_frames: Floats
    hinge_gains: Floats
    joints: int
    probes: Ints
    probe_centers: Floats
    probe_axes: Floats
    probe_radii: Floats
    probe_friction: Floats
    boxes: Ints
    box_sizes: Floats
    box_friction: Floats
    fixed: Bools
    chambers: int
    looks: tuple[tuple[int, Floats, Ints], ...] = field(repr=False)
    particle_velocities: Floats
    body_velocities: Floats
    body_spins: Floats
    name: str = "multibody"
    notices: tuple[str, ...] = ()

    units = "mm"  # in which surfaces are saved
    # what other kinds of robot have and this one has not
    cables = ()
    edges = NO_EDGES
    radius = frozen(np.empty(0))
    body_tets = NO_TETS

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        n, b = len(np.atleast_1d(self.particles)), len(np.atleast_1d(self.body_masses))
        # Shapes of the fields of a robot: n particles, b bodies, and the lengths of the fields in counted.
        counted = {"t": "tets", "s": "springs", "p": "pairs", "a": "axes", "j": "hinges", "c": "probes", "k": "boxes"}
        counts = {"n": n, "b": b, **{letter: len(getattr(self, key)) for letter, key in counted.items()}}
        for key, shape in REAL_ARRAYS.items():
            wanted = tuple(counts[a] if isinstance(a, str) else a for a in shape)
            put(key, floats(getattr(self, key), key, wanted, finite=key != "hinge_gains"))
        for key, (shape, below) in ID_ARRAYS.items():
            most = {"n": n, "b": b, "nodes": n + b, "chambers": self.chambers}[below]
            # -1 is "no chamber" or the world: shift by one to check the range.
            shift = int(key in ("spring_chamber", "pairs", "axes", "hinges"))
            wanted = tuple(counts[a] if isinstance(a, str) else a for a in shape)
            given = np.asarray(getattr(self, key))
            put(key, frozen(ints(given + shift if given.size else given, key, wanted, below=most + shift) - shift))
        put("fixed", frozen(np.asarray(self.fixed, dtype=bool).reshape(n + b)))
        self._check_values()

    def _check_values(self) -> None:
        if len(self.particles) + len(self.body_masses) == 0:
            raise InputError(f"{self.name}: neither particles nor bodies; add at least one")
        for key in (*_POSITIVE, *_NOT_NEGATIVE):
            least = getattr(self, key).min(initial=np.inf)
            if least < 0 or (least == 0 and key in _POSITIVE):
                needed = (
                    "it must not be negative"
                    if key in _NOT_NEGATIVE
                    else ("every value must be positive (a particle without tets needs a mass of its own)")
                )
                raise InputError(f"{self.name}: {key} holds {least:g}; {needed}")
        if ((self.poisson_ratio <= -1) | (self.poisson_ratio >= 0.5)).any():
            raise InputError(f"{self.name}: poisson_ratio must be in (-1, 0.5); 0.5 has no linear stiffness matrix")
        moments = np.sort(self.body_inertias, axis=1)
        if (moments[:, 2] - moments[:, 1] > moments[:, 0] + 1e-9 * moments[:, 1]).any():
            raise InputError(f"{self.name}: body_inertias break the triangle inequality; no body has such moments")
        volumes = topology.tet_volumes(self.particles, self.tets)
        if (volumes <= 0).any():
            raise InputError(
                f"{self.name}: tet {int(volumes.argmin())} has volume {volumes.min():.3g} m^3; every tet "
                f"must be positively oriented"
            )
        if (abs(np.linalg.norm(self.body_orientations, axis=1) - 1) > 1e-9).any():
            raise InputError(f"{self.name}: body_orientations must be unit quaternions (w, x, y, z)")

    @cached_property
    def vertices(self) -> Floats:
        """Particles, then the vertices of the solids of the rigid bodies, at rest [m], shape (v, 3)."""
        return self.place_vertices(self.particles, self.body_positions, matrices(self.body_orientations))

    def place_vertices(self, particles: Floats, positions: Floats, rotations: Floats) -> Floats:
        """Return `vertices` for particles (n, 3) and poses of the bodies: positions (b, 3), rotations (b, 3, 3)."""
        parts = [positions[b] + points @ rotations[b].T for b, points, _ in self.looks]
        return frozen(np.vstack([particles, *parts]))

    @cached_property
    def skin(self) -> Ints:
        """Outer faces of the soft parts and the faces of the solids, shape (f, 3)."""
        faces = [topology.boundary_faces(self.tets)]
        first = len(self.particles)
        for _, points, look in self.looks:
            faces.append(look + first)
            first += len(points)
        return frozen(np.vstack(faces).astype(np.int64))

    @property
    def tip(self) -> Ints:
        """The last vertex: what `Result.tip` follows."""
        return np.array([len(self.vertices) - 1])

    @property
    def tip_weights(self) -> Floats:
        """Equal weights of the tip vertices."""
        return np.full(len(self.tip), 1.0 / len(self.tip))

    @cached_property
    def p2_edges(self) -> Ints:
        """Edges of the skin, shape (e, 2); the elements are straight, so a mid-edge node is the mean of its ends."""
        faces = self.skin
        edges = np.sort(np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [0, 2]]]), axis=1)
        return frozen(np.unique(edges, axis=0))

    @cached_property
    def body_vertices(self) -> Bools:
        """All vertices count in measures, shape (v,)."""
        return frozen(np.ones(len(self.vertices), dtype=bool))

    @property
    def mass(self) -> float:
        """Mass of particles and rigid bodies [kg]; that of the tets is lumped in the particles."""
        return float(self.particle_masses.sum() + self.body_masses.sum())

    @property
    def counts(self) -> dict[str, int]:
        """Sizes under the names of Table I of [Gasoto2019]."""
        return {
            "Rigid Bodies": len(self.body_masses),
            "Particles": len(self.particles),
            "Distance Constraints": len(self.springs),
            "Tetrahedral Finite Elements": len(self.tets),
            "Rigid Joints": self.joints,
            "Particle Attachments": self.pair_kinds.count("attachment"),
        }

    def __repr__(self) -> str:
        parts = ", ".join(f"{value} {key}" for key, value in self.counts.items())
        return f"{type(self).__name__}({self.name!r}, {parts})"

    def summary(self) -> str:
        """Return the counts of Table I, one a line."""
        lines = [
            f"{self.name}: {len(self.particles) * 3 + len(self.body_masses) * 6} unknowns, {self.chambers} chambers, "
            f"{self.mass:.4g} kg"
        ]
        return "\n".join(lines + [f"{key:28s} {value:6d}" for key, value in self.counts.items()])


@guarded
@dataclass(frozen=True)
class SnakeRobot(MultibodyRobot):
    """A soft snake, section V of [Gasoto2019]; build one with `make_snake`.

    Chambers come in antagonistic pairs: link i has chamber 2 i on its left (positive pressures) and 2 i + 1 on its right.

    Parameters
    ----------
    links, count
        Links of every snake and number of snakes.
    carriages
        Body ids of the carriages, from tail to head, shape (count, links + 1).
    """

    links: int = 4
    count: int = 1
    carriages: Any = ((0, 1, 2, 3, 4),)

    TABLE_I: ClassVar[dict[str, int]] = {
        "Rigid Bodies": 15,
        "Particles": 1504,
        "Distance Constraints": 1460,
        "Tetrahedral Finite Elements": 4536,
        "Rigid Joints": 10,
        "Particle Attachments": 217,
    }

    __repr__ = MultibodyRobot.__repr__

    def __post_init__(self) -> None:
        super().__post_init__()
        carriages = ints(self.carriages, "carriages", (self.count, self.links + 1), below=len(self.body_masses))
        object.__setattr__(self, "carriages", carriages)

    @property
    def tip(self) -> Ints:
        """Vertices of the solid of the head, whose mean is its centre, of the first snake."""
        first = len(self.particles)
        for body, points, _ in self.looks:
            if body == self.carriages[0, -1]:
                return first + np.arange(len(points))
            first += len(points)
        return super().tip

    def summary(self) -> str:
        """Return the counts beside Table I of [Gasoto2019], which is for one snake of four links."""
        lines = super().summary().split("\n")
        same = self.links == 4
        table = [
            f"{key:28s} {value:6d}" + (f"   (Table I: {self.TABLE_I[key] * self.count})" if same else "")
            for key, value in self.counts.items()
        ]
        return "\n".join([lines[0], *table])
