"""The discrete problem of the energy solver: everything that is computed once, in scaled units.

Lengths are in units of the body's bounding-box diagonal, stresses in units of the shear modulus: in SI the stiffness
is about 1e2 and the incompressibility rows 1e-6, and a pivot perturbation of 1e-8 would swamp the pressure block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geosim.arrays import Bools, Floats, Ints, frozen
from geosim.environment import Environment
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.linear.bordered import BorderedSolver
from geosim.linear.factorise import make_factoriser
from geosim.linear.patterns import Sparsity
from geosim.material import tensors as constitutive
from geosim.robot import VolumetricRobot
from geosim.shape.energy import assembly
from geosim.shape.energy.chambers import Chambers, make_chambers
from geosim.shape.energy.contact import Contact, ContactForces, Grip, make_contact
from geosim.shape.energy.elements import Element, element, tetrahedron_slopes
from geosim.shape.energy.loads import LoadShape, load_shapes
from geosim.shape.energy.rigid import Rigids, RigidState, make_groups, make_rigids
from geosim.shape.energy.rigid_equations import ReducedSolver, Reduction
from geosim.shape.energy.supports import Group, Supports, supports

__all__ = ["Evaluation", "Problem", "make_problem"]


@dataclass(frozen=True)
class Evaluation:
    """Residuals (and, if asked for, the matrix) at one configuration, in scaled units.

    Parameters
    ----------
    force
        Out-of-balance force on every node, f_int - P grad v - f_ext, (nodes, 3).
    constraint
        integral q (J - 1 - p / kappa), (pressures,).
    volumes
        Chamber volumes (c,).
    gradients
        Their gradients (c, nodes, 3).
    scale
        Largest nodal sum of the norms of element forces, with pressure and loads.
    energy, smallest
        Elastic energy, and the smallest J at the quadrature points (<= 0: inverted, all else is meaningless).
    body_volume
        Volume of the body.
    data, sparsity
        CSR values of the tangent, or None, and their pattern.
    contact
        Forces of contact, or None.
    rigid
        State of the rigid groups, or None. `force` holds on their nodes only what is out of balance.
    """

    force: Floats
    constraint: Floats
    volumes: Floats
    gradients: Floats
    scale: float
    energy: float
    smallest: float
    body_volume: float
    data: Floats | None
    sparsity: Sparsity
    contact: ContactForces | None = None
    rigid: RigidState | None = None


@dataclass(frozen=True)
class Problem:
    """Arrays of the discrete problem; node k of the problem is node `nodes[k]` of the robot (vertices, mid-edges)."""

    robot: VolumetricRobot
    environment: Environment
    element: Element
    stabilise: bool
    length: float
    stress: float
    center: Floats
    nodes: Ints
    rest: Floats
    tets: Ints
    pressure_vertices: Ints
    pressure_tets: Ints
    barycentric: Floats
    volumes: Floats
    material: Ints
    table: Floats
    pattern: assembly.Pattern
    closed: Chambers
    rest_chamber_volumes: Floats
    supports: Supports
    held: Bools
    enclosed: bool
    mass: Floats
    load_shapes: tuple[LoadShape, ...]
    bernstein_slopes: Floats
    linear: BorderedSolver
    contact: Contact | None
    isochoric_table: Floats
    rigid: Rigids | None
    reduction: Reduction | None

    @property
    def force_unit(self) -> float:
        """Newtons in one scaled unit of force."""
        return self.stress * self.length**2

    @property
    def body_volume(self) -> float:
        """Scaled rest volume of the body."""
        return float(self.volumes.sum())

    @property
    def chambers(self) -> int:
        """Number of chambers."""
        return len(self.closed.walls)

    @property
    def walls(self) -> tuple[tuple[Ints, Ints], ...]:
        """Nodes of the faces of every chamber's wall, and their ranks in the pattern."""
        return self.closed.walls

    @property
    def groups(self) -> int:
        """Number of rigid groups."""
        return len(self.rigid.nodes) if self.rigid is not None else 0

    def external_forces(self, index: int) -> Floats:
        """Scaled dead loads of command `index`: on the nodes, then forces and moments on rigid groups, (nodes + 2 g, 3)."""
        out = self.mass[:, None] * self.environment.gravity[None]
        for weights, load in self.load_shapes:
            out = out + weights[self.nodes][:, None] * load.at(index)[None]
        groups = self.environment.rigid_groups
        wrenches = [*(g.at("force", index) for g in groups), *(g.at("moment", index) / self.length for g in groups)]
        return np.vstack([out, *wrenches]) / self.force_unit

    def loads_of(self, force: Floats) -> Floats:
        """Scaled loads that are forces on the nodes alone, (nodes + 2 g, 3)."""
        return np.vstack([force, np.zeros((2 * self.groups, 3))])

    def goal(self, x: Floats, before: Floats | None = None) -> Floats:
        """Positions as a goal: those of the nodes, then displacements and rotations of rigid groups, (nodes + 2 g, 3).

        `before` is a goal that has been met: of what is prescribed it knows turns beyond half a revolution.
        """
        if self.rigid is None:
            return x
        rows = self.rigid.rows(x)
        if before is not None:
            rows = np.where(self.rigid.held.reshape(-1, 2, 3).transpose(1, 0, 2).reshape(-1, 3), before[len(x) :], rows)
        return np.vstack([x, rows])

    def held_positions(self, index: int) -> Floats:
        """Scaled positions at which the held components are held in command `index`, as a goal (nodes + 2 g, 3)."""
        robot, n = self.robot, len(self.robot.vertices)
        place = np.full(n + len(robot.p2_edges), -1)
        place[self.nodes] = np.arange(len(self.nodes))
        out = self.rest.copy()
        for moved in self.supports.prescribed:
            item = self.environment.prescribed[moved.entry]
            vertices = moved.nodes[moved.nodes < n]
            full = np.zeros((n + len(robot.p2_edges), 3))
            full[vertices] = np.nan_to_num(item.at(index, len(vertices))[moved.rows])
            middle = moved.nodes[moved.nodes >= n]
            full[middle] = full[robot.p2_edges[middle - n]].mean(axis=1)
            solved = place[moved.nodes] >= 0  # straight elements have no mid-edge nodes
            out[place[moved.nodes[solved]]] += (
                np.where(moved.components[solved], full[moved.nodes[solved]], 0.0) / self.length
            )
        groups = self.environment.rigid_groups
        return np.vstack(
            [
                out,
                *(g.at("displacement", index) / self.length for g in groups),
                *(g.at("rotation", index) for g in groups),
            ]
        )

    def shift(self, x: Floats, goal: Floats) -> Floats:
        """What held components and prescribed motions of groups still have to move, to first order, (nodes, 3)."""
        held = self.held[: x.size].reshape(-1, 3)
        out = np.where(held, goal[: len(x)] - x, 0.0)
        return out if self.rigid is None else out + self.rigid.lifted(x, self.rigid.motion(x, goal[len(x) :]))

    def at_goal(self, x: Floats, goal: Floats) -> Floats:
        """Positions with held components and prescribed groups where they shall be, (nodes, 3)."""
        out = np.where(self.held[: x.size].reshape(-1, 3), goal[: len(x)], x)
        return out if self.rigid is None else self.rigid.at_goal(out, goal[len(x) :])

    def moved(self, x: Floats, step: Floats, length: float) -> Floats:
        """Positions after a share of a step; rigid groups turn."""
        return x + length * step if self.rigid is None else self.rigid.moved(x, step, length)

    def settled(self, x: Floats) -> Floats:
        """Positions in which rigid groups are rigid."""
        return x if self.rigid is None else self.rigid.settled(x)

    def solver_of(self, evaluation: Evaluation, motion: Floats | None = None) -> BorderedSolver | ReducedSolver:
        """Return what solves for a Newton step with the tangent of an evaluation.

        `motion` (g, 6) is what prescribed groups still have to move (see `Rigids.motion`); what it moves is in the shift.
        """
        if self.rigid is None or evaluation.rigid is None or self.reduction is None:
            self.linear.use(evaluation.sparsity)
            return self.linear
        motion = np.zeros((self.groups, 6)) if motion is None else motion
        return ReducedSolver(self.reduction, self.linear, evaluation.sparsity, evaluation.rigid, motion)

    def motion(self, x: Floats, goal: Floats) -> Floats | None:
        """What prescribed groups still have to move, (g, 6); None without groups."""
        return None if self.rigid is None else self.rigid.motion(x, goal[len(x) :])

    def evaluate(
        self,
        x: Floats,
        p: Floats,
        chamber_pressures: Floats,
        external: Floats,
        *,
        matrix: bool,
        grip: Grip | None = None,
        table: Floats | None = None,
    ) -> Evaluation:
        """Return residuals, and the tangent if `matrix`, at scaled positions, pressures and loads, with contact by `grip`.

        Of `external` the rows beyond the nodes, if there are any, are forces and moments on the rigid groups.
        """
        el, pattern = self.element, self.pattern
        data = np.zeros(len(pattern.indices) if matrix else 0)
        force, scale = np.zeros_like(x), np.zeros(len(x))
        constraint = np.zeros(len(self.pressure_vertices))
        energy, smallest, body_volume = assembly.assemble(
            x,
            p,
            self.tets,
            self.pressure_tets,
            self.barycentric,
            self.volumes,
            self.material,
            self.table if table is None else table,
            el.energy_slopes,
            el.energy_weights,
            el.constraint_slopes,
            el.constraint_points,
            el.constraint_weights,
            self.stabilise,
            matrix,
            pattern.indptr,
            pattern.node_rank,
            pattern.pressure_rank,
            pattern.node_degree,
            pattern.pp_rank,
            data,
            force,
            scale,
            constraint,
        )
        gradients = np.zeros((self.chambers, *x.shape))
        volumes = np.empty(self.chambers)
        for c, (faces, ranks) in enumerate(self.walls):
            volumes[c] = self.closed.fixed_volumes[c] + assembly.wall_volumes(
                x,
                faces,
                el.face_shape,
                el.face_slopes,
                el.face_weights,
                float(chamber_pressures[c]),
                matrix,
                pattern.indptr,
                ranks,
                data,
                gradients[c],
                scale,
            )
            force -= chamber_pressures[c] * gradients[c]
        for cap in self.closed.sliding:
            volumes[cap.chamber] += cap.volume(x)
        on_nodes = external[: len(x)]
        force -= on_nodes
        scale += np.linalg.norm(on_nodes, axis=1)
        values, contact = data if matrix else None, None
        sparsity: Sparsity = pattern
        if self.contact is not None and grip is not None and np.isfinite(energy):
            contact = self.contact.evaluate(x, grip, pattern, values)
            force += contact.force
            scale += np.linalg.norm(contact.force, axis=1)
            energy = energy if np.isfinite(contact.energy) else np.inf
            if contact.pattern is not None:
                values, sparsity = contact.data, contact.pattern
        rigid = None
        if self.rigid is not None:
            wrenches = external[len(x) :] if len(external) > len(x) else np.zeros((2 * self.groups, 3))
            rigid = self.rigid.close(x, chamber_pressures, wrenches, force, scale, volumes, gradients)
        return Evaluation(
            force,
            constraint,
            volumes,
            gradients,
            float(scale.max(initial=0.0)),
            energy,
            smallest,
            body_volume,
            values,
            sparsity,
            contact,
            rigid,
        )

    def isochoric_pressures(self, x: Floats, p: Floats) -> Floats:
        """Pressures that balance the isochoric form of the energy where `p` balances the form in use, (v,)."""
        mean = np.empty(len(p))
        for table, sign in ((self.table, 1.0), (self.isochoric_table, -1.0)):
            assembly.mean_stresses(
                x,
                self.tets,
                self.pressure_tets,
                self.barycentric,
                self.volumes,
                self.material,
                table,
                self.element.constraint_slopes,
                self.element.constraint_points,
                self.element.constraint_weights,
                mean,
            )
            p = p + sign * mean
        return p

    def jacobian_bounds(self, x: Floats) -> Floats:
        """Lower bounds of J in every body tet (Bernstein coefficients), (m,)."""
        bounds = np.empty(len(self.tets))
        assembly.jacobian_bounds(x, self.tets, self.barycentric, self.bernstein_slopes, bounds)
        return bounds

    def inverted(self, x: Floats) -> int:
        """Number of body tets with J <= 0 at a corner, a mid-edge or a quadrature point."""
        doubtful = np.flatnonzero(self.jacobian_bounds(x) <= 0.0)
        if len(doubtful) == 0:
            return 0
        from geosim.geometry.topology import EDGES

        corners = np.eye(4)
        points = np.vstack(
            [corners, 0.5 * (corners[EDGES[:, 0]] + corners[EDGES[:, 1]]), self.element.constraint_points]
        )
        slopes = tetrahedron_slopes(points, self.element.order)
        F = np.einsum("eai,qak,ekj->eqij", x[self.tets[doubtful]], slopes, self.barycentric[doubtful])
        return int((np.linalg.det(F) <= 0.0).any(axis=1).sum())

    def check_enclosed(self, positions: Floats) -> None:
        """Refuse held positions that change the volume of an incompressible body whose whole surface is held.

        Raises
        ------
        InputError
            By how much the volume would change.
        """
        if self.enclosed:
            F = np.einsum("eai,qak,ekj->eqij", positions[self.tets], self.element.constraint_slopes, self.barycentric)
            change = float(self.volumes @ (np.linalg.det(F) @ self.element.constraint_weights)) / self.body_volume - 1.0
            if abs(change) > 1e-7:
                raise InputError(
                    f"prescribed: the whole surface of an incompressible body is prescribed and would change its "
                    f"volume by {100 * change:.3g} %; leave a part free, or give the material a bulk_modulus"
                )

    def to_metres(self, x: Floats) -> Floats:
        """Positions [m] of scaled positions."""
        return x * self.length + self.center


def make_problem(
    robot: VolumetricRobot,
    environment: Environment,
    order: int,
    factoriser: str,
    *,
    isochoric: bool = False,
    contact_thickness: float | None = None,
    imperfection: float = 0.0,
) -> Problem:
    """Return the discrete problem.

    `contact_thickness` is the thickness of contact over the local edge length (default: see `contact`);
    `imperfection` the amplitude of a smooth deviation of the rest shape over the body's size.

    Raises
    ------
    InputError
        The robot cannot be solved: a chamber is open, a body is not held, loads on a free body do not balance.
    """
    tets_all = robot.p2_tets if order == 2 else robot.body_tets
    nodes, tets = np.unique(tets_all, return_inverse=True)
    tets = frozen(tets.reshape(tets_all.shape))
    pressure_vertices, pressure_tets = np.unique(robot.body_tets, return_inverse=True)
    pressure_tets = frozen(pressure_tets.reshape(-1, 4))
    if imperfection > 0:
        robot = imperfect(robot, imperfection)
    all_nodes = np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)])
    used = robot.vertices[robot.body_vertices]
    center = 0.5 * (used.min(axis=0) + used.max(axis=0))
    length = robot.size
    materials = list(robot.materials.values())
    stress = materials[0].shear_modulus
    rest = frozen((all_nodes[nodes] - center) / length)
    a, b, c, d = (rest[tets[:, i]] for i in range(4))
    inverse = np.linalg.inv(np.stack([a - d, b - d, c - d], axis=2))
    barycentric = frozen(np.concatenate([inverse, -inverse.sum(axis=1, keepdims=True)], axis=1))
    volumes = frozen(topology.tet_volumes(rest, tets[:, :4]))
    body_regions = robot.regions[robot.is_body]
    material = frozen(np.searchsorted(list(robot.materials), body_regions))
    stabilise = order == 1
    compressible = any(np.isfinite(m.bulk_modulus) for m in materials)
    el = element(order)
    pattern = assembly.build_pattern(
        tets, pressure_tets, len(nodes), len(pressure_vertices), couple_pressures=stabilise or compressible
    )
    place = np.full(len(all_nodes), -1)
    place[nodes] = np.arange(len(nodes))
    groups = make_groups(robot, environment)
    closed = make_chambers(robot, environment, order, place, pattern, center, length, groups)
    held_by = supports(robot, environment, groups)
    held, enclosed = _held_unknowns(
        robot, held_by, groups, nodes, tets, pressure_tets, pressure_vertices, order, incompressible=not compressible
    )
    rigid = make_rigids(groups, closed.rigid, place, rest, center, length)
    density = np.array([m.density for m in materials])[material]
    mass = assembly.mass_loads(
        tets, volumes * length**3, density, el.constraint_shape, el.constraint_weights, len(nodes)
    )
    shapes = load_shapes(robot, environment, order)
    problem = Problem(
        robot,
        environment,
        el,
        stabilise,
        length,
        stress,
        frozen(center),
        frozen(nodes),
        rest,
        tets,
        frozen(pressure_vertices),
        pressure_tets,
        barycentric,
        volumes,
        material,
        constitutive.table(materials, stress, isochoric=isochoric),
        pattern,
        closed,
        frozen(robot.chamber_volumes / length**3),
        held_by,
        held,
        enclosed,
        frozen(mass),
        tuple(shapes),
        tetrahedron_slopes(np.eye(4), order),
        BorderedSolver(pattern, make_factoriser(pattern.indptr, pattern.indices, factoriser), factoriser),
        make_contact(
            robot,
            environment,
            place,
            rest,
            order,
            length=length,
            center=center,
            stiffness=_stiffness(materials, stress, material, tets, len(nodes)),
            held=np.asarray(held[: 3 * len(nodes)].reshape(-1, 3).all(axis=1)),
            thickness_share=contact_thickness,
        ),
        constitutive.table(materials, stress, isochoric=True),
        rigid,
        Reduction(rigid, len(nodes), pattern.size) if rigid is not None else None,
    )
    _check_free_bodies(problem)
    return problem


def imperfect(robot: VolumetricRobot, amplitude: float) -> VolumetricRobot:
    """Return the robot with its rest shape bent by smooth waves, of an amplitude over its size; fixed vertices stay.

    The waves are as long as the body, so that every coarse mode of buckling has a part in them.
    """
    x = robot.vertices
    used = x[robot.body_vertices]
    lower, span = used.min(axis=0), np.maximum(np.ptp(used, axis=0), 1e-300)
    s = (x - lower) / span
    wave = np.stack([np.sin(np.pi * (s @ np.roll([1.0, 0.7, 0.4], k)) + 0.3 + k) for k in range(3)], axis=1)
    fade = np.ones(len(x))
    if len(robot.fixed):
        from scipy.spatial import cKDTree

        distance = cKDTree(x[robot.fixed]).query(x)[0]
        fade = np.clip(distance / max(float(distance.max()), 1e-300), 0.0, 1.0) ** 2
    return replace(robot, vertices=x + amplitude * robot.size * fade[:, None] * wave)


def _stiffness(materials: list[Any], stress: float, material: Ints, tets: Ints, nodes: int) -> Floats:
    """Scaled shear modulus at every node: the largest of its elements."""
    out = np.zeros(nodes)
    moduli = np.array([m.shear_modulus for m in materials])[material] / stress
    np.maximum.at(out, tets.ravel(), np.repeat(moduli, tets.shape[1]))
    return out


def _held_unknowns(
    robot: VolumetricRobot,
    held_by: Supports,
    groups: tuple[Group, ...],
    nodes: Ints,
    tets: Ints,
    pressure_tets: Ints,
    pressures: Ints,
    order: int,
    *,
    incompressible: bool,
) -> tuple[Bools, bool]:
    """Return which unknowns are held, and whether a body's whole surface is.

    Held are components of nodes, and pressures that nothing determines: those whose whole patch is clamped or in one
    rigid group, and the constant pressure of a body of which all of the surface is prescribed (one of its pressures is pinned).
    """
    components = held_by.held[nodes]
    held = np.zeros(3 * len(nodes) + len(pressures), dtype=bool)
    held[: 3 * len(nodes)] = components.ravel()
    if not incompressible:
        return frozen(held), False
    if order == 2:
        still = np.asarray(components.all(axis=1))
        moves = ~still[tets].all(axis=1)
        for group in groups:
            moves &= ~group.nodes[nodes][tets].all(axis=1)
        determined = np.zeros(len(pressures), dtype=bool)
        determined[pressure_tets[moves].ravel()] = True
        held[3 * len(nodes) :] = ~determined
    enclosed = False
    surface = topology.curved_faces(np.vstack([robot.skin, *robot.chamber_walls]), robot.p2_edges, len(robot.vertices))
    surface = surface if order == 2 else surface[:, :3]
    led = np.asarray(held_by.held.all(axis=1))
    for group in groups:
        led = led | group.nodes if group.held.all() else led
    clamped = np.asarray(led[surface].all(axis=1))
    for label in range(int(robot.body_labels.max()) + 1):
        mine = robot.body_labels[surface[:, 0]] == label
        if clamped[mine].all():
            first = 3 * len(nodes) + np.flatnonzero(robot.body_labels[pressures] == label)
            held[first[~held[first]][:1]] = True
            enclosed = True
    return frozen(held), enclosed


def _check_free_bodies(problem: Problem) -> None:
    """Refuse loads with a resultant on a body that nothing holds."""
    robot = problem.robot
    if not problem.supports.free_bodies:
        return
    labels = problem.supports.labels
    labels = np.concatenate([labels, labels[robot.p2_edges[:, 0]]])[problem.nodes]
    if problem.environment.obstacles:
        raise InputError("fixed = None: a free body cannot be pressed against an obstacle; hold it somewhere")
    gradients = problem.evaluate(
        problem.rest,
        np.zeros(len(problem.pressure_vertices)),
        np.zeros(problem.chambers),
        np.zeros_like(problem.rest),
        matrix=False,
    ).gradients
    counts = [
        1,
        *(len(load.value) for _, load in problem.load_shapes),
        *(len(v) for g in problem.environment.rigid_groups for v in (g.force, g.moment)),
    ]
    sets = [problem.external_forces(i) for i in range(max(counts))] + list(gradients)
    points, joined = problem.rest, labels
    if problem.rigid is not None:
        points = np.vstack([points, problem.rigid.points])
        joined = np.concatenate([labels, [labels[ids[0]] for ids in problem.rigid.nodes]])
    for forces in sets:
        for label in problem.supports.free_bodies:
            mine = np.flatnonzero(joined == label)
            mine = mine[mine < len(forces)]
            moments = (
                forces[len(points) :][joined[len(problem.rest) :] == label]
                if len(forces) > len(points)
                else np.zeros((0, 3))
            )
            f, x = forces[mine], points[mine]
            size = np.abs(f).sum() + np.abs(moments).sum()
            resultant = np.abs(f.sum(axis=0)).max() + np.abs(np.cross(x, f).sum(axis=0) + moments.sum(axis=0)).max()
            if size > 0 and resultant > 1e-8 * size:
                raise InputError(
                    "fixed = None: the loads on a free body have a resultant, so it has no resting place; "
                    "fix it somewhere, or remove gravity and loads"
                )
