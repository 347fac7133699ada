"""The working mesh of the projective solver, and the remeshing of its chambers [Fang2022, III-B]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.geometry import mesh as meshing
from geosim.geometry import topology
from geosim.material.tensors import row
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot
from geosim.model.select import selected_ids
from geosim.shape.energy.discretisation.loads import load_shapes
from geosim.shape.energy.problem import ShapeProblem
from geosim.shape.projective.elements import Body, Cells, ElementEvaluation, Elements, GlobalMatrix, rest_shapes
from geosim.shape.projective.lines import Lines
from geosim.shape.projective.material import blend_table
from geosim.shape.projective.stiffness import MaterialMatrix

__all__ = ["BULK", "Targets", "Work", "continued", "make_work", "needs_remeshing", "remeshed", "strung"]

# Bulk stiffness of the targets "material" over that of the blends: only patches have it, so that it does not lock, and at
# V/V0 = 115 the body shall keep its volume within a percent.
BULK = 12.0


@dataclass(frozen=True)
class Targets:
    """What elements are projected to and how stiffly: options of `ProjectiveShapeSolver`.

    `share` of the body's stiffness is in the scalar matrix; `follows`: the matrix follows the material.
    """

    body: str
    chambers: str
    blend_at_rest: float
    chamber_weight: float
    share: float
    follows: bool


@dataclass
class Work:
    """Mesh, elements and matrix of a robot under a solver; replaced as a whole by remeshing.

    Parameters
    ----------
    rest
        Rest positions [m], (n, 3); vertices that remeshing added stand where they were born.
    held, elements, matrix
        Held vertices, the elements, the prefactored matrix.
    follows
        Whether the matrix follows the material, where nothing but the body, total chamber volumes and springs have stiffness.
    remeshings
        How often the chambers have been meshed anew.
    energy
        The energy formulation of the same robot, made when its residual is first asked for.
    """

    robot: VolumetricRobot
    environment: Environment
    rest: Floats
    held: Ints
    elements: Elements
    matrix: GlobalMatrix | MaterialMatrix
    follows: bool
    remeshings: int = 0
    energy: ShapeProblem | None = None

    def load_at(self, index: int) -> Floats:
        """Dead forces [N] (n, 3) at a command: gravity and loads."""
        return _padded(_loads(self.robot, self.environment, index), self.elements.count)

    def residual(self, evaluation: ElementEvaluation) -> float:
        """Largest force on a free vertex over the reference force."""
        return float(np.abs(evaluation.force[self.matrix.free]).max(initial=0.0) / evaluation.scale)

    def held_positions(self, index: int) -> Floats:
        """Positions of the held vertices at a command [m], (held, 3)."""
        out = self.rest.copy()
        for item in self.environment.prescribed:
            ids = selected_ids(item.vertices, self.robot.vertices, "prescribed")
            out[ids] += item.at(index, len(ids))
        return out[self.held]


def make_work(robot: VolumetricRobot, environment: Environment, targets: Targets) -> Work:
    """Return the working mesh of a robot at rest.

    Raises
    ------
    InputError
        A body is held nowhere, a displacement is prescribed in some directions only, or the environment holds what the
        projective solver does not know.
    """
    _refuse_unknown(environment)
    prescribed = [selected_ids(item.vertices, robot.vertices, "prescribed") for item in environment.prescribed]
    held = np.unique(np.concatenate([robot.fixed, *prescribed]))
    _refuse_free_bodies(robot, held)
    body = _body(robot, targets)
    elements = Elements(len(robot.vertices), body, _cells(robot, body, targets), _loads(robot, environment, 0))
    return Work(
        robot,
        environment,
        np.array(robot.vertices),
        held,
        elements,
        _matrix(elements, held, targets.follows),
        targets.follows,
    )


def continued(work: Work, before: Work) -> Work:
    """Return `work` (at rest) with the chambers of an earlier solve of the same robot, if they have been remeshed."""
    if before.remeshings == 0:
        return work
    return _with_cells(work, before.rest, before.elements.cells, before.remeshings)


def _with_cells(work: Work, rest: Floats, cells: Cells, remeshings: int) -> Work:
    """`work` with other chamber elements, between vertices of which some are new."""
    old = work.elements
    elements = Elements(len(rest), old.body, cells, _padded(old.load, len(rest)))
    elements.springs, elements.lines = old.springs, old.lines
    matrix = _matrix(elements, work.held, work.follows)
    return replace(work, rest=rest, elements=elements, matrix=matrix, remeshings=remeshings)


def strung(work: Work, lines: Lines | None) -> Work:
    """Return `work` with other strings; the matrix is factorised anew if their stiffness in it changes."""
    old = work.elements.lines
    work.elements.lines = lines
    if work.follows or (lines is None and old is None) or (lines is not None and lines.same_matrix(old)):
        return work
    return replace(work, matrix=_matrix(work.elements, work.held, work.follows))


def _matrix(elements: Elements, held: Ints, follows: bool) -> GlobalMatrix | MaterialMatrix:
    used = np.unique(np.concatenate([elements.body.tets.ravel(), elements.cells.tets.ravel()]))
    free = np.setdiff1d(used, held)
    if follows:
        return MaterialMatrix(elements, free)
    return GlobalMatrix(elements.laplacian(), free, elements.springs)


def _which_material(robot: VolumetricRobot) -> Ints:
    """Number of the material of every body tet."""
    return np.searchsorted(np.array(list(robot.materials)), robot.regions[robot.is_body])


def _body(robot: VolumetricRobot, targets: Targets) -> Body:
    """Body elements."""
    materials, which = list(robot.materials.values()), _which_material(robot)
    stiffness, tables = zip(*(blend_table(m, targets.blend_at_rest) for m in materials))
    k = np.array(stiffness)[which]
    moduli = np.array([m.bulk_modulus for m in materials])[which]
    return Body(
        np.array(robot.body_tets),
        *rest_shapes(robot.vertices, robot.body_tets),
        k,
        np.minimum((BULK if targets.body == "material" else 1.0) * k * (1 - targets.blend_at_rest) / 3, moduli),
        which,
        np.array(tables),
        np.array([row(m, 1.0, isochoric=False) for m in materials]),
        targets.body,
        targets.share,
    )


def _cells(robot: VolumetricRobot, body: Body, targets: Targets) -> Cells:
    """Chamber elements, as stiff as the body on average times the chamber weight."""
    tets = robot.tets[~robot.is_body]
    lighter = targets.share if targets.chambers == "total" else 1.0
    mean = float(np.average(body.stiffness, weights=body.volumes))
    return Cells(
        tets,
        *rest_shapes(robot.vertices, tets),
        np.full(len(tets), lighter * targets.chamber_weight * mean),
        np.searchsorted(np.array(robot.chamber_regions, dtype=np.int64), robot.regions[~robot.is_body]),
        tuple(np.vstack([w, c]) for w, c in zip(robot.chamber_walls, robot.chamber_caps)),
        robot.chamber_volumes.copy(),
        robot.chamber_volumes.copy(),
        targets.chambers,
    )


def _loads(robot: VolumetricRobot, environment: Environment, index: int) -> Floats:
    """Gravity (a quarter of every body tet to its corners) and dead loads [N], (n, 3)."""
    n = len(robot.vertices)
    density = np.array([m.density for m in robot.materials.values()])
    mass = density[_which_material(robot)] * topology.tet_volumes(robot.vertices, robot.body_tets)
    out: Floats = (
        np.bincount(robot.body_tets.ravel(), np.repeat(mass / 4, 4), minlength=n)[:, None] * environment.gravity
    )
    for weights, load in load_shapes(robot, environment, 1):
        out += weights[:n, None] * load.at(index)
    return out


def _padded(forces: Floats, count: int) -> Floats:
    """Forces (n, 3) on vertices of which remeshing has added some, (count, 3)."""
    return np.vstack([forces, np.zeros((count - len(forces), 3))])


def _refuse_unknown(environment: Environment) -> None:
    """Refuse what is in the environment and this formulation does not know."""
    environment.refuse_free_objects("ProjectiveShapeSolver")
    environment.refuse_pressures("ProjectiveShapeSolver")
    remedy = "use EnergyShapeSolver"
    partly = any(np.isnan(item.displacement).any() for item in environment.prescribed)
    for given, message in (
        (environment.rigid_groups, "rigid_groups: ProjectiveShapeSolver knows none"),
        (
            environment.exclude_pairs,
            "exclude_pairs: ProjectiveShapeSolver takes none; set self_contact=False to leave out self-contact",
        ),
        (environment.fluid is not None, "fluid: ProjectiveShapeSolver knows none"),
        (environment.self_friction > 0, "self_friction: ProjectiveShapeSolver has none; set it to 0"),
        (partly, "prescribed: ProjectiveShapeSolver holds whole vertices; give all three components"),
        *(
            (
                item.friction > 0,
                f"obstacle {i + 1}: friction = {item.friction:g}, but ProjectiveShapeSolver is frictionless; set friction=0",
            )
            for i, item in enumerate(environment.obstacles)
        ),
    ):
        if given:
            raise InputError(f"{message}, or {remedy}")


def _refuse_free_bodies(robot: VolumetricRobot, held: Ints) -> None:
    labels = topology.components(robot.tets, len(robot.vertices))
    free = set(np.unique(labels[labels >= 0]).tolist()) - set(labels[held].tolist())
    if free:
        where = int(np.flatnonzero(labels == min(free))[0])
        raise InputError(
            f"fixed: the body with vertex {where} is held nowhere; ProjectiveShapeSolver needs a held "
            f"vertex in every body (EnergyShapeSolver solves free ones)"
        )


def needs_remeshing(work: Work, x: Floats, max_growth: float, max_distortion: float) -> bool:
    """Whether a chamber element has grown or is distorted beyond the limits since its last meshing."""
    cells = work.elements.cells
    if len(cells.tets) == 0:
        return False
    F = np.einsum("eix,eik->exk", x[cells.tets], cells.gradients)
    J = np.linalg.det(F)
    if float(J.max()) > max_growth or float(J.min()) <= 0.0:
        return True
    distortion = np.maximum(np.linalg.norm(F, axis=(1, 2)), np.linalg.norm(np.linalg.inv(F), axis=(1, 2)))
    return bool((distortion > max_distortion).any())


def remeshed(work: Work, x: Floats) -> tuple[Work, Floats]:
    """Mesh the inside of all chambers anew in their present shape; walls, body and numbering stay.

    New vertices are appended. A chamber whose wall tetgen cannot mesh (it crosses itself) keeps its old elements.
    """
    old = work.elements.cells
    meshed = old.mesh_volumes.copy()
    volumes = work.elements.volumes(x)
    added, tets, chamber, stay = [], [], [], np.zeros(len(old.tets), dtype=bool)
    count = len(x)
    for i, wall in enumerate(old.walls):
        found = meshing.fill(x, wall, count)
        if found is None:
            stay |= old.chamber == i
            continue
        added.append(found[0])
        tets.append(found[1])
        chamber.append(np.full(len(found[1]), i))
        meshed[i] = volumes[i]
        count += len(found[0])
    x = np.vstack([x, *added])
    new = np.vstack([np.empty((0, 4), np.int64), *tets])
    gradients, cell_volumes = rest_shapes(x, new)
    cells = replace(
        old,
        tets=np.vstack([old.tets[stay], new]),
        gradients=np.concatenate([old.gradients[stay], gradients]),
        volumes=np.concatenate([old.volumes[stay], cell_volumes]),
        weights=np.full(int(stay.sum()) + len(new), old.weights.mean()),
        chamber=np.concatenate([old.chamber[stay], *chamber]),
        mesh_volumes=meshed,
    )
    return _with_cells(work, np.vstack([work.rest, *added]), cells, work.remeshings + 1), x
