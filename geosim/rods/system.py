"""The discrete system of a rod robot, computed once: stencils, stiffnesses, masses, dead loads, sparsity pattern.

Degrees of freedom q = [x (3 n), theta (E), xi (Z)], Eqs. (1)-(2) of [Lahoti]; xi only with mid-edge normals. Masses are
lumped: half an edge's mass to each end, a third of a triangle's to each vertex, and rho l (I1 + I2) to the rotation of the edge
about itself (rho A l r^2 / 2 for a disc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from geosim.arrays import ArrayLike, Bools, Floats, Ints, floats, ints, real_array, shown
from geosim.errors import InputError
from geosim.linear.stencils import StencilPattern, make_pattern
from geosim.model.environment import Environment
from geosim.model.select import selected_ids
from geosim.rods.contact import ContactLaw, contact_law
from geosim.rods.frames import bend_strains, material_frames, reference_twists
from geosim.rods.membrane import membrane_matrices
from geosim.rods.midedge import midedge_angles, midedge_matrices, rest_normals
from geosim.rods.points import Points, contact_points
from geosim.rods.robot import PLANE_NORMAL_AXES, RodShellRobot
from geosim.rods.sheets import Sheet, sheet_neighbourhood
from geosim.rods.shells import hinge_angles


class Stencils(NamedTuple):
    """One array (k, m) for every kind of stencil: degrees of freedom, or positions of their entries in the matrix.

    Springs are the edges of rods and then of triangles (both ends); membranes are triangles, unless springs stretch them; bends
    are x0, theta_e, x1, theta_f, x2; shells have hinges (four vertices) or, with mid-edge normals, faces (three vertices and
    the normals opposite to them); obstacles act on vertices.
    """

    springs: Ints
    membranes: Ints
    bends: Ints
    hinges: Ints
    faces: Ints
    vertices: Ints


class Rods(NamedTuple):
    """What a system has of rods, as a kernel takes it; `slots` are where springs and bends add to the matrix."""

    vertices: int
    mean_length: float
    edge_dofs: Ints
    springs: Ints
    bends: Ints
    edges: Ints
    signs: Floats
    stretch: Floats
    bending: Floats
    lengths: Floats
    free: Bools
    order: Ints
    diagonal: Ints
    spring_slots: Ints
    bend_slots: Ints


@dataclass(frozen=True, repr=False, eq=False)
class RodSystem:
    """A robot and its environment as flat arrays.

    Parameters
    ----------
    robot, environment
        As they were given.
    edge_dofs
        First degrees of freedom of both ends of every rod edge, and its theta, shape (E, 3).
    stencils
        Degrees of freedom of all stencils.
    stretch, rest
        Stiffness [N] of the springs, rods first, and rest length [m] of all edges: those of triangles may be no springs.
    membrane, squares
        C [N/m^3] of the membranes, shape (T, 3, 3), and the squared rest lengths [m^2] of their edges, shape (T, 3).
    bending
        EI1/V, EI2/V, GJ/V [N m] of the bends, shape (S, 3).
    hinge_bending
        k_b [N m] of the hinges.
    sides, signs, plates
        Edges of the triangles, whether they run along them (+1, -1), and K [N m] (T, 3, 3), with mid-edge normals.
    natural
        Natural strains, see `rest_strains`.
    mass, weight, viscous
        Lumped masses [kg, kg m^2], weight less buoyancy [N], viscous coefficients [N s/m] of all degrees of freedom.
    vertex_radius
        Radius of the thickest part that meets in every vertex [m], shape (n,).
    law
        Constants of contact.
    held_free, free
        Which degrees of freedom are free of clamps, and also of what the present command prescribes.
    pattern, slots
        Of the matrix of the free ones, and where the stencils add to it.
    sheet
        Triangles that may touch each other or rods; None where there are none, or contact is off.
    contact_points
        The points that feel obstacles.
    """

    robot: RodShellRobot
    environment: Environment
    edge_dofs: Ints
    stencils: Stencils
    stretch: Floats
    rest: Floats
    membrane: Floats
    squares: Floats
    bending: Floats
    hinge_bending: Floats
    sides: Ints
    signs: Floats
    plates: Floats
    natural: Floats
    mass: Floats
    weight: Floats
    viscous: Floats
    vertex_radius: Floats
    law: ContactLaw
    held_free: Bools
    free: Bools
    pattern: StencilPattern
    slots: Stencils
    sheet: Sheet | None
    contact_points: list[Points]

    def __repr__(self) -> str:
        return f"System({self.robot!r}, {len(self.pattern.order)} of {self.dofs} degrees of freedom free)"

    @property
    def dofs(self) -> int:
        """Number of degrees of freedom."""
        return len(self.mass)

    @property
    def turns(self) -> int:
        """Index of the first theta."""
        return 3 * len(self.robot.vertices)

    @property
    def faces_at(self) -> int:
        """First row of the triangles in the natural strains."""
        return len(self.robot.bends) + len(self.robot.mesh.hinges)

    @property
    def edges_at(self) -> int:
        """First row of the edges of rods in the natural strains."""
        return len(self.natural) - len(self.robot.edges)

    @cached_property
    def _firmer(self) -> dict[float, RodSystem]:
        return {}

    def firmer(self, factor: float) -> RodSystem:
        """Return the system with a firmer contact, made once for every factor: one comes again in every increment.

        Its contact keeps the energy of impacts where the coefficient of restitution is 1.
        """
        if factor not in self._firmer:
            law = replace(self.law, stiffness=factor * self.law.stiffness, conserving=self.law.restitution == 1.0)
            self._firmer[factor] = replace(self, law=law)
        return self._firmer[factor]

    @cached_property
    def rods(self) -> Rods:
        """Its rods."""
        bends, dofs, slots, pattern = self.robot.bends, self.stencils, self.slots, self.pattern
        return Rods(
            len(self.robot.vertices),
            self.mean_length,
            self.edge_dofs,
            dofs.springs,
            dofs.bends,
            bends.edges,
            bends.signs,
            self.stretch,
            self.bending,
            self.rest,
            self.free,
            pattern.order,
            pattern.diagonal,
            slots.springs,
            slots.bends,
        )

    @cached_property
    def spins(self) -> bool:
        """Whether an edge may spin about itself."""
        turning = slice(self.turns, self.turns + len(self.robot.edges))
        return bool((self.free[turning] & (self.mass[turning] > 0)).any())

    @cached_property
    def mean_length(self) -> float:
        """Mean rest length of the edges [m]."""
        return float(self.rest.mean())

    @cached_property
    def stiffest(self) -> tuple[float, float]:
        """Largest stiffness of a spring or membrane [N/m], and of bending [N m]."""
        tensions = self.membrane.diagonal(axis1=1, axis2=2) * self.squares
        springs = float((self.stretch / self.rest[: len(self.stretch)]).max(initial=0.0))
        bending = max(float(self.bending.max(initial=0.0)), float(self.plates.max(initial=0.0)))
        return max(springs, float(tensions.max(initial=0.0))), bending

    @cached_property
    def axial_energy(self) -> float:
        """Twice the energy [J] of a stretch by 1 of all springs and membranes."""
        tensions = self.membrane.diagonal(axis1=1, axis2=2) * self.squares**2
        return float(self.stretch @ self.rest[: len(self.stretch)] + tensions.sum())

    @cached_property
    def axial(self) -> float:
        """Largest axial stiffness of a rod [N]."""
        return float(self.stretch[: self.robot.own_edges].max(initial=0.0))

    @cached_property
    def thickest(self) -> float:
        """Largest radius [m]."""
        return float(self.vertex_radius.max(initial=0.0))

    def rest_lengths(self, natural: Floats) -> Floats:
        """Lengths [m] at which the edges of rods, then of triangles, have no tension under natural strains."""
        if natural is self.natural:
            return self.rest
        out = self.rest.copy()
        out[: len(self.robot.edges)] *= natural[self.edges_at :, 0]
        return out


def make_system(
    robot: RodShellRobot,
    environment: Environment,
    stiffness: float | None,
    distance: float | None,
    slip: float,
    restitution: float | None = None,
) -> RodSystem:
    """Compile robot and environment; the constants of contact [N/m], [m], [m/s] are as in `RodShellStepper`."""
    environment.refuse_free_objects("RodShellStepper")
    if environment.rigid_groups:
        raise InputError("rigid_groups: rods and shells know none; prescribe their vertices, or use EnergyShapeSolver")
    if environment.exclude_pairs:
        raise InputError("exclude_pairs: rods and shells know none; set self_contact=False to leave out self-contact")
    fluid = environment.fluid
    if fluid is not None and fluid.viscosity > 0.0 and not len(robot.edges):
        raise InputError("fluid: viscosity acts on rods, and this robot has none; leave viscosity out")
    if fluid is not None and fluid.drag_coefficient > 0.0 and not len(robot.triangles):
        raise InputError(
            "fluid: drag_coefficient acts on shells, and this robot has none; use RodShellStepper(rod_drag=)"
        )
    mesh, n, rods = robot.mesh, len(robot.vertices), len(robot.edges)
    mass, viscous, weight = _masses(robot, environment)
    free = _free(robot)
    stencils = _stencils(robot)
    pattern, slots = _layout(stencils, free)
    shell_length = np.linalg.norm(robot.vertices[mesh.edges[:, 1]] - robot.vertices[mesh.edges[:, 0]], axis=1)
    stretch, hinge_bending, plates = _shell(robot, shell_length)
    membrane, squares = _membrane(robot)
    radius = np.zeros(n)
    np.maximum.at(radius, robot.edges, robot.radius[:, None])
    np.maximum.at(radius, robot.triangles, 0.5 * robot.thickness[:, None])
    return RodSystem(
        robot,
        environment,
        np.column_stack([3 * robot.edges, 3 * n + np.arange(rods)]).astype(np.int64),
        stencils,
        np.concatenate([_axial(robot), stretch]),
        np.concatenate([robot.rest_lengths, shell_length]),
        membrane,
        squares,
        _bending(robot),
        hinge_bending,
        np.array(mesh.sides),
        np.array(mesh.signs),
        plates,
        rest_strains(robot),
        mass,
        weight,
        viscous,
        radius,
        contact_law(
            robot,
            float(radius.min()),
            weight[: 3 * n].reshape(-1, 3),
            stiffness,
            distance,
            slip,
            restitution,
            float(mass[: 3 * n].mean()),
        ),
        free,
        free,
        pattern,
        slots,
        sheet_neighbourhood(robot, radius) if environment.self_contact else None,
        contact_points(robot, environment.obstacles, radius),
    )


def rod_properties(robot: RodShellRobot, environment: Environment) -> dict[str, Floats]:
    """Return those fields of the system of rods alone that depend on radius and material."""
    mass, viscous, weight = _masses(robot, environment)
    return dict(stretch=_axial(robot), bending=_bending(robot), mass=mass, viscous=viscous, weight=weight)


def with_free(system: RodSystem, free: Bools) -> RodSystem:
    """Return the system for another set of free degrees of freedom."""
    pattern, slots = _layout(system.stencils, free)
    return replace(system, free=free, pattern=pattern, slots=slots)


def _stencils(robot: RodShellRobot) -> Stencils:
    bends, mesh, n = robot.bends, robot.mesh, len(robot.vertices)
    x = _vertex_dofs(bends.vertices)
    theta = 3 * n + bends.edges
    return Stencils(
        _vertex_dofs(np.concatenate([robot.edges, mesh.edges])),
        _vertex_dofs(robot.triangles[: len(robot.triangles) if robot.shell_membrane == "cst" else 0]),
        np.hstack([x[:, :3], theta[:, :1], x[:, 3:6], theta[:, 1:], x[:, 6:]]),
        _vertex_dofs(mesh.hinges[: len(mesh.hinges) if robot.shell_bending == "hinge" else 0]),
        _face_dofs(robot),
        np.arange(3 * n).reshape(n, 3),
    )


def _layout(stencils: Stencils, free: Bools) -> tuple[StencilPattern, Stencils]:
    """Return the pattern of the free degrees of freedom and the slots of all stencils."""
    pattern = make_pattern(len(free), list(stencils), free)
    return pattern, Stencils(*(pattern.slots(dofs) for dofs in stencils))


def _vertex_dofs(vertices: Ints) -> Ints:
    """Degrees of freedom of the vertices of stencils, (S, k) -> (S, 3 k)."""
    return (3 * vertices[:, :, None] + np.arange(3)).reshape(len(vertices), 3 * vertices.shape[1])


def _face_dofs(robot: RodShellRobot) -> Ints:
    """Degrees of freedom of the vertices of every triangle and of the normals opposite to them, (T, 12)."""
    if robot.shell_bending == "hinge":
        return np.zeros((0, 12), dtype=np.int64)
    return np.hstack([_vertex_dofs(robot.triangles), 3 * len(robot.vertices) + len(robot.edges) + robot.mesh.sides])


def _override(default: Floats, given: ArrayLike | None) -> Floats:
    """Return the default where nothing, or nan, is given instead."""
    if given is None:
        return default
    value = np.asarray(given, dtype=float)
    value = np.broadcast_to(value[:, None] if value.ndim == 1 and default.ndim == 2 else value, default.shape)
    return np.where(np.isnan(value), default, value)


def _bending(robot: RodShellRobot) -> Floats:
    """Return EI1/V, EI2/V, GJ/V [N m] of every stencil: the compliances of its two half edges add."""
    bends, section = robot.bends, robot.section
    if section is None:
        return np.zeros((0, 3))
    e, g = robot.edge_property("youngs_modulus"), robot.edge_property("shear_modulus")
    edge = np.stack([e * section.inertia1, e * section.inertia2, g * section.torsion], axis=1)
    half = 0.5 * robot.rest_lengths[:, None] / edge
    mean = bends.length[:, None] / half[bends.edges].sum(axis=1)
    mean[:, :2] = _override(mean[:, :2], robot.bend_stiffness)
    mean[:, 2] = _override(mean[:, 2], robot.twist_stiffness)
    return np.ascontiguousarray(mean / bends.length[:, None])


def _axial(robot: RodShellRobot) -> Floats:
    """Return EA [N] of every rod edge; the edges that a joint borrows from the shell have none of their own."""
    if robot.section is None:
        return np.zeros(0)
    axial = np.array(robot.edge_property("youngs_modulus") * robot.section.area)
    axial[robot.own_edges :] = 0.0
    return _override(axial, robot.stretch_stiffness)


def _shell(robot: RodShellRobot, rest: Floats) -> tuple[Floats, Floats, Floats]:
    """Return k_s [N] of edges that are springs, k_b [N m] of hinges or K [N m] of faces; see `geosim.rods.shells`."""
    mesh, h = robot.mesh, robot.thickness
    if len(h) == 0:
        return np.zeros(0), np.zeros(0), np.zeros((0, 3, 3))
    e, nu = robot.shell_material.youngs_modulus, robot.shell_material.poisson_ratio
    one, other = mesh.faces.T
    inside, at = other >= 0, mesh.hinge_edges
    thick = np.where(inside, 0.5 * (h[one] + h[other]), h[one])
    stretch, cubed = np.sqrt(3.0) / 4.0 * e * thick * rest, e * thick[at] ** 3
    if robot.shell_constants == "published":
        bending = cubed / (12.0 * np.sqrt(3.0))
    elif robot.shell_constants == "matlab":
        stretch, bending = 2.0 * stretch, cubed / (6.0 * np.sqrt(3.0))
    else:
        stretch *= np.where(inside, 2.0, 1.0)
        # (2 / sqrt 3) D on equilateral triangles, where l^2 / (A1 + A2) = 2 / sqrt 3
        bending = cubed / (12.0 * (1.0 - nu**2)) * rest[at] ** 2 / (mesh.areas[one[at]] + mesh.areas[other[at]])
    if robot.shell_membrane == "cst":
        stretch = np.zeros(0)
    if robot.shell_bending == "hinge":
        return stretch, _override(bending, robot.hinge_stiffness), np.zeros((0, 3, 3))
    plate = e * h**3 / (12.0 * (1.0 - nu**2))
    return stretch, np.zeros(0), midedge_matrices(robot.vertices, robot.triangles, mesh, plate, nu)


def _membrane(robot: RodShellRobot) -> tuple[Floats, Floats]:
    """Return C [N/m^3] of the triangles that are membranes and the squares of their edges at rest [m^2]."""
    if robot.shell_membrane == "springs" or len(robot.triangles) == 0:
        return np.zeros((0, 3, 3)), np.zeros((0, 3))
    x, material = robot.vertices[robot.triangles], robot.shell_material
    squares = ((np.roll(x, -2, axis=1) - np.roll(x, -1, axis=1)) ** 2).sum(axis=2)
    matrices = membrane_matrices(
        robot.vertices, robot.triangles, robot.thickness, material.youngs_modulus, material.poisson_ratio
    )
    return matrices, squares


def rest_strains(robot: RodShellRobot) -> Floats:
    """Return the natural strains of the rest shape with theta = 0, shape (S + H + E, 3); mid-edge normals add T rows before E.

    Rows of stencils hold kappa1, kappa2 [-] and tau [rad]; those of hinges hold the angle [rad] first; those of triangles the
    angles [rad] to the normals of their edges; those of the edges of rods their natural length over that at rest first.
    """
    bends, mesh = robot.bends, robot.mesh
    # copies: kernels are compiled anew for read-only arrays
    t, d = np.array(robot.tangents), np.array(robot.directors)
    edges, bend_signs = np.array(bends.edges), np.array(bends.signs)
    q = np.concatenate([robot.vertices.ravel(), np.zeros(robot.turning)])
    strain, hinges = np.zeros((len(bends), 3)), np.zeros((len(mesh.hinges), 3))
    twist, angles = np.zeros(len(bends)), np.zeros(len(hinges))
    reference_twists(edges, bend_signs, t, d, np.zeros(len(bends)), twist)
    theta = np.full((len(bends), 11), 3 * len(robot.vertices))
    bend_strains(q, theta, edges, bend_signs, t, *material_frames(d, t, np.zeros(len(t))), twist, strain)
    hinge_angles(q, _vertex_dofs(mesh.hinges), angles)
    hinges[:, 0] = angles
    stretch = np.tile([1.0, 0.0, 0.0], (len(robot.edges), 1))
    if robot.shell_bending == "hinge":
        return np.concatenate([strain, hinges, stretch])
    faces = np.zeros((len(robot.triangles), 3))
    _, normals = rest_normals(robot.vertices, mesh)
    midedge_angles(q, _face_dofs(robot), np.array(mesh.sides), np.array(mesh.signs), normals, faces)
    return np.concatenate([strain, hinges, faces, stretch])


def natural_hinges(system: RodSystem, natural: Floats, angles: Floats) -> None:
    """Set the natural angles [rad] of all hinges; mid-edge normals take half of the change on either side."""
    robot, rest = system.robot, system.natural
    first, last = len(robot.bends), system.faces_at
    natural[first:last, 0] = angles
    if robot.shell_bending == "hinge":
        return
    faces = natural[last : system.edges_at]
    faces[:] = rest[last : system.edges_at]
    change = np.zeros(len(robot.mesh.edges))
    np.add.at(change, robot.mesh.hinge_edges, natural[first:last, 0] - rest[first:last, 0])
    second = robot.mesh.faces[system.sides, 1] == np.arange(len(robot.triangles))[:, None]
    faces += 0.5 * change[system.sides] * np.where(second, -system.signs, 1.0)


def _masses(robot: RodShellRobot, environment: Environment) -> tuple[Floats, Floats, Floats]:
    """Return masses, viscous coefficients [N s/m] and weights [N] of all degrees of freedom."""
    n, section, fluid = len(robot.vertices), robot.section, environment.fluid
    density, viscosity = (fluid.density, fluid.viscosity) if fluid else (0.0, 0.0)
    lengths = np.array(robot.rest_lengths)
    volume, spin = np.zeros(0), np.zeros(0)
    if section is not None:
        line = robot.edge_property("density") * lengths
        volume, spin = lengths * section.area, line * (section.inertia1 + section.inertia2)
        volume[robot.own_edges :] = 0.0
    sheet = robot.mesh.areas * robot.thickness
    mass, displaced = np.array(robot.masses), np.zeros(n)
    for stencil, part, own in (
        (robot.triangles, sheet, robot.shell_material.density if len(sheet) else 0.0),
        (robot.edges, volume, robot.edge_property("density") if len(volume) else 0.0),
    ):
        mass += _lumped(n, stencil, own * part)
        displaced += _lumped(n, stencil, density * part)
    rest = np.zeros(robot.turning)
    # buoyancy: g -> g (rho - rho_med) / rho, section 5.1 of [Lahoti]
    weight = np.concatenate([((mass - displaced)[:, None] * environment.gravity).ravel(), rest])
    viscous = np.concatenate([np.repeat(_lumped(n, robot.edges, viscosity * lengths), 3), rest])
    return np.concatenate([np.repeat(mass, 3), spin, rest[len(spin) :]]), viscous, weight


def _lumped(count: int, stencils: Ints, amounts: Floats) -> Floats:
    """Share the amount of every stencil (S, k) equally among its vertices; return the sums at `count` vertices."""
    width = stencils.shape[1]
    return np.asarray(np.bincount(stencils.ravel(), np.repeat(amounts / width, width), count), dtype=float)


def _free(robot: RodShellRobot) -> Bools:
    """Return the free degrees of freedom; a planar robot keeps its plane and its edges do not turn."""
    held, turned = np.array(robot.fixed_components), np.zeros(robot.turning, dtype=bool)
    held[robot.fixed_vertices] = True
    turned[robot.fixed_edges] = True
    if robot.shell_bending == "mid-edge" and len(robot.triangles):
        clamped = np.asarray(held.all(axis=1))[robot.triangles].all(axis=1)
        turned[len(robot.edges) + robot.mesh.sides[clamped]] = True
    if robot.planar:
        held[:, PLANE_NORMAL_AXES[robot.planar]] = True
        turned[:] = True
    return np.concatenate([~held.ravel(), ~turned])


def load_force(system: RodSystem, index: int) -> Floats:
    """Return the dead loads [N, N m] on all degrees of freedom at command `index`, without weight.

    A force is spread over its vertices by the rest length of the edges between them, or equally if none is. A torque works on
    theta alone: frames carried in time do not turn about their edge, so theta is the angle by which it turns.
    """
    robot = system.robot
    n = len(robot.vertices)
    if not system.environment.loads:
        return np.zeros(system.dofs)
    force, torque = np.zeros((n, 3)), np.zeros(robot.turning)
    for load in system.environment.loads:
        value = load.at(max(index, 0))
        if load.kind in ("torque", "moment"):
            bad = load.where[(load.where < 0) | (load.where >= robot.own_edges)]
            if len(bad):
                raise InputError(
                    f"Load.{load.kind}: edge {bad[0]} is none of the {robot.own_edges} edges of rods (from 0)"
                )
            if load.kind == "torque":
                np.add.at(torque, load.where, value)
            continue  # a moment is no dead load: see `geosim.rods.moments`
        if load.kind != "force":
            raise InputError(f"Load.{load.kind}: rods have no faces; use Load.force(vertices, total_force)")
        ids = selected_ids(load.where, robot.vertices, "Load.force: vertices")
        chosen = np.zeros(n, dtype=bool)
        chosen[ids] = True
        inside = chosen[robot.edges].all(axis=1)
        share = _lumped(n, robot.edges[inside], robot.rest_lengths[inside])
        if not (share[ids] > 0).all():
            share = chosen.astype(float)
        force += (share / share.sum())[:, None] * value
    return np.concatenate([force.ravel(), torque])


def refuse_tight_moments(system: RodSystem, index: int) -> None:
    """Refuse moments on the free end of a rod that bend it to a radius below its own: no rod has such an equilibrium.

    Raises
    ------
    InputError
        Naming edge, moment and both radii.
    """
    robot, section = system.robot, system.robot.section
    held = np.asarray(~system.free[: system.turns].reshape(-1, 3).any(axis=1))
    loose = (np.bincount(robot.edges.ravel(), minlength=len(robot.vertices)) == 1) & ~held
    for load in system.environment.loads:
        if load.kind != "moment" or section is None:
            continue
        moment = load.at(max(index, 0))
        for e in load.where[loose[robot.edges[load.where]].any(axis=1)]:
            size = float(np.linalg.norm(np.cross(moment, robot.tangents[e])))
            stiffness = robot.edge_property("youngs_modulus")[e] * min(section.inertia1[e], section.inertia2[e])
            own = float(robot.radius[e])
            if size * own > stiffness:
                raise InputError(
                    f"Load.moment: {size:.3g} N m on the end edge {e} bends the rod to a radius of "
                    f"{1e3 * stiffness / size:.3g} mm, below its own, {1e3 * own:.3g} mm; at most {stiffness / own:.3g} N m"
                )


def checked_rotations(
    robot: RodShellRobot, rotations: Sequence[tuple[ArrayLike, ArrayLike]], rows: int | None = None
) -> list[tuple[Ints, Floats]]:
    """Return the edges (e,) and angles (k, e) [rad] of all prescribed rotations; `rows` are those of the actuation.

    Raises
    ------
    InputError
        An item is no pair, an edge is none of the rods' own or comes twice, or the angles have another shape.
    """
    found: list[tuple[Ints, Floats]] = []
    for i, item in enumerate(rotations):
        name = f"RodShellStepper: edge_rotations[{i}]"
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise InputError(f"{name} = {shown(item)} must be a pair (edges, angles)")
        which = ints(np.atleast_1d(np.asarray(item[0])), f"{name}: edges of rods", (None,), below=robot.own_edges or 0)
        ids, times = np.unique(which, return_counts=True)
        if not len(which) or times.max() > 1:
            fault = f"edge {ids[np.argmax(times)]} comes twice" if len(which) else "no edge is given"
            raise InputError(f"{name}: {fault}; give every edge once")
        found.append((which, _angles(item[1], name, len(which), rows)))
    return found


def _angles(given: ArrayLike, name: str, edges: int, rows: int | None) -> Floats:
    """Return angles (k, e) [rad] of so many edges, from a number, a row, or one row a command."""
    angles = real_array(given, f"{name}: angles [rad]")
    table = np.full((1, edges), angles) if angles.ndim == 0 else np.atleast_2d(angles)
    fits = table.ndim == 2 and table.shape[1] == edges and len(table) > 0
    if not fits or (rows is not None and len(table) not in (1, rows)):
        needed = f"({edges},), or one row a command, ({'k' if rows is None else rows}, {edges})"
        raise InputError(f"{name}: angles have the shape {angles.shape}; give {needed}")
    return floats(table, f"{name}: angles [rad]", (None, None))


def prescribed_values(
    system: RodSystem, index: int, rotations: Sequence[tuple[ArrayLike, ArrayLike]] = ()
) -> tuple[Ints, Floats]:
    """Return prescribed degrees of freedom and their values at command `index` (m; rad for edge rotations)."""
    robot = system.robot
    if not system.environment.prescribed and not rotations:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    value = np.full(system.dofs, np.nan)
    for item in system.environment.prescribed:
        ids = selected_ids(item.vertices, robot.vertices, "Prescribed: vertices")
        dofs = (3 * ids[:, None] + np.arange(3)).ravel()
        target = (robot.vertices[ids] + item.at(index, len(ids))).ravel()
        value[dofs] = np.where(np.isnan(target), value[dofs], target)
    for which, table in checked_rotations(robot, rotations):
        value[system.turns + which] = table[min(index, len(table) - 1)]
    dofs = np.flatnonzero(~np.isnan(value))
    return dofs, value[dofs]
