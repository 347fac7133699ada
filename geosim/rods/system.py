"""What can be computed once for a rod robot in an environment: stencils, stiffnesses, masses, dead loads, pattern.

Degrees of freedom q = [x (3 n), theta (E), xi (Z)], Eqs. (1)-(2) of [Lahoti]; xi only with mid-edge normals. Masses are
lumped: half an edge's mass to each end, a third of a triangle's to each vertex, and rho l (I1 + I2) to the rotation of the edge
about itself (rho A l r^2 / 2 for a disc).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.rods.frames import bend_strains, material_frames, reference_twists
from geosim.rods.linear import Pattern, make_pattern
from geosim.rods.midedge import midedge_angles, midedge_matrices, rest_normals, triangle_sides
from geosim.rods.robot import AXES, RodShellRobot
from geosim.rods.shells import hinge_angles
from geosim.select import selected_ids

__all__ = ["System", "make_system", "natural_hinges", "rest_strains"]


@dataclass(frozen=True)
class ShellSprings:
    """Springs and hinges, or triangles with mid-edge normals, of the shell as flat arrays."""

    spring_dofs: Ints
    stretch: Floats
    rest: Floats
    hinge_dofs: Ints
    bending: Floats
    spring_slots: Ints
    hinge_slots: Ints
    face_dofs: Ints
    sides: Ints
    signs: Floats
    matrices: Floats
    face_slots: Ints


@dataclass(frozen=True, repr=False, eq=False)
class System:
    """A robot and its environment as flat arrays."""

    robot: RodShellRobot
    environment: Environment
    edge_dofs: Ints
    bend_dofs: Ints
    stretch_edges: Ints
    axial: Floats
    rest: Floats
    bending: Floats
    natural: Floats
    mass: Floats
    weight: Floats
    viscous: Floats
    vertex_radius: Floats
    held_free: Bools
    free: Bools
    pattern: Pattern
    stretch_slots: Ints
    bend_slots: Ints
    vertex_slots: Ints
    shell: ShellSprings
    shapes: Any = None  # obstacles as flat arrays, see geosim.rods.obstacles
    sheet: Any = None  # triangles that may touch each other, see geosim.rods.sheets

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


def make_system(robot: RodShellRobot, environment: Environment) -> System:
    """Compile robot and environment."""
    if environment.rigid_groups:
        raise InputError("rigid_groups: rods and shells know none; prescribe their vertices, or use EnergyShapeSolver")
    n, count = len(robot.vertices), len(robot.edges)
    bends = robot.bends
    edge_dofs = np.column_stack([3 * robot.edges, 3 * n + np.arange(count)]).astype(np.int64)
    axes = np.arange(3)
    x = [3 * bends.vertices[:, k : k + 1] + axes for k in range(3)]
    turn = 3 * n + bends.edges
    bend_dofs = np.hstack([x[0], turn[:, :1], x[1], turn[:, 1:], x[2]]).astype(np.int64)
    mass, viscous, weight = _masses(robot, environment)
    free = _free(robot)
    pattern = _pattern(robot, edge_dofs, bend_dofs, free)
    radius = np.zeros(n)
    np.maximum.at(radius, robot.edges[:, 0], robot.radius)
    np.maximum.at(radius, robot.edges[:, 1], robot.radius)
    axial = _override(_axial(robot), robot.stretch_stiffness)
    for side in range(3):
        np.maximum.at(radius, robot.triangles[:, side], 0.5 * robot.thickness)
    return System(
        robot,
        environment,
        edge_dofs,
        bend_dofs,
        np.arange(count),
        axial,
        np.array(robot.rest_lengths),
        _bending(robot),
        rest_strains(robot),
        mass,
        weight,
        viscous,
        radius,
        free,
        free,
        pattern,
        *_slots(pattern, edge_dofs, bend_dofs, n),
        _shell(robot, pattern),
    )


def with_free(system: System, free: Bools) -> System:
    """Return the system for another set of free degrees of freedom."""
    pattern = _pattern(system.robot, system.edge_dofs, system.bend_dofs, free)
    stretch, bend, vertex = _slots(pattern, system.edge_dofs, system.bend_dofs, len(system.robot.vertices))
    return replace(
        system,
        free=free,
        pattern=pattern,
        stretch_slots=stretch,
        bend_slots=bend,
        vertex_slots=vertex,
        shell=_shell(system.robot, pattern),
    )


def _override(default: Floats, given: Any) -> Floats:
    if given is None:
        return default
    value = np.asarray(given, dtype=float)
    if value.ndim == 1 and default.ndim == 2:
        value = value[:, None]
    value = np.broadcast_to(value, default.shape)
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


def rest_strains(robot: RodShellRobot) -> Floats:
    """Return the natural strains of the rest shape with theta = 0, shape (S + H, 3), with mid-edge normals (S + H + T, 3).

    Rows of stencils hold kappa1, kappa2 [-] and tau [rad]; those of hinges hold the angle [rad] first; those of triangles the
    angles [rad] to the normals of their edges.
    """
    bends = robot.bends
    t, d = np.array(robot.tangents), np.array(robot.directors)
    m1, m2 = material_frames(d, t, np.zeros(len(t)))
    twist = np.zeros(len(bends))
    edges, signs = np.array(bends.edges), np.array(bends.signs)
    reference_twists(edges, signs, t, d, np.zeros(len(bends)), twist)
    strain = np.zeros((len(bends), 3))
    dofs = np.zeros((len(bends), 11), dtype=np.int64)
    bend_strains(np.zeros(1), dofs, edges, signs, t, m1, m2, twist, strain)
    hinges = np.zeros((len(robot.mesh.hinges), 3))
    angles = np.zeros(len(hinges))
    hinge_angles(robot.vertices.ravel(), _vertex_dofs(robot.mesh.hinges), angles)
    hinges[:, 0] = angles
    if robot.shell_bending == "hinge":
        return np.concatenate([strain, hinges])
    faces = np.zeros((len(robot.triangles), 3))
    sides, signs = triangle_sides(robot.triangles, robot.mesh)
    _, normals = rest_normals(robot.vertices, robot.triangles, robot.mesh)
    q = np.concatenate([robot.vertices.ravel(), np.zeros(robot.turning)])
    midedge_angles(q, _face_dofs(robot), sides, signs, normals, faces)
    return np.concatenate([strain, hinges, faces])


def _face_dofs(robot: RodShellRobot) -> Ints:
    """Degrees of freedom of the vertices of every triangle and of the normals opposite to them, (T, 12)."""
    if robot.shell_bending == "hinge":
        return np.zeros((0, 12), dtype=np.int64)
    sides, _ = triangle_sides(robot.triangles, robot.mesh)
    return np.hstack([_vertex_dofs(robot.triangles), 3 * len(robot.vertices) + len(robot.edges) + sides])


def natural_hinges(system: System, natural: Floats, angles: Floats) -> None:
    """Set the natural angles [rad] of all hinges; mid-edge normals take half of the change on either side."""
    robot, rest = system.robot, system.natural
    first, last = len(robot.bends), system.faces_at
    natural[first:last, 0] = angles
    if robot.shell_bending == "hinge":
        return
    faces = natural[last:]
    faces[:] = rest[last:]
    change = np.zeros(len(robot.mesh.edges))
    np.add.at(change, robot.mesh.hinge_edges, natural[first:last, 0] - rest[first:last, 0])
    second = robot.mesh.faces[system.shell.sides, 1] == np.arange(len(robot.triangles))[:, None]
    faces += 0.5 * change[system.shell.sides] * np.where(second, -system.shell.signs, 1.0)


def _vertex_dofs(vertices: Ints) -> Ints:
    """Degrees of freedom of the vertices of stencils, (S, k) -> (S, 3 k)."""
    return (3 * vertices[:, :, None] + np.arange(3)).reshape(len(vertices), 3 * vertices.shape[1])


def _axial(robot: RodShellRobot) -> Floats:
    """Return EA [N] of every rod edge; the edges that a joint borrows from the shell have none of their own."""
    if robot.section is None:
        return np.zeros(0)
    axial = np.array(robot.edge_property("youngs_modulus") * robot.section.area)
    axial[robot.own_edges :] = 0.0
    return axial


def _shell(robot: RodShellRobot, pattern: Pattern) -> ShellSprings:
    """Return the springs and hinges of the triangles; constants in the docstring of `geosim.rods.shells`."""
    mesh, h = robot.mesh, robot.thickness
    spring_dofs, hinge_dofs = _vertex_dofs(mesh.edges), _vertex_dofs(mesh.hinges)
    rest = np.linalg.norm(robot.vertices[mesh.edges[:, 1]] - robot.vertices[mesh.edges[:, 0]], axis=1)
    stretch, bending = np.zeros(len(rest)), np.zeros(len(hinge_dofs))
    if len(h):
        e, nu = robot.shell_material.youngs_modulus, robot.shell_material.poisson_ratio
        inside = mesh.faces[:, 1] >= 0
        thick = np.where(inside, 0.5 * (h[mesh.faces[:, 0]] + h[mesh.faces[:, 1]]), h[mesh.faces[:, 0]])
        stretch = np.sqrt(3.0) / 4.0 * e * thick * rest
        at = mesh.hinge_edges
        if robot.shell_constants == "published":
            bending = e * thick[at] ** 3 / (12.0 * np.sqrt(3.0))
        elif robot.shell_constants == "matlab":
            stretch, bending = 2.0 * stretch, e * thick[at] ** 3 / (6.0 * np.sqrt(3.0))
        else:
            stretch = np.where(inside, 2.0, 1.0) * stretch
            # (2 / sqrt 3) D on equilateral triangles, where l^2 / (A1 + A2) = 2 / sqrt 3
            bending = (
                e
                * thick[at] ** 3
                / (12.0 * (1.0 - nu**2))
                * rest[at] ** 2
                / (mesh.areas[mesh.faces[at, 0]] + mesh.areas[mesh.faces[at, 1]])
            )
        bending = _override(bending, robot.hinge_stiffness)
    face_dofs = _face_dofs(robot)
    sides, signs = triangle_sides(robot.triangles, mesh)
    matrices = np.zeros((0, 3, 3))
    if len(face_dofs):
        hinge_dofs, bending = hinge_dofs[:0], bending[:0]
        matrices = midedge_matrices(robot.vertices, robot.triangles, mesh, e * h**3 / (12.0 * (1.0 - nu**2)), nu)
    return ShellSprings(
        spring_dofs,
        stretch,
        rest,
        hinge_dofs,
        bending,
        pattern.slots(spring_dofs),
        pattern.slots(hinge_dofs),
        face_dofs,
        sides,
        signs,
        matrices,
        pattern.slots(face_dofs),
    )


def _masses(robot: RodShellRobot, environment: Environment) -> tuple[Floats, Floats, Floats]:
    """Return masses, viscous coefficients [N s/m] and weights [N] of all degrees of freedom."""
    n = len(robot.vertices)
    section = robot.section
    vertex_mass, displaced, length = np.zeros(n), np.zeros(n), np.zeros(n)
    fluid = environment.fluid
    if section is None:
        line, volume, spin, edge_mass = np.zeros((4, 0))
    else:
        line = robot.edge_property("density") * robot.rest_lengths
        volume = robot.rest_lengths * section.area
        spin = line * (section.inertia1 + section.inertia2)
        edge_mass = line * section.area
        edge_mass[robot.own_edges :] = volume[robot.own_edges :] = 0.0
    if len(robot.triangles):
        sheet = robot.mesh.areas * robot.thickness / 3.0
        for side in range(3):
            np.add.at(vertex_mass, robot.triangles[:, side], robot.shell_material.density * sheet)
            np.add.at(displaced, robot.triangles[:, side], sheet * (fluid.density if fluid else 0.0))
    for end in range(2):
        np.add.at(vertex_mass, robot.edges[:, end], 0.5 * edge_mass)
        np.add.at(displaced, robot.edges[:, end], 0.5 * volume * (fluid.density if fluid else 0.0))
        np.add.at(length, robot.edges[:, end], 0.5 * robot.rest_lengths)
    vertex_mass += robot.masses
    rest = np.zeros(robot.turning)
    mass = np.concatenate([np.repeat(vertex_mass, 3), spin, rest[len(spin) :]])
    # buoyancy: g -> g (rho - rho_med) / rho, section 5.1 of [Lahoti]
    weight = np.concatenate([((vertex_mass - displaced)[:, None] * environment.gravity).ravel(), rest])
    viscous = np.concatenate([np.repeat(length * (fluid.viscosity if fluid else 0.0), 3), rest])
    return mass, viscous, weight


def _free(robot: RodShellRobot) -> Bools:
    """Return the free degrees of freedom; a planar robot keeps its plane and its edges do not turn."""
    n = len(robot.vertices)
    held = np.array(robot.fixed_components)
    held[robot.fixed_vertices] = True
    turned = np.zeros(robot.turning, dtype=bool)
    turned[robot.fixed_edges] = True
    if robot.shell_bending == "mid-edge" and len(robot.triangles):
        clamped = np.asarray(held.all(axis=1))[robot.triangles].all(axis=1)
        sides, _ = triangle_sides(robot.triangles[clamped], robot.mesh)
        turned[len(robot.edges) + sides] = True
    if robot.planar:
        held[:, AXES[robot.planar]] = True
        turned[:] = True
    return np.concatenate([~held.ravel(), ~turned]).reshape(3 * n + robot.turning)


def _edge_pairs(edge_dofs: Ints) -> Ints:
    """Degrees of freedom of both ends of every edge, (E, 6)."""
    axes = np.arange(3)
    return np.hstack([edge_dofs[:, :1] + axes, edge_dofs[:, 1:2] + axes])


def _pattern(robot: RodShellRobot, edge_dofs: Ints, bend_dofs: Ints, free: Bools) -> Pattern:
    bending = _vertex_dofs(robot.mesh.hinges) if robot.shell_bending == "hinge" else _face_dofs(robot)
    return make_pattern(
        len(free), [_edge_pairs(edge_dofs), bend_dofs, _vertex_dofs(robot.mesh.edges), bending], free, _along_rod(robot)
    )


def _slots(pattern: Pattern, edge_dofs: Ints, bend_dofs: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    return (
        pattern.slots(_edge_pairs(edge_dofs)),
        pattern.slots(bend_dofs),
        pattern.slots(np.arange(3 * n).reshape(n, 3)),
    )


def _along_rod(robot: RodShellRobot) -> Ints | None:
    """Return the numbering [x0, theta0, x1, ...] if the edges form open chains, else None."""
    n = len(robot.vertices)
    incident: list[list[int]] = [[] for _ in range(n)]
    for i, (a, b) in enumerate(robot.edges):
        incident[a].append(i)
        incident[b].append(i)
    if len(robot.triangles) or max(len(around) for around in incident) > 2:
        return None
    order: list[int] = []
    seen = np.zeros(len(robot.edges), dtype=bool)
    for start in range(n):
        if len(incident[start]) != 1 or seen[incident[start][0]]:
            continue
        vertex = start
        order += [3 * vertex, 3 * vertex + 1, 3 * vertex + 2]
        while True:
            ahead = [i for i in incident[vertex] if not seen[i]]
            if not ahead:
                break
            edge = ahead[0]
            seen[edge] = True
            a, b = robot.edges[edge]
            vertex = int(b if a == vertex else a)
            order += [3 * n + edge, 3 * vertex, 3 * vertex + 1, 3 * vertex + 2]
    return np.array(order, dtype=np.int64) if seen.all() else None


def load_force(system: System, index: int) -> Floats:
    """Return the dead loads [N] on all degrees of freedom at command `index`, without weight.

    A force is spread over its vertices by the rest length of the edges between them, or equally if none is.
    """
    robot = system.robot
    n = len(robot.vertices)
    force = np.zeros((n, 3))
    for load in system.environment.loads:
        if load.kind != "force":
            raise InputError(f"Load.{load.kind}: rods have no faces; use Load.force(vertices, total_force)")
        ids = selected_ids(load.where, robot.vertices, "Load.force: vertices")
        value = np.atleast_2d(load.value)
        value = value[min(max(index, 0), len(value) - 1)]
        chosen = np.zeros(n, dtype=bool)
        chosen[ids] = True
        inside = chosen[robot.edges].all(axis=1)
        share = np.zeros(n)
        for end in range(2):
            np.add.at(share, robot.edges[inside, end], 0.5 * robot.rest_lengths[inside])
        if not (share[ids] > 0).all():
            share = chosen.astype(float)
        force += (share / share.sum())[:, None] * value
    return np.concatenate([force.ravel(), np.zeros(robot.turning)])


def prescribed_values(system: System, index: int, rotations: Any = ()) -> tuple[Ints, Floats]:
    """Return prescribed degrees of freedom and their values at command `index` (m; rad for edge rotations)."""
    robot = system.robot
    value = np.full(system.dofs, np.nan)
    for item in system.environment.prescribed:
        ids = selected_ids(item.vertices, robot.vertices, "Prescribed: vertices")
        dofs = (3 * ids[:, None] + np.arange(3)).ravel()
        target = (robot.vertices[ids] + item.at(index, len(ids))).ravel()
        value[dofs] = np.where(np.isnan(target), value[dofs], target)
    for edges, angles in rotations:
        which = np.atleast_1d(np.asarray(edges, dtype=np.int64))
        table = np.asarray(angles, dtype=float)
        row = table[min(index, len(table) - 1)] if table.ndim == 2 else table
        value[system.turns + which] = row
    dofs = np.flatnonzero(~np.isnan(value))
    return dofs, value[dofs]
