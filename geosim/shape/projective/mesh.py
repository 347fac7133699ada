"""The working mesh of the projective solver, and the remeshing of its chambers [Fang2022, III-B]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.environment import Environment
from geosim.errors import GeosimError, InputError
from geosim.geometry import mesh as meshing
from geosim.geometry import topology
from geosim.robot import VolumetricRobot
from geosim.select import selected_ids
from geosim.shape.energy.loads import load_shapes
from geosim.shape.projective.elements import Body, Cells, Elements, GlobalMatrix, rest_shapes
from geosim.shape.projective.kernels import chamber_gradients
from geosim.shape.projective.lines import Lines
from geosim.shape.projective.material import blend_table, material_row

if TYPE_CHECKING:
    from geosim.shape.projective.solver import ProjectiveShapeSolver

__all__ = ["Work", "continued", "make_work", "needs_remeshing", "remeshed", "strung"]


@dataclass
class Work:
    """Mesh, elements and matrix of a robot under a solver; replaced as a whole by remeshing.

    Parameters
    ----------
    rest
        Rest positions [m], (n, 3); vertices that remeshing added stand where they were born.
    held, elements, matrix
        Held vertices, the elements, the prefactored matrix.
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
    matrix: GlobalMatrix
    remeshings: int = 0
    energy: Any = None

    def load_at(self, index: int) -> Floats:
        """Dead forces [N] (n, 3) at a command: gravity and loads."""
        return _loads(self.robot, self.environment, index, self.elements.count)

    def held_positions(self, index: int) -> Floats:
        """Positions of the held vertices at a command [m], (held, 3)."""
        out = self.rest.copy()
        for item in self.environment.prescribed:
            ids = selected_ids(item.vertices, self.robot.vertices, "prescribed")
            out[ids] += item.at(index, len(ids))
        return out[self.held]


def make_work(robot: VolumetricRobot, environment: Environment, solver: ProjectiveShapeSolver) -> Work:
    """Return the working mesh of a robot at rest.

    Raises
    ------
    InputError
        A body is held nowhere, or a displacement is prescribed in some directions only.
    """
    held = [robot.fixed]
    if environment.rigid_groups:
        raise InputError("rigid_groups: ProjectiveShapeSolver knows none; use EnergyShapeSolver")
    for item in environment.prescribed:
        ids = selected_ids(item.vertices, robot.vertices, "prescribed")
        if np.isnan(item.displacement).any():
            raise InputError(
                "prescribed: ProjectiveShapeSolver holds whole vertices; give all three components, or "
                "use EnergyShapeSolver"
            )
        held.append(ids)
    ids = np.unique(np.concatenate(held))
    _refuse_free_bodies(robot, ids)
    body, k = _body(robot, solver)
    volumes = topology.tet_volumes(robot.vertices, robot.tets)
    tets = robot.tets[~robot.is_body]
    regions = robot.regions[~robot.is_body]
    chamber = np.searchsorted(np.array(robot.chamber_regions, dtype=np.int64), regions)
    walls = tuple(np.vstack([w, c]) for w, c in zip(robot.chamber_walls, robot.chamber_caps))
    gradients, cell_volumes = rest_shapes(robot.vertices, tets)
    lighter = solver.share if solver.chamber_targets == "total" else 1.0
    weights = np.full(len(tets), lighter * solver.chamber_weight * float(np.average(k, weights=volumes[robot.is_body])))
    cells = Cells(
        tets,
        gradients,
        cell_volumes,
        weights,
        chamber,
        walls,
        robot.chamber_volumes.copy(),
        robot.chamber_volumes.copy(),
        solver.chamber_targets,
    )
    rest = np.array(robot.vertices)
    elements = Elements(len(rest), body, cells, _loads(robot, environment, 0, len(rest)))
    return Work(robot, environment, rest, ids, elements, _matrix(elements, ids))


def continued(work: Work, before: Work) -> Work:
    """Return `work` (at rest) with the chambers of an earlier solve of the same robot, if they have been remeshed."""
    if before.remeshings == 0:
        return work
    count = before.elements.count
    load = np.vstack([work.elements.load, np.zeros((count - len(work.rest), 3))])
    elements = Elements(count, work.elements.body, before.elements.cells, load)
    return replace(
        work, rest=before.rest, elements=elements, matrix=_matrix(elements, work.held), remeshings=before.remeshings
    )


def strung(work: Work, lines: Lines | None) -> Work:
    """Return `work` with other strings; the matrix is factorised anew if their stiffness in it changes."""
    old = work.elements.lines
    work.elements.lines = lines
    if (lines is None and old is None) or (lines is not None and lines.same_matrix(old)):
        return work
    return replace(work, matrix=_matrix(work.elements, work.held))


def _matrix(elements: Elements, held: Ints) -> GlobalMatrix:
    used = np.unique(np.concatenate([elements.body.tets.ravel(), elements.cells.tets.ravel()]))
    return GlobalMatrix(elements.laplacian(), np.setdiff1d(used, held))


def _body(robot: VolumetricRobot, solver: ProjectiveShapeSolver) -> tuple[Body, Floats]:
    """Body elements and their stiffness [Pa]."""
    regions = list(robot.materials)
    which = np.searchsorted(np.array(regions), robot.regions[robot.is_body])
    laws = [blend_table(m, solver.blend_at_rest) for m in robot.materials.values()]
    k = np.array([law[0] for law in laws])[which]
    moduli = np.array([m.bulk_modulus for m in robot.materials.values()])[which]  # type: ignore[attr-defined]
    gradients, volumes = rest_shapes(robot.vertices, robot.body_tets)
    rows = np.array([material_row(m) for m in robot.materials.values()])
    bulk = np.minimum(k * (1 - solver.blend_at_rest) / 3, moduli)
    tables = np.array([law[1] for law in laws])
    return Body(
        np.array(robot.body_tets), gradients, volumes, k, bulk, which, tables, rows, solver.body_targets, solver.share
    ), k


def _loads(robot: VolumetricRobot, environment: Environment, index: int, count: int) -> Floats:
    """Gravity (a quarter of every body tet to its corners) and dead loads [N], (count, 3)."""
    n = len(robot.vertices)
    out = np.zeros((count, 3))
    density = np.array([m.density for m in robot.materials.values()])  # type: ignore[attr-defined]
    which = np.searchsorted(np.array(list(robot.materials)), robot.regions[robot.is_body])
    mass = density[which] * topology.tet_volumes(robot.vertices, robot.body_tets)
    out[:n] += np.bincount(robot.body_tets.ravel(), np.repeat(mass / 4, 4), minlength=n)[:, None] * environment.gravity
    for weights, load in load_shapes(robot, environment, 1):
        out[:n] += weights[:n, None] * load.at(index)
    return out


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
    F = np.empty((len(cells.tets), 9))
    chamber_gradients(x, cells.tets, cells.gradients, F)
    J = np.linalg.det(F.reshape(-1, 3, 3))
    if float(J.max()) > max_growth or float(J.min()) <= 0.0:
        return True
    stretch = np.linalg.norm(F, axis=1)
    squeeze = np.linalg.norm(np.linalg.inv(F.reshape(-1, 3, 3)), axis=(1, 2))
    return bool((np.maximum(stretch, squeeze) > max_distortion).any())


def remeshed(work: Work, x: Floats, solver: ProjectiveShapeSolver) -> tuple[Work, Floats]:
    """Mesh the inside of all chambers anew in their present shape; walls, body and numbering stay.

    New vertices are appended. A chamber whose wall tetgen cannot mesh (it crosses itself) keeps its old elements.
    """
    old = work.elements.cells
    n = work.elements.count
    points, tets, chamber, meshed = [x], [], [], old.mesh_volumes.copy()
    volumes = work.elements.volumes(x)
    rest_x = [work.rest]
    kept = []
    count = n
    for i, wall in enumerate(old.walls):
        ids = np.unique(wall)
        local = np.full(n, -1, dtype=np.int64)
        local[ids] = np.arange(len(ids))
        found = _inside(x[ids], local[wall])
        if found is None:
            kept.append(i)
            continue
        new, inner = found
        numbers = np.concatenate([ids, count + np.arange(len(new))])
        points.append(new)
        rest_x.append(new)
        tets.append(numbers[inner])
        chamber.append(np.full(len(inner), i))
        meshed[i] = volumes[i]
        count += len(new)
    x = np.vstack(points)
    stay = np.isin(old.chamber, kept)
    new_tets = np.vstack(tets) if tets else np.empty((0, 4), np.int64)
    gradients, cell_volumes = rest_shapes(x, new_tets)
    weight = float(old.weights.mean())
    cells = replace(
        old,
        tets=np.vstack([old.tets[stay], new_tets]),
        gradients=np.concatenate([old.gradients[stay], gradients]),
        volumes=np.concatenate([old.volumes[stay], cell_volumes]),
        weights=np.full(int(stay.sum()) + len(new_tets), weight),
        chamber=np.concatenate([old.chamber[stay], *chamber]).astype(np.int64),
        mesh_volumes=meshed,
    )
    load = np.vstack([work.elements.load, np.zeros((count - n, 3))])
    elements = Elements(count, work.elements.body, cells, load)
    elements.springs, elements.lines = work.elements.springs, work.elements.lines
    elements.stretched = work.elements.stretched
    matrix = _matrix(elements, work.held)
    matrix.factor(elements.springs)
    out = replace(work, rest=np.vstack(rest_x), elements=elements, matrix=matrix, remeshings=work.remeshings + 1)
    return out, x


def _inside(vertices: Floats, faces: Ints) -> tuple[Floats, Ints] | None:
    """Tetrahedralise the inside of a wall, its triangles kept; None if the wall crosses itself."""
    scale = 1.0 / float(np.ptp(vertices, axis=0).max())
    edges = vertices[faces] - vertices[np.roll(faces, 1, axis=1)]
    length = float(np.linalg.norm(edges, axis=2).mean()) * scale
    inputs = dict(
        engine="tetgen",
        vertices=vertices * scale,
        faces=faces,
        seeds=np.empty((0, 3)),
        holes=np.empty((0, 3)),
        switches=f"pYq1.4a{length**3 / 4:.6g}Q",
    )
    found = meshing.run_mesher(inputs, 120.0, "chamber")
    if isinstance(found, str):
        return None
    tets = found["tets"]
    volumes = topology.tet_volumes(found["vertices"], tets)
    tets = np.where((volumes < 0)[:, None], tets[:, [0, 2, 1, 3]], tets)
    count = len(vertices)
    if not np.array_equal(found["vertices"][:count], vertices * scale):
        raise GeosimError("remeshing: the mesher moved vertices of the chamber's wall")
    used = np.abs(volumes) > 1e-14
    return found["vertices"][count:] / scale, tets[used]
