"""Robots of rods and shells: vertices, rod edges, triangles, sections, materials, boundary conditions.

Joints need no special treatment: every pair of rod edges at a vertex makes one bending-twisting stencil (section III-D
of [Choi2024]), with a sign for each edge that points the wrong way (section 3.2 of [Lahoti]).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import scipy

from geosim.arguments import guarded
from geosim.arrays import (
    NO_EDGES,
    NO_TETS,
    ROUNDING_REL,
    Bools,
    Floats,
    Ints,
    choice,
    floats,
    frozen,
    ints,
    number,
    real_array,
    shown,
    whole,
)
from geosim.errors import InputError
from geosim.geometry.surface import MAX_PLAUSIBLE_SIZE_M, MIN_PLAUSIBLE_SIZE_M
from geosim.material.materials import LinearElastic
from geosim.model.cable import as_cables
from geosim.model.display import Displayed
from geosim.model.select import selected_ids
from geosim.rods.frames import edges_around, first_frames
from geosim.rods.guides import Guides, guided
from geosim.rods.section import Section
from geosim.rods.shells import ShellMesh, shell_mesh

PLANE_NORMAL_AXES = {"yz": 0, "xz": 1, "xy": 2}


@guarded
@dataclass(frozen=True)
class Limb:
    """A straight limb of `nodes` equally spaced vertices from `start` to `end` [m].

    Parameters
    ----------
    start, end
        Ends [m], shape (3,).
    nodes
        Number of vertices, at least 2.
    radius
        [m].
    material
        A `LinearElastic`.
    """

    start: Any
    end: Any
    nodes: int
    radius: float
    material: LinearElastic

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", floats(self.start, "Limb: start", (3,)))
        object.__setattr__(self, "end", floats(self.end, "Limb: end", (3,)))
        # of a limb: its matrices take gigabytes
        whole(self.nodes, "Limb: nodes", least=2, most=1_000_000)
        number(self.radius, "Limb: radius", above=0.0)
        if (self.start == self.end).all():
            raise InputError(f"Limb: start and end are the same point {self.start.tolist()} m")


@dataclass(frozen=True)
class Bends:
    """Bending-twisting stencils: an edge that enters a vertex and one that leaves it.

    Parameters
    ----------
    vertices
        (x0, x1, x2) with x1 in the middle, shape (S, 3).
    edges
        Entering and leaving edge, shape (S, 2).
    signs
        +1, or -1 where the edge is stored the other way round, shape (S, 2).
    length
        Voronoi length V [m], half the rest lengths of both edges, shape (S,).
    """

    vertices: Ints
    edges: Ints
    signs: Floats
    length: Floats

    def __len__(self) -> int:
        return len(self.length)


@guarded
@dataclass(frozen=True, repr=False, eq=False)
class RodShellRobot(Displayed):
    """Discrete elastic rods, discrete shells and their joints.

    Parameters
    ----------
    vertices
        Rest positions [m], shape (n, 3); the rest shape is the natural shape.
    edges
        Vertices of the rod edges, shape (E, 2); None chains the vertices in their order (if there are no triangles).
    triangles
        Vertices of the shell triangles, shape (T, 3).
    radius
        Rod radius [m], a number or (E,): contact, and the section unless `section` is given.
    thickness
        Shell thickness [m], a number or (T,).
    rod_material, shell_material
        `LinearElastic`; for rods also a sequence of E materials.
    fixed_vertices
        Clamped vertices: ids, bool array, `Select` or callable.
    fixed_edges
        Indices into `edges` whose theta is fixed.
    fixed_components
        Single components held, bool (n, 3) (rollers).
    velocities
        Initial velocities [m/s], shape (n, 3).
    twist_angles
        Initial theta [rad], shape (E,); the natural shape has theta = 0.
    edge_angular_velocities
        Initial theta rates [rad/s], shape (E,).
    masses
        Point masses added to the vertices [kg], shape (n,).
    planar
        True: motion in the coordinate plane that contains the robot (xz if several do); or "xz", "xy", "yz".
    shell_bending
        "mid-edge" (a plate, on any triangulation), see `geosim.rods.midedge`, or "hinge" (those of [Lahoti]; no Poisson's ratio,
        depends on the mesh), see `geosim.rods.shells`. None: "mid-edge", but "hinge" where `hinge_stiffness` or
        `shell_constants` of hinges are given.
    shell_membrane
        "cst" (constant-strain triangles with the material's nu, see `geosim.rods.membrane`) or "springs" (on the edges, as in
        [Lahoti]; the mesh decides about nu, see `geosim.rods.shells`).
    section
        `Section`; None is a disc of `radius`.
    stretch_stiffness
        EA [N] of single edges, a number or (E,), instead of the section's; nan keeps it.
    bend_stiffness
        EI [N m^2] of single stencils, a number, (S,) or (S, 2); nan keeps it.
    twist_stiffness
        GJ [N m^2] of single stencils, a number or (S,); nan keeps it.
    hinge_stiffness
        k_b of single hinges [N m], a number or (H,); nan keeps it.
    limbs
        Vertices of the limbs of `from_limbs`.
    shell_constants
        "plate" (consistent), "published" (those of [Lahoti]) or "matlab" (those of its data); see `geosim.rods.shells`.
    own_edges
        How many of the edges are rods; those after them are the edges of shells that rods meet in a joint. None: all are
        rods, and the robot adds the edges of its joints.
    allow_any_size
        Accept a robot under 1 mm or over 5 m, or rods and shells thicker than the robot is long.
    retardation_time
        T [s] of rods that creep, with forces K (strain + T d strain / dt), see `geosim.rods.increment`.
    cables
        `Cable` objects, or points [m] (q, 3), at rest: guides that are fixed to the sections of the nearest rods, see
        `geosim.rods.cables`.
    name, units
        Shown in summaries; unit in which surfaces are saved ("m", "cm", "mm", "in").
    design
        The `geosim.generate.RodDesign` that it comes from, or None.

    Raises
    ------
    InputError
        Naming the argument, the value and the remedy.
    """

    vertices: Any
    edges: Any = None
    triangles: Any = None
    radius: Any = None
    thickness: Any = None
    rod_material: Any = None
    shell_material: Any = None
    fixed_vertices: Any = ()
    fixed_edges: Any = ()
    fixed_components: Any = None
    velocities: Any = None
    twist_angles: Any = None
    edge_angular_velocities: Any = None
    masses: Any = None
    planar: Any = False
    shell_bending: str | None = None
    section: Section | None = None
    stretch_stiffness: Any = None
    bend_stiffness: Any = None
    twist_stiffness: Any = None
    hinge_stiffness: Any = None
    limbs: tuple[Ints, ...] = ()
    shell_constants: str = "plate"
    own_edges: int | None = None
    name: str = "robot"
    units: str = "mm"
    shell_membrane: str = "cst"
    allow_any_size: bool = False
    cables: Any = ()
    retardation_time: float = 0.0
    design: object = field(default=None, repr=False, compare=False)

    guides: tuple[Guides, ...] = field(init=False, default=())

    # what other kinds of robot have and this one has not
    notices = ()
    chambers = 0
    p2_edges = NO_EDGES
    body_tets = NO_TETS

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "vertices", floats(self.vertices, "vertices", (None, 3)))
        n = len(self.vertices)
        self._check_topology(n)
        if self.own_edges is None:
            put(self, "own_edges", len(self.edges))
            self._join_shells()
        elif not 0 <= self.own_edges <= len(self.edges):
            raise InputError(f"own_edges = {self.own_edges!r}: there are {len(self.edges)} edges; leave it out")
        rods = len(self.edges)
        put(self, "radius", _sizes(self.radius, "radius", rods, "edges"))
        put(self, "thickness", _sizes(self.thickness, "thickness", len(self.triangles), "triangles"))
        if not self.allow_any_size:
            self._check_size()
        if rods:
            self._check_rods(rods)
        if len(self.triangles):
            self._check_shells()
        number(self.retardation_time, "retardation_time", low=0.0)
        self._check_choices()
        self._check_supports(n, rods)
        shapes = {"velocities": (n, 3), "masses": (n,), "twist_angles": (rods,), "edge_angular_velocities": (rods,)}
        for key, shape in shapes.items():
            given = getattr(self, key)
            put(self, key, floats(np.zeros(shape) if given is None else given, key, shape))
        if (self.masses < 0).any():
            raise InputError(f"masses: {self.masses.min():g} kg is negative; give added masses >= 0")
        put(self, "planar", self._planar())
        put(self, "cables", as_cables(self.cables))
        put(self, "guides", self._guides())
        counts = {"stretch": rods, "bend": len(self.bends), "twist": len(self.bends), "hinge": len(self.mesh.hinges)}
        for kind, count in counts.items():
            self._check_stiffness(f"{kind}_stiffness", [(count,), (count, 2)] if kind == "bend" else [(count,)])

    def _check_choices(self) -> None:
        """Choose how shells bend where it is not said."""
        choice(self.shell_constants, "shell_constants", ("plate", "published", "matlab"))
        if self.shell_bending is None:
            hinged = self.hinge_stiffness is not None or self.shell_constants != "plate"
            object.__setattr__(self, "shell_bending", "hinge" if hinged else "mid-edge")
        choice(self.shell_bending, "shell_bending", ("hinge", "mid-edge"))
        choice(self.shell_membrane, "shell_membrane", ("cst", "springs"))
        if self.shell_bending == "mid-edge" and self.hinge_stiffness is not None:
            raise InputError("hinge_stiffness: a shell with shell_bending = 'mid-edge' has no hinges; leave it out")

    def _check_supports(self, n: int, rods: int) -> None:
        """Take the clamped vertices and edges as ids, and the components held as a bool array (n, 3)."""
        put, given = object.__setattr__, self.fixed_vertices
        empty = isinstance(given, (tuple, list, np.ndarray)) and np.size(given) == 0
        fixed = frozen(np.zeros(0, dtype=np.int64)) if empty else selected_ids(given, self.vertices, "fixed_vertices")
        put(self, "fixed_vertices", fixed)
        put(self, "fixed_edges", ints(np.atleast_1d(np.asarray(self.fixed_edges)), "fixed_edges", (None,), below=rods))
        held = np.zeros((n, 3), dtype=bool) if self.fixed_components is None else np.asarray(self.fixed_components)
        if held.shape != (n, 3) or held.dtype != bool:
            raise InputError(f"fixed_components: bool array of shape ({n}, 3) needed, {held.dtype} {held.shape} given")
        put(self, "fixed_components", frozen(held.copy()))

    def _check_stiffness(self, key: str, known: list[tuple[int, ...]]) -> None:
        """Take a number >= 0 or an array of a known shape, in which nan keeps the default."""
        if getattr(self, key) is None:
            return
        array = np.asarray(getattr(self, key), dtype=float)
        if array.shape not in [(), *known] or np.isinf(array).any() or (array < 0).any():
            raise InputError(
                f"{key}: a number >= 0 or shape {known[0]} needed, {array.shape} given; nan keeps the default"
            )
        object.__setattr__(self, key, frozen(array.copy()))

    def __repr__(self) -> str:
        return (
            f"RodShellRobot({len(self.vertices)} vertices, {len(self.edges)} edges, {len(self.triangles)} triangles, "
            f"{len(self.bends)} bends, {len(self.mesh.hinges)} hinges)"
        )

    def _check_topology(self, n: int) -> None:
        """Take the ids of edges and triangles; refuse edges without length or given twice, and vertices of none of them."""
        put = object.__setattr__
        triangles = ints(() if self.triangles is None else self.triangles, "triangles", (None, 3), below=n)
        put(self, "triangles", triangles)
        chain = () if len(triangles) else np.column_stack([np.arange(n - 1), np.arange(1, n)])
        edges = ints(chain if self.edges is None else self.edges, "edges", (None, 2), below=n)
        put(self, "edges", edges)
        if len(edges) + len(triangles) == 0:
            raise InputError("robot: no edges and no triangles; give at least two vertices or edges=[[0, 1], ...]")
        length = np.linalg.norm(self.vertices[edges[:, 1]] - self.vertices[edges[:, 0]], axis=1)
        if len(edges) and not (length > 0).all():
            i = int(np.argmin(length))
            raise InputError(
                f"edges: edge {i} from vertex {edges[i, 0]} to {edges[i, 1]} has no length; remove it or "
                f"merge the vertices"
            )
        key = np.sort(edges, axis=1)
        _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
        if (counts > 1).any():
            i = int(first[np.argmax(counts > 1)])
            raise InputError(f"edges: {edges[i].tolist()} is given {int(counts.max())} times; keep one of them")
        used = np.zeros(n, dtype=bool)
        used[edges] = True
        used[triangles] = True
        if not used.all():
            i = int(np.argmin(used))
            raise InputError(f"vertices: vertex {i} belongs to no edge and no triangle; remove it")

    def _check_size(self) -> None:
        """Refuse sizes that speak of a wrong unit."""
        size = self.size
        thick = {"radius": self.radius.max(initial=0.0), "thickness": self.thickness.max(initial=0.0)}
        name = max(thick, key=lambda key: float(thick[key]))
        if MIN_PLAUSIBLE_SIZE_M <= size <= MAX_PLAUSIBLE_SIZE_M and thick[name] <= size:
            return
        if thick[name] > size and size <= MAX_PLAUSIBLE_SIZE_M:
            found = f"{name}: {thick[name]:.4g} m is more than the {size:.4g} m that the vertices span"
        else:
            found = f"vertices: suspicious size, the bounding box has a diagonal of {size:.4g} m (usual: 1 mm to 5 m)"
        raise InputError(f"{found}; all lengths are in metres (1 mm = 1e-3), or set allow_any_size = true")

    def _check_rods(self, count: int) -> None:
        """Refuse materials and sections that are not one, or one of each of `count` edges, and edges that fold back."""
        if self.rod_material is None:
            raise InputError("rod_material: missing; give LinearElastic(youngs_modulus=..., density=...)")
        materials = self.materials
        if len(materials) not in (1, count) or not all(isinstance(m, LinearElastic) for m in materials):
            raise InputError(
                f"rod_material = {shown(self.rod_material)}: give one LinearElastic, or one for each of {count} edges"
            )
        if self.section is not None and not isinstance(self.section, Section):
            raise InputError(f"section: {self.section!r} is not a Section; use Section.circle, .rectangle or .tube")
        section = self.section or Section.circle(self.radius)
        for key in ("area", "inertia1", "inertia2", "torsion"):
            if getattr(section, key).shape not in ((), (count,)):
                raise InputError(f"section: {key} has shape {getattr(section, key).shape}; one value or {count} needed")
        object.__setattr__(self, "section", section)
        folded = self.bends.vertices[self._folds]
        if len(folded):
            raise InputError(
                f"edges: at vertex {folded[0, 1]} two edges leave in the same direction (to "
                f"{folded[0, 0]} and {folded[0, 2]}); their bending angle of 180 degrees is singular"
            )

    def _join_shells(self) -> None:
        """Make the triangle edges around a vertex that rods and shell share rod edges too (section 3.4 of [Lahoti])."""
        put = object.__setattr__
        if len(self.triangles) == 0 or len(self.edges) == 0:
            return
        shared = np.intersect1d(self.edges, self.triangles)
        around = np.isin(self.mesh.edges, shared).any(axis=1)
        known = {tuple(sorted(e)) for e in self.edges.tolist()}
        added = [e for e in self.mesh.edges[around].tolist() if tuple(sorted(e)) not in known]
        if not added:
            return
        count = len(self.edges)
        # a joint edge turns like the first rod edge that meets it
        like = [int(np.flatnonzero(np.isin(self.edges, np.intersect1d(e, shared)).any(axis=1))[0]) for e in added]
        if self.radius is not None and np.ndim(self.radius) == 1 and len(self.radius) == count:
            put(self, "radius", np.concatenate([self.radius, np.asarray(self.radius)[like]]))
        if isinstance(self.rod_material, (list, tuple)) and len(self.rod_material) == count:
            put(self, "rod_material", (*self.rod_material, *(self.rod_material[i] for i in like)))
        put(self, "edges", ints(np.concatenate([self.edges, np.array(added)]), "edges", (None, 2)))

    def _check_shells(self) -> None:
        """Refuse shells without a material, and triangles without area."""
        if not isinstance(self.shell_material, LinearElastic):
            raise InputError("shell_material: missing; give LinearElastic(youngs_modulus=..., density=...)")
        if (self.mesh.areas <= ROUNDING_REL * float(self.mesh.areas.max())).any():
            i = int(np.argmin(self.mesh.areas))
            raise InputError(f"triangles: triangle {i} {self.triangles[i].tolist()} has no area; remove it")

    def _planar(self) -> str:
        """Return the coordinate plane in which the robot stays, "" where it is free."""
        if not isinstance(self.planar, (bool, str, np.bool_)) and self.planar is not None:
            raise InputError(f"planar = {shown(self.planar)}: use True, False, 'xz', 'xy' or 'yz'")
        if self.planar in (False, None, ""):
            return ""
        extent = np.ptp(self.vertices, axis=0)
        # of the robot's extent: how far vertices of a planar robot may leave their plane, as files round them
        in_plane_rel = 1e-9
        leaves = {name: extent[PLANE_NORMAL_AXES[name]] for name in ("xz", "xy", "yz")}
        flat = [name for name, way in leaves.items() if way <= in_plane_rel * float(extent.max())]
        plane = str(self.planar)
        if self.planar is True and flat:
            plane = flat[0]
        elif self.planar is True:
            raise InputError(
                f"planar = True: the vertices span {extent.tolist()} m, which is not in a coordinate plane"
            )
        elif plane not in leaves:
            raise InputError(f"planar = {plane!r}: use True, False, 'xz', 'xy' or 'yz'")
        elif plane not in flat:
            raise InputError(f"planar = {plane!r}: the vertices leave that plane by {leaves[plane]:g} m")
        return plane

    @property
    def tip(self) -> Ints:
        """The last vertex: what `Result.tip` follows."""
        return np.array([len(self.vertices) - 1])

    @property
    def tip_weights(self) -> Floats:
        """Weight 1 of the last vertex."""
        return np.ones(1)

    @property
    def skin(self) -> Ints:
        """The triangles of the shells, shape (T, 3)."""
        return np.asarray(self.triangles)

    @property
    def materials(self) -> tuple[LinearElastic, ...]:
        """The rod materials: one, or one an edge."""
        given = self.rod_material
        return tuple(given) if isinstance(given, (list, tuple)) else (given,)

    def edge_property(self, name: str) -> Floats:
        """Return `youngs_modulus`, `shear_modulus` or `density` of every edge, shape (E,)."""
        return np.broadcast_to(np.array([getattr(m, name) for m in self.materials], dtype=float), len(self.edges))

    @cached_property
    def rest_lengths(self) -> Floats:
        """Rest lengths of the edges [m], shape (E,)."""
        e = self.vertices[self.edges[:, 1]] - self.vertices[self.edges[:, 0]]
        return frozen(np.linalg.norm(e, axis=1))

    @cached_property
    def tangents(self) -> Floats:
        """Rest tangents of the edges, shape (E, 3)."""
        return frozen((self.vertices[self.edges[:, 1]] - self.vertices[self.edges[:, 0]]) / self.rest_lengths[:, None])

    @cached_property
    def directors(self) -> Floats:
        """First directors d1 of the edges at rest, shape (E, 3)."""
        return frozen(first_frames(np.array(self.tangents), np.array(self.edges)))

    def _guides(self) -> tuple[Guides, ...]:
        """Return where every cable is led along the rods."""
        rods = slice(0, self.own_edges)
        ends = self.vertices[self.edges[rods]]
        return tuple(
            guided(cable.points, ends, self.radius[rods], self.directors[rods], f"cable {k + 1}")
            for k, cable in enumerate(self.cables)
        )

    @cached_property
    def mesh(self) -> ShellMesh:
        """Edges and hinges of the triangles."""
        return shell_mesh(self.vertices, self.triangles)

    @property
    def turning(self) -> int:
        """Number of rotations among the degrees of freedom: theta of rod edges and xi of shell edges."""
        return len(self.edges) + (len(self.mesh.edges) if self.shell_bending == "mid-edge" else 0)

    @cached_property
    def bends(self) -> Bends:
        """The bending-twisting stencils, by middle vertex."""
        vertices, edges, signs = [], [], []
        for centre, around in enumerate(edges_around(self.edges, len(self.vertices))):
            for pair in combinations(around, 2):
                e, f = pair
                if min(e, f) >= (self.own_edges or 0):
                    continue  # between two edges of a shell its hinge bends
                if self.edges[e, 0] == centre and self.edges[f, 1] == centre:
                    e, f = f, e
                enters, leaves = self.edges[e, 1] == centre, self.edges[f, 0] == centre
                vertices.append((self.edges[e, 0 if enters else 1], centre, self.edges[f, 1 if leaves else 0]))
                edges.append((e, f))
                signs.append((1.0 if enters else -1.0, 1.0 if leaves else -1.0))
        which = np.array(edges, dtype=np.int64).reshape(-1, 2)
        length = 0.5 * self.rest_lengths[which].sum(axis=1)
        return Bends(
            frozen(np.array(vertices, dtype=np.int64).reshape(-1, 3)),
            frozen(which),
            frozen(np.array(signs).reshape(-1, 2)),
            frozen(length),
        )

    @property
    def _folds(self) -> Bools:
        """Stencils whose edges run back along each other."""
        t = self.bends.signs[:, :, None] * self.tangents[self.bends.edges]
        folded_edges_cosine = 1e-9  # 1 + cosine of two edges that count as lying on each other: 0.003 degrees
        return np.asarray((t[:, 0] * t[:, 1]).sum(axis=1) < -1 + folded_edges_cosine)

    @property
    def body_vertices(self) -> Bools:
        """All vertices belong to the body, bool (n,)."""
        return np.ones(len(self.vertices), dtype=bool)

    @property
    def size(self) -> float:
        """Diagonal of the bounding box [m]."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))

    @property
    def mass(self) -> float:
        """Mass of rods, shells and added point masses [kg]; the edges of joints that shells have weigh nothing of their own."""
        total = float(self.masses.sum())
        if self.section is not None:
            line = self.edge_property("density") * self.rest_lengths * self.section.area
            total += float(line[: self.own_edges].sum())
        if len(self.triangles):
            total += float(self.shell_material.density * (self.mesh.areas * self.thickness).sum())
        return total

    def limb_bends(self, limb: int) -> Ints:
        """Stencils whose three vertices lie on one limb: what a natural curvature of that limb drives."""
        if not 0 <= limb < len(self.limbs):
            raise InputError(f"limb {limb}: this robot has {len(self.limbs)} limbs; use 0 .. {len(self.limbs) - 1}")
        return np.flatnonzero(np.isin(self.bends.vertices, self.limbs[limb]).all(axis=1))

    @classmethod
    def from_limbs(cls, limbs: Sequence[Limb], joints: Any = "auto", **options: Any) -> RodShellRobot:
        """Join limbs: one line a limb.

        Parameters
        ----------
        limbs
            `Limb` objects; their vertices are numbered limb after limb, shared ones once.
        joints
            "auto": vertices of different limbs closer than a hundredth of the shorter edge are one; None: no joints; or
            pairs ((limb, node), (limb, node)) to merge.
        options
            Further arguments of `RodShellRobot` (fixed_vertices, planar, velocities, ...).
        """
        limbs = list(limbs)
        if not limbs or not all(isinstance(limb, Limb) for limb in limbs):
            raise InputError("from_limbs: give a list of Limb(start, end, nodes, radius, material)")
        points = np.concatenate([np.linspace(limb.start, limb.end, limb.nodes) for limb in limbs])
        nodes = np.array([limb.nodes for limb in limbs])
        owner, first = np.repeat(np.arange(len(limbs)), nodes), np.concatenate([[0], np.cumsum(nodes)])
        step = np.array([np.linalg.norm(limb.end - limb.start) / (limb.nodes - 1) for limb in limbs])
        target = np.arange(len(points))
        for a, b in _joined(points, owner, step, first, joints):
            target[target == target[b]] = target[a]
        keep, number = np.unique(target, return_inverse=True)
        inside = owner[1:] == owner[:-1]
        edges = np.column_stack([number[:-1], number[1:]])[inside]
        given = [limb.material for limb in limbs]
        same = given.count(given[0]) == len(given)
        return cls(
            points[keep],
            edges,
            radius=np.repeat([limb.radius for limb in limbs], nodes - 1),
            rod_material=given[0] if same else tuple(given[i] for i in owner[1:][inside]),
            limbs=tuple(frozen(chain) for chain in np.split(number, first[1:-1])),
            **options,
        )


def _joined(points: Floats, owner: Ints, step: Floats, first: Ints, joints: Any) -> list[tuple[int, int]]:
    """Return pairs of points to merge."""
    if joints is None:
        return []
    if not isinstance(joints, str):
        pairs = ints(joints, "from_limbs: joints, pairs ((limb, node), (limb, node))", (None, 2, 2), below=len(points))
        if pairs.size and pairs[:, :, 0].max() >= len(first):
            raise InputError(f"from_limbs: joints name limb {pairs[:, :, 0].max()} of {len(first)}")
        return [(int(first[i] + a), int(first[j] + b)) for (i, a), (j, b) in pairs]
    if joints != "auto":
        raise InputError(f"from_limbs: joints = {joints!r}: use 'auto', None or pairs ((limb, node), (limb, node))")
    merged_vertices_rel = 0.01  # of the shorter edge, within which vertices of two limbs are one
    i, j = scipy.spatial.cKDTree(points).query_pairs(merged_vertices_rel * float(step.max()), output_type="ndarray").T
    apart = np.linalg.norm(points[i] - points[j], axis=1)
    near = (apart < merged_vertices_rel * np.minimum(step[owner[i]], step[owner[j]])) & (owner[i] != owner[j])
    return sorted(zip(i[near].tolist(), j[near].tolist()))


def _sizes(value: Any, name: str, count: int, of: str) -> Floats:
    """Return positive metres for each of `count` edges or triangles."""
    if count == 0:
        return frozen(np.zeros(0))
    if value is None:
        raise InputError(f"{name}: missing; give it in metres")
    size = real_array(value, name)
    if size.shape not in ((), (count,)) or not np.isfinite(size).all() or (size <= 0).any():
        raise InputError(
            f"{name}: {str(value)[:40]} must be positive metres, a number or one value for each of {count} {of}"
        )
    return frozen(np.broadcast_to(size, count).copy())
