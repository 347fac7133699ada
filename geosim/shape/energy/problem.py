"""The discrete problem of the energy solver: all that is computed once, in dimensionless units (see `body`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy

from geosim.arrays import MIN_DIVISOR, Bools, Floats, cofactors, det, einsum, frozen
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.linear.bordered import BorderedSolver, make_solver
from geosim.linear.patterns import Sparsity
from geosim.material import tensors
from geosim.material.materials import Hyperelastic
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.constraints.cables import Cables
from geosim.shape.energy.constraints.chambers import Chambers
from geosim.shape.energy.constraints.free_bodies import FreeBodies, FreeBodyBorder, FreeBodyMotion, make_free_bodies
from geosim.shape.energy.constraints.rigid_equations import ReducedSolver, Reduction
from geosim.shape.energy.constraints.rigid_groups import RigidGroups, make_groups, make_rigids
from geosim.shape.energy.constraints.scalars import ScalarConstraints, StickSlip, constraint_kinds
from geosim.shape.energy.constraints.supports import Supports, held_unknowns, supports
from geosim.shape.energy.contact.contact_state import Blocks, ContactForces, ContactState
from geosim.shape.energy.contact.potential import ContactPotential
from geosim.shape.energy.contact.setup import make_contact
from geosim.shape.energy.discretisation import assembly
from geosim.shape.energy.discretisation.body import ScaledBody, scaled_body
from geosim.shape.energy.discretisation.fabric import Fabric, make_fabric
from geosim.shape.energy.discretisation.levels import levels_of
from geosim.shape.energy.discretisation.loads import LoadShape, load_shapes, refuse_held
from geosim.shape.energy.discretisation.mirror import find_mirrors
from geosim.shape.energy.discretisation.node_potential import NodePotential
from geosim.shape.energy.discretisation.pattern import BodyPattern, build_pattern
from geosim.shape.energy.discretisation.smoothing import SMOOTHING_SHARES, Smoothing, smoothing
from geosim.shape.energy.discretisation.threads import assemble_in_threads
from geosim.shape.energy.states.configuration import Configuration, Evaluation, LoadState
from geosim.shape.energy.states.last_evaluation import LastEvaluation


@dataclass(frozen=True)
class ShapeProblem(ScaledBody):
    """What is solved: a body, what it is made of, and what holds, loads, closes and touches it.

    Parameters
    ----------
    environment, supports, load_shapes, mass
        What surrounds the body, what holds it, how loads spread, and the mass of every node [kg].
    pattern, linear
        Sparsity of the tangent, and what solves with it.
    table, isochoric_table
        Rows of `tensors.table`: as solved, and of the isochoric form.
    constraints
        Volumes of chambers, lengths of cables and other scalars with conjugate forces.
    fabric, smoothing
        Layers and fibres in the body, and the strain of linear elements; or None.
    objects
        Obstacles that move by themselves.
    asymmetry
        Why no plane of symmetry halves the equations; "" where one does, or none was asked for.
    latest
        The last evaluation.
    held, enclosed
        Which unknowns are held (see `held_unknowns`), and whether a body's whole surface is.
    contact, rigid, reduction
        Contact, rigid groups and the equations without their nodes; None where there are none.
    """

    environment: Environment
    supports: Supports
    load_shapes: tuple[LoadShape, ...]
    mass: Floats
    pattern: BodyPattern
    linear: BorderedSolver
    table: Floats
    isochoric_table: Floats
    constraints: ScalarConstraints
    held: Bools
    enclosed: bool
    contact: ContactPotential | None
    rigid: RigidGroups | None
    reduction: Reduction | None
    fabric: Fabric | None
    smoothing: Smoothing | None
    objects: FreeBodies
    asymmetry: str = ""
    latest: LastEvaluation = field(default_factory=LastEvaluation, repr=False, compare=False)

    @property
    def closed(self) -> Chambers:
        """What closes the chambers; their scalars are the first."""
        found = self.constraints.find(Chambers)
        assert isinstance(found, Chambers)
        return found

    @property
    def cables(self) -> Cables | None:
        """What pulls on the body; None where nothing does."""
        found: Cables | None = self.constraints.find(Cables)
        return found

    @property
    def chambers(self) -> int:
        """Number of chambers."""
        return len(self.closed.walls)

    @property
    def rest_chamber_volumes(self) -> Floats:
        """Scaled volumes of the chambers at rest, (c,)."""
        return self.closed.rest_volumes

    @property
    def scalars(self) -> int:
        """Number of scalars of constraints."""
        return len(self.constraints.rest_values)

    @property
    def groups(self) -> int:
        """Number of rigid groups."""
        return len(self.rigid.nodes) if self.rigid is not None else 0

    @cached_property
    def node_volumes(self) -> Floats:
        """Volume of the body around every node, (nodes,); 0 on rigid groups, which forces on nodes do not move."""
        tets = self.mesh.tets
        shares = np.repeat(self.mesh.volumes / tets.shape[1], tets.shape[1])
        out = np.bincount(tets.ravel(), shares, minlength=len(self.rest))
        for nodes in self.rigid.nodes if self.rigid is not None else ():
            out[nodes] = 0.0
        return frozen(out)

    # ---- loads and goals

    def external_forces(self, index: int) -> Floats:
        """Scaled dead loads of command `index`: on the nodes, then forces and moments on rigid groups, (nodes + 2 g, 3)."""
        return self._forces(lambda values: values[min(index, len(values) - 1)])

    def steady_forces(self) -> Floats:
        """The same of gravity and of the loads that are given once for all commands."""
        return self._forces(lambda values: values[0] if len(values) == 1 else np.zeros(3))

    def _forces(self, chosen: Callable[[Floats], Floats]) -> Floats:
        """Scaled dead loads (nodes + 2 g, 3) by what is chosen of the values (k, 3) of every load."""
        out = self.mass[:, None] * self.environment.gravity[None]
        for weights, load in self.load_shapes:
            out = out + weights[self.nodes][:, None] * chosen(load.value)[None]
        zero = np.zeros((1, 3))
        given = [
            [zero if v is None else np.nan_to_num(v) for v in (g.force, g.moment)]
            for g in self.environment.rigid_groups
        ]
        wrenches = [*(chosen(force) for force, _ in given), *(chosen(moment) / self.length for _, moment in given)]
        return np.vstack([out, *wrenches]) / self.force_unit

    def carried_forces(self) -> Floats:
        """Scaled forces on the nodes at rest of constraints that act in every command, (nodes, 3)."""
        p, zero, forces = (
            np.zeros(len(self.pressure_vertices)),
            np.zeros_like(self.rest),
            self.constraints.steady_forces,
        )
        if not forces.any():
            return zero
        gradients = self.evaluate(self.rest, p, np.zeros(self.scalars), zero, matrix=False).gradients
        return np.asarray(np.einsum("c,cni->ni", forces, gradients))

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
        out = self.rest.copy()
        for moved in self.supports.prescribed:
            vertices = moved.nodes[moved.nodes < len(self.robot.vertices)]
            given = np.zeros_like(self.robot.vertices)
            at = self.environment.prescribed[moved.entry].at(index, len(vertices))
            given[vertices] = np.nan_to_num(at[moved.rows])
            by_node = topology.with_mid_edges(given, self.robot.p2_edges)[moved.nodes] / self.length
            solved = self.place[moved.nodes] >= 0  # straight elements have no mid-edge nodes
            out[self.place[moved.nodes[solved]]] += np.where(moved.components, by_node, 0.0)[solved]
        groups = self.environment.rigid_groups
        turns = (g.at("rotation", index) for g in groups)
        return np.vstack([out, *(g.at("displacement", index) / self.length for g in groups), *turns])

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

        `motion` (g, 6) is what prescribed groups still have to move (see `RigidGroups.motion`); what it moves is in the shift.
        """
        if self.rigid is None or evaluation.rigid is None or self.reduction is None:
            self.linear.use(evaluation.sparsity)
            return self.linear
        motion = np.zeros((self.groups, 6)) if motion is None else motion
        return ReducedSolver(self.reduction, self.linear, evaluation.sparsity, evaluation.rigid, motion)

    def motion(self, x: Floats, goal: Floats) -> Floats | None:
        """What prescribed groups still have to move, (g, 6); None without groups."""
        return None if self.rigid is None else self.rigid.motion(x, goal[len(x) :])

    # ---- residuals and tangent

    def evaluate(
        self,
        x: Floats,
        p: Floats,
        scalar_forces: Floats,
        external: Floats,
        *,
        matrix: bool,
        contact_state: ContactState | None = None,
        table: Floats | None = None,
        hold: StickSlip | None = None,
        free_bodies: FreeBodyMotion | None = None,
        inertia: NodePotential | None = None,
    ) -> Evaluation:
        """Return residuals, and with `matrix` the tangent, at scaled positions, pressures, forces of the scalars and loads.

        Of `external` the rows beyond the nodes, if there are any, are forces and moments on the rigid groups; contact goes by
        `contact_state`.
        `hold` says what sticks in constraints with friction, `free_bodies` which objects move; `inertia` adds its potential.
        """
        if table is None:
            table = self.table if inertia is None or inertia.table is None else inertia.table
        asked = (x, p, scalar_forces, external, contact_state, table, hold, free_bodies, inertia)
        if (known := self.latest.of(self, asked, matrix=matrix)) is not None:
            return known
        return self.latest.keep(self, asked, self._evaluated(*asked, matrix=matrix))

    def _evaluated(
        self,
        x: Floats,
        p: Floats,
        scalar_forces: Floats,
        external: Floats,
        contact_state: ContactState | None,
        table: Floats,
        hold: StickSlip | None,
        free_bodies: FreeBodyMotion | None,
        inertia: NodePotential | None,
        *,
        matrix: bool,
    ) -> Evaluation:
        el, pattern, count = self.element, self.pattern, len(x)
        data = np.zeros(len(pattern.indices) if matrix else 0)
        force, scale, constraint = np.zeros_like(x), np.zeros(count), np.zeros(len(self.pressure_vertices))
        rules, out = (el.energy, el.constraint, el.linear), (data, force, scale, constraint)
        energy, smallest, body_volume = assemble_in_threads(
            self.linear.threads, x, p, self.mesh, table, rules, pattern.places, matrix, out
        )
        if self.smoothing is not None:
            work, least = self.smoothing.add(x, table, matrix, pattern, data, force, scale)
            energy, smallest = energy + work, min(smallest, least)
        modes = np.zeros(self.scalars, dtype=np.int64) if hold is None else hold.modes
        scalars, gradients, columns = self.constraints.add(x, scalar_forces, modes, matrix, pattern, data, force, scale)
        if self.fabric is not None:
            energy += self.fabric.add(x, matrix, pattern, data, force, scale)
        if inertia is not None:
            energy += inertia.add(x, matrix, data, force, scale)
        force -= external[:count]
        scale += np.linalg.norm(external[:count], axis=1)
        touching = contact_state if np.isfinite(energy) else None
        contact, sparsity, data = self._touched(x, touching, matrix, data, force, scale)
        if contact is not None and not np.isfinite(contact.energy):
            energy = np.inf
        rigid = None
        if self.rigid is not None:
            wrenches = external[count:] if len(external) > count else np.zeros((2 * self.groups, 3))
            rigid = self.rigid.close(x, scalar_forces, wrenches, force, scale, scalars, gradients, columns)
        return Evaluation(
            force,
            constraint,
            scalars,
            gradients,
            float(scale.max(initial=0.0)),
            energy,
            smallest,
            body_volume,
            data if matrix else None,
            sparsity,
            contact,
            rigid,
            columns,
            free_bodies=self._unbalanced(free_bodies, x, contact),
            loose_hold=np.zeros(len(self.objects.ids)),
        )

    def _touched(
        self, x: Floats, contact_state: ContactState | None, matrix: bool, data: Floats, force: Floats, scale: Floats
    ) -> tuple[ContactForces | None, Sparsity, Floats]:
        """Add the forces of contact and their norms; return them, or None, and with `matrix` the tangent with its pattern."""
        if self.contact is None or contact_state is None:
            return None, self.pattern, data
        contact = self.contact.evaluate(x, contact_state, matrix=matrix)
        force += contact.force
        scale += np.linalg.norm(contact.force, axis=1)
        return contact, *(self.contact.stiffened(x, contact, self.pattern, data) if matrix else (self.pattern, data))

    def _unbalanced(self, free_bodies: FreeBodyMotion | None, x: Floats, contact: ContactForces | None) -> Floats:
        """Forces and moments that free objects are short of, (objects, 6)."""
        if free_bodies is None or contact is None or self.contact is None:
            return np.zeros((len(self.objects.ids), 6))
        return free_bodies.balance(self.contact, x, contact)

    def corrected(self, point: Configuration, evaluation: Evaluation, *, one: bool) -> Configuration:
        """Return a point at which nothing in constraints sticks beyond its friction or slides against it."""
        if point.hold is None:
            return point
        forces, hold = self.constraints.corrected(point.x, point.scalar_forces, evaluation.scalars, point.hold, one=one)
        return replace(point, scalar_forces=forces, hold=hold)

    def relinearised(self, x: Floats, target: LoadState, evaluation: Evaluation, at: Floats) -> Evaluation:
        """Return an evaluation with the laws of contact linearised at other penetrations (see `laws.linearised_at`)."""
        old, contact_state = evaluation.contact, target.contact_state
        assert self.contact is not None
        assert old is not None
        assert contact_state is not None
        assert evaluation.data is not None
        forces = self.contact.evaluate(x, contact_state, matrix=True, at=at)
        changes = [(ids, new - was) for (ids, new), (_, was) in zip(forces.stiff, old.stiff[: 2 * len(at)])]
        return replace(
            evaluation,
            force=evaluation.force + forces.force - old.force,
            data=self.contact.added(changes, evaluation.sparsity, evaluation.data),
            contact=forces,
            free_bodies=evaluation.free_bodies
            + self._unbalanced(target.free_bodies, x, forces)
            - self._unbalanced(target.free_bodies, x, old),
        )

    def sharpened(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation whose tangent is exact without friction: from afar, where all presses too hard, it misleads."""
        forces = evaluation.contact
        return evaluation if forces is None else self._with_blocks(evaluation, forces.bends, "bends")

    def negative_contact(self, evaluation: Evaluation) -> Floats | None:
        """Return what the negative parts N of all pairs add to the tangent: values like its own; None where none touch."""
        if evaluation.contact is None or self.contact is None or not len(evaluation.contact.pairs):
            return None
        parts = self.contact.negative_parts(evaluation.contact)
        return self.contact.added(parts, evaluation.sparsity, np.zeros_like(evaluation.data))

    def softened(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with a tangent exact for points that slide by lagged pressures: it stays symmetric."""
        forces = evaluation.contact
        return evaluation if forces is None else self._with_blocks(evaluation, forces.slides, "slides")

    def _with_blocks(self, evaluation: Evaluation, parts: tuple[Blocks, ...], level: str) -> Evaluation:
        assert self.contact is not None
        assert evaluation.data is not None
        data = self.contact.added(parts, evaluation.sparsity, evaluation.data)
        return replace(evaluation, data=data, levels=(*evaluation.levels, level))

    def coupling(self, x: Floats, target: LoadState, evaluation: Evaluation, *, own: bool) -> FreeBodyBorder | None:
        """Return what couples free objects with the nodes (see `free_bodies`); None where nothing moves by itself."""
        free_bodies, forces = target.free_bodies, evaluation.contact
        if self.contact is None or forces is None or free_bodies is None or not free_bodies.moving.any():
            return None
        levels = (*evaluation.levels, "slides") if own else evaluation.levels
        return free_bodies.coupling(
            self.contact, x, forces, evaluation.free_bodies, evaluation.loose_hold, levels, own=own
        )

    def isochoric_pressures(self, x: Floats, p: Floats, *, back: bool = False) -> Floats:
        """Pressures that balance the isochoric form of the energy where `p` balances the form in use, (v,); or `back`.

        The isochoric form has no mean stress of its own.
        """
        if np.array_equal(self.table, self.isochoric_table):
            return p
        means = self._mean_stresses(x)
        return p - means if back else p + means

    def _mean_stresses(self, x: Floats) -> Floats:
        """Mean Cauchy stresses of the strain energy alone, tr(P F^T) / 3 J, averaged around every pressure vertex, (v,)."""
        mesh, rule, domains = self.mesh, self.element.constraint, self.smoothing
        if domains is None:
            known = mesh.deformations(x, self.element.energy.slopes)
            F = einsum("qc,ecij->eqij", rule.shares, known).reshape(-1, 3, 3)
            which, parts = np.repeat(mesh.material, len(rule.weights)), rule.weights[:, None] * rule.points
        else:
            F, which, parts = domains.deformations(x), domains.material, np.full((1, 4), 0.25)
        means = einsum("kij,kij->k", tensors.stresses(self.table, which, F), F) / (3.0 * det(F))
        of_tets = (
            means.reshape(len(mesh.tets), -1)
            if domains is None
            else (means[domains.of_tets] @ SMOOTHING_SHARES)[:, None]
        )
        shares = mesh.volumes[:, None] * (of_tets @ parts), mesh.volumes[:, None] * parts.sum(axis=0)
        above, below = (np.bincount(mesh.pressure_tets.ravel(), of_vertices.ravel()) for of_vertices in shares)
        return np.asarray(above / below)

    def jacobian_bounds(self, x: Floats) -> Floats:
        """Lower bounds of J in every body tet, its least Bernstein coefficient (of P2 J is cubic), (m,).

        J = det(sum_k l_k F_k) with F_k at corner k, so its coefficients are the mixed discriminants D(F_k, F_l, F_m).
        """
        F = self.mesh.deformations(x, self.element.slopes(np.eye(4)[: 1 if self.element.linear else 4]))
        twice = einsum("ekij,emij->ekm", cofactors(F), F) / 3.0  # D(F_k, F_k, F_m)
        bounds = twice.min(axis=(1, 2))
        for a, b, c in combinations(range(F.shape[1]), 3):
            both = einsum("eij,eij->e", cofactors(F[:, a] + F[:, b]), F[:, c]) / 3.0
            bounds = np.minimum(bounds, 0.5 * (both - twice[:, a, c] - twice[:, b, c]))
        return np.asarray(bounds)

    def inverted(self, x: Floats) -> int:
        """Number of body tets with J <= 0 at a corner, a mid-edge or a quadrature point."""
        corners = np.eye(4)
        middles = corners[topology.TET_EDGES].mean(axis=1)
        return self._inside_out(x, np.vstack([corners, middles, self.element.constraint.points]))

    def inverted_points(self, x: Floats) -> int:
        """Number of elements with J <= 0 where their energy is taken: at quadrature points, of P1 in domains of its strain."""
        if self.smoothing is not None:
            return int((det(self.smoothing.deformations(x)) <= 0.0).sum())
        return self._inside_out(x, np.vstack([self.element.energy.points, self.element.constraint.points]))

    def _inside_out(self, x: Floats, points: Floats) -> int:
        """Number of body tets with J <= 0 at one of some barycentric points (q, 4)."""
        doubtful = self.jacobian_bounds(x) <= 0.0
        mesh = self.mesh._replace(tets=self.mesh.tets[doubtful], barycentric=self.mesh.barycentric[doubtful])
        return int((det(mesh.deformations(x, self.element.slopes(points))) <= 0.0).any(axis=1).sum())

    def check_enclosed(self, positions: Floats) -> None:
        """Refuse held positions that change the volume of an incompressible body whose whole surface is held.

        Raises
        ------
        InputError
            By how much the volume would change.
        """
        # relative, of an enclosed incompressible body: ten times what the equations are solved to
        enclosed_volume_tolerance_rel = 1e-7
        if self.enclosed:
            rule = self.element.constraint
            known = self.mesh.deformations(positions, self.element.energy.slopes)
            J = det(np.einsum("qc,ecij->eqij", rule.shares, known)) @ rule.weights
            change = float(self.mesh.volumes @ J) / self.body_volume - 1.0
            if abs(change) > enclosed_volume_tolerance_rel:
                raise InputError(
                    f"prescribed: the prescribed surface of an incompressible body would change its "
                    f"volume by {100 * change:.3g} %; leave a part free, or give the material a bulk_modulus"
                )


def make_problem(
    robot: VolumetricRobot,
    environment: Environment,
    order: int,
    factoriser: str,
    *,
    threads: int | None = None,
    isochoric: bool = False,
    contact_thickness: float | None = None,
    symmetric: bool = False,
    like: ShapeProblem | None = None,
    apart: bool = False,
    moving: bool = False,
) -> ShapeProblem:
    """Return the discrete problem.

    `factoriser` and `threads` are as in `make_factoriser`; `contact_thickness` is the thickness of contact over the local
    edge length (default: see `setup`); `symmetric` whether planes of symmetry are looked for. A problem of the same mesh,
    `like`, lends its units and its numbering; in one whose parts are `apart` nothing new is looked for that could meet. A body
    whose inertia is `moving` need not be held.

    Raises
    ------
    InputError
        The robot cannot be solved: a chamber is open, a body is not held, loads on a free body do not balance.
    """
    body = scaled_body(robot, order, like)
    materials = list(robot.materials.values())
    groups = make_groups(robot, environment)
    found = (kind.of(body, environment, groups) for kind in constraint_kinds())
    members = tuple(one for one in found if one is not None)
    pattern, constraints, fabric, smoothed = _placed(body, ScalarConstraints(members), like)
    held_by = supports(robot, environment, groups, moving=moving)
    shapes = tuple(load_shapes(robot, environment, order))
    refuse_held(shapes, held_by.held)
    held, enclosed = held_unknowns(body, held_by, groups, incompressible=not body.compressible)
    rigid = make_rigids(groups, constraints.find(Chambers).rigid, body)
    contact = make_contact(
        body,
        environment,
        stiffness=max_shear_moduli(body.mesh, materials, body.stress),
        held=np.asarray(held[: body.rest.size].reshape(-1, 3).all(axis=1)),
        thickness_share=contact_thickness,
        around=like.contact.neighbourhood if apart and like is not None and like.contact is not None else None,
    )
    table = tensors.table(materials, body.stress, isochoric=isochoric)
    problem = ShapeProblem(
        **vars(body),
        environment=environment,
        supports=held_by,
        load_shapes=shapes,
        mass=frozen(_masses(body, [m.density for m in materials])),
        pattern=pattern,
        linear=make_solver(pattern, factoriser, threads, levels_of(body, table, held)),
        table=table,
        isochoric_table=tensors.table(materials, body.stress, isochoric=True),
        constraints=constraints,
        held=held,
        enclosed=enclosed,
        contact=contact,
        rigid=rigid,
        reduction=Reduction(rigid, len(body.nodes), pattern.size) if rigid is not None else None,
        fabric=fabric,
        smoothing=smoothed,
        objects=make_free_bodies(environment, body.length, body.center, body.force_unit),
    )
    _check_free_bodies(problem)
    return mirrored_problem(problem) if symmetric else problem


def mirrored_problem(problem: ShapeProblem) -> ShapeProblem:
    """Return a problem whose equations are solved in halves, where its mesh and its loads have a plane of symmetry."""
    mirrors, why = find_mirrors(problem, problem.held)
    size, count = problem.rest.size, len(problem.rest)
    given = [load.value for _, load in problem.load_shapes] + [p.displacement for p in problem.environment.prescribed]
    # share of the largest load by which loads may differ from their images: rounding of weights
    load_symmetry_rel = 1e-7
    for mirror in tuple(mirrors):
        for i in range(max([1, *map(len, given)])):
            loads = problem.external_forces(i)[:count] + problem.carried_forces()
            moves = loads, problem.held_positions(i)[:count] - problem.rest
            odd = [np.abs(v.ravel() - mirror.sign[:size] * v.ravel()[mirror.partner[:size]]).max() for v in moves]
            if any(o > load_symmetry_rel * np.abs(v).max() for o, v in zip(odd, moves)):
                mirrors.remove(mirror)
                why = f"the loads of command {i + 1} have no image in {mirror.name}"
                break
    if not mirrors:
        return replace(problem, asymmetry=why)
    solver = problem.linear
    return replace(problem, linear=make_solver(solver.pattern, solver.name, solver.threads, mirrors=mirrors))


def _placed(
    body: ScaledBody, constraints: ScalarConstraints, like: ShapeProblem | None
) -> tuple[BodyPattern, ScalarConstraints, Fabric | None, Smoothing | None]:
    """Return which unknowns a robot couples; and its constraints, fabric and smoothing with their places in that pattern."""
    robot, linear = body.robot, body.element.linear
    fabric = make_fabric(body, robot.layers, robot.fibres)
    smoothed = smoothing(body.mesh, None if like is None else like.smoothing) if linear else None
    # cables and threads may run through other elements where the mesh has moved
    if like is not None and fabric is None and not robot.cables and body.compressible == like.compressible:
        return like.pattern, constraints.placed(like.pattern), None, smoothed
    parts = [*constraints.members, *(one for one in (fabric, smoothed) if one is not None)]
    couplings = [pairs for one in parts for pairs in one.couplings()]
    mesh = body.mesh
    pattern = build_pattern(
        mesh.tets, mesh.pressure_tets, couple_pressures=linear or body.compressible, couplings=couplings
    )
    fabric = None if fabric is None else fabric.placed(pattern)
    return pattern, constraints.placed(pattern), fabric, None if smoothed is None else smoothed.placed(pattern)


def imperfect_robot(robot: VolumetricRobot, amplitude: float) -> VolumetricRobot:
    """Return the robot with its rest shape bent by smooth waves, of an amplitude over its size; fixed vertices stay.

    The waves are as long as the body, so that every coarse mode of buckling has a part in them.
    """
    if amplitude == 0.0:
        return robot
    x = robot.vertices
    used = x[robot.body_vertices]
    lower, span = used.min(axis=0), np.maximum(np.ptp(used, axis=0), MIN_DIVISOR)
    s = (x - lower) / span
    wave = np.stack([np.sin(np.pi * (s @ np.roll([1.0, 0.7, 0.4], k)) + 0.3 + k) for k in range(3)], axis=1)
    fade = np.ones(len(x))
    if len(robot.fixed):
        distance = scipy.spatial.cKDTree(x[robot.fixed]).query(x)[0]
        fade = np.clip(distance / max(float(distance.max()), MIN_DIVISOR), 0.0, 1.0) ** 2
    return replace(robot, vertices=x + amplitude * robot.size * fade[:, None] * wave)


def max_shear_moduli(mesh: assembly.Mesh, materials: Sequence[Hyperelastic], stress: float) -> Floats:
    """Largest shear modulus, over a unit [Pa], of the elements around every node, (nodes,)."""
    moduli = np.array([m.shear_modulus for m in materials])[mesh.material] / stress
    out = np.zeros(int(mesh.tets.max()) + 1)
    np.maximum.at(out, mesh.tets.ravel(), np.repeat(moduli, mesh.tets.shape[1]))
    return out


def _masses(body: ScaledBody, densities: list[float]) -> Floats:
    """Mass of every node [kg], (nodes,), from the densities [kg/m^3] of the materials."""
    of_tets = body.mesh.volumes * body.length**3 * np.array(densities)[body.mesh.material]
    return np.asarray(np.bincount(body.mesh.tets.ravel(), (of_tets[:, None] * body.element.share[None]).ravel()))


def _check_free_bodies(problem: ShapeProblem) -> None:
    """Refuse loads with a resultant on a body that nothing holds."""
    robot, count = problem.robot, len(problem.rest)
    if not problem.supports.free_bodies:
        return
    if problem.environment.obstacles:
        free = _free_body(problem, problem.supports.free_bodies[0])
        raise InputError(f"{free} cannot be pressed against an obstacle; hold it somewhere")
    labels = problem.supports.labels
    labels = np.concatenate([labels, labels[robot.p2_edges[:, 0]]])[problem.nodes]
    points, groups = problem.rest, np.zeros(0, dtype=labels.dtype)
    if problem.rigid is not None:
        points = np.vstack([points, problem.rigid.points])
        groups = np.array([labels[ids[0]] for ids in problem.rigid.nodes])
    # of the loads on a free body over the sum of their sizes: round-off of many thousand nodal forces
    free_resultant_rel = 1e-8
    for forces in _loads_at_rest(problem, len(groups)):
        pushes, moments = np.split(forces, [count + len(groups)])
        for label in problem.supports.free_bodies:
            mine = np.concatenate([labels, groups]) == label
            f, x, m = pushes[mine], points[mine], moments[groups == label]
            size = np.abs(f).sum() + np.abs(m).sum()
            resultant = np.abs(f.sum(axis=0)).max() + np.abs(np.cross(x, f).sum(axis=0) + m.sum(axis=0)).max()
            if size > 0 and resultant > free_resultant_rel * size:
                raise InputError(
                    f"{_free_body(problem, label)} has no resting place, because its loads have a resultant; "
                    "fix it somewhere, or remove gravity and loads"
                )


def _loads_at_rest(problem: ShapeProblem, groups: int) -> list[Floats]:
    """Return every set of forces on nodes and groups, and of moments on groups, that can act at rest, each (n + 2 g, 3)."""
    p, zero = np.zeros(len(problem.pressure_vertices)), np.zeros_like(problem.rest)
    gradients = problem.evaluate(problem.rest, p, np.zeros(problem.scalars), zero, matrix=False).gradients
    driven = gradients[problem.constraints.steady_forces == 0.0]
    lifted = problem.loads_of(problem.carried_forces())
    loads = [load.value for _, load in problem.load_shapes]
    loads += [value for g in problem.environment.rigid_groups for value in (g.force, g.moment)]
    sets = [problem.external_forces(i) + lifted for i in range(max([1, *map(len, loads)]))]
    return sets + [np.vstack([g, np.zeros((2 * groups, 3))]) for g in driven]


def _free_body(problem: ShapeProblem, label: int) -> str:
    """Say which body nothing holds."""
    labels = problem.supports.labels
    count = len(np.unique(labels[problem.robot.body_vertices]))
    if count == 1:
        return "fixed = None: a free body"
    x, y, z = 1e3 * problem.robot.vertices[labels == label].mean(axis=0)
    free_bodies = len(problem.supports.free_bodies)
    return f"fixed: {free_bodies} of {count} separate bodies are held by nothing; the one around ({x:.3g}, {y:.3g}, {z:.3g}) mm"
