"""Actuation by length and by area in the projective solver: cables, edge sets, face sets [Fang2022, I-C and footnote 1].

Every actuator is a scalar g(x) - the length of a cable, of an edge, the area of a set of faces - that is driven to a
value G, as a chamber is driven to a volume. Its target adds

    (max(0, m + (g - G) / C))^2 C / 2,        force m + (g - G) / C along grad g,

to the merit, with the multiplier m moved until g is G: then m is the tension [N] (of a face set: the surface tension,
[N/m]). A cable only pulls, so its force stops at zero, and it is slack where it is shorter than asked; edges and faces
push as well. A prescribed tension adds tension * g. The global matrix gets the stiffness of the strings,

    (g - G)^2 / C  <=  (segments / C) sum over segments ||d_end - d_start||^2,

so one step of it lowers the merit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.actuation import Command, EdgeLengths, FaceAreas, cable_targets
from geosim.model.cable import Anchors
from geosim.model.robot import VolumetricRobot

__all__ = ["Lines", "make_lines"]


# Of a string, over that of the vertices it is fastened to in the global matrix: stiffer ones ask for smaller steps of
# everything beside them, softer ones for more moves of the multiplier.
STRING_STIFFNESS_RATIO = 0.2
MEAN_SQUARE_SIDE = 2.3  # of a triangle's area: 4 / sqrt(3) for an equilateral one


@dataclass(frozen=True)
class Lines:
    """Strings and sheets that actuate a body; scalars g number cables first, then edges, then one for the faces.

    Parameters
    ----------
    anchors, segments, owner
        Points of all strings, pairs of them (s, 2), and the scalar g of every pair (s,).
    faces
        Vertex ids of the actuated faces (f, 3).
    cables
        Number of cables.
    goals, tensions
        G of every g, nan where it is not driven; prescribed tensions [N], 0 elsewhere; both (g,).
    inverse
        1 / C (g,).
    multipliers
        m (g,).
    """

    anchors: Anchors
    segments: Ints
    owner: Ints
    faces: Ints
    cables: int
    goals: Floats
    tensions: Floats
    inverse: Floats
    multipliers: Floats

    @property
    def count(self) -> int:
        """Number of scalars."""
        return len(self.goals)

    def measures(self, x: Floats) -> Floats:
        """Lengths [m], and the area [m^2] of the faces (g,) at positions x [m]."""
        points = self.anchors.points(x)
        length = np.linalg.norm(points[self.segments[:, 1]] - points[self.segments[:, 0]], axis=1)
        out = np.bincount(self.owner, length, minlength=self.count).astype(float)
        if len(self.faces):
            out[-1] += _area(x, self.faces)
        return out

    def pulls(self, measures: Floats) -> Floats:
        """Tension of every scalar (g,) [N or N/m]."""
        driven = np.isfinite(self.goals)
        pull = np.where(driven, self.multipliers + (measures - np.nan_to_num(self.goals)) * self.inverse, self.tensions)
        pull[: self.cables] = np.maximum(pull[: self.cables], 0.0)
        return pull

    def evaluate(self, x: Floats) -> tuple[Floats, float]:
        """Gradient [N] (n, 3) and value [J] of the terms of the merit."""
        measures = self.measures(x)
        pull = self.pulls(measures)
        energy = float(np.sum(np.where(np.isfinite(self.goals), 0.5 * pull**2 / self.inverse, pull * measures)))
        return self.gradient(x, pull), energy

    def gradient(self, x: Floats, pull: Floats) -> Floats:
        """Sum of pull grad g over all scalars (n, 3)."""
        out = np.zeros_like(x)
        points = self.anchors.points(x)
        way = points[self.segments[:, 1]] - points[self.segments[:, 0]]
        along = pull[self.owner, None] * way / np.maximum(np.linalg.norm(way, axis=1), MIN_DIVISOR)[:, None]
        at_points = np.zeros_like(points)
        np.add.at(at_points, self.segments[:, 1], along)
        np.subtract.at(at_points, self.segments[:, 0], along)
        np.add.at(out, self.anchors.vertices, self.anchors.weights[:, :, None] * at_points[:, None])
        if len(self.faces):
            normal = topology.face_normals(x, self.faces)
            unit = normal / np.maximum(np.linalg.norm(normal, axis=1), MIN_DIVISOR)[:, None]
            for i in range(3):  # dA/da = n x (c - b) / 2 for the corners a, b, c in turn
                side = x[self.faces[:, (i + 2) % 3]] - x[self.faces[:, (i + 1) % 3]]
                np.add.at(out, self.faces[:, i], 0.5 * pull[-1] * np.cross(unit, side))
        return out

    def active(self, x: Floats) -> Ints:
        """Numbers of the scalars that resist a change: those that are driven, but no slack cables."""
        taut = (np.arange(self.count) >= self.cables) | (self.pulls(self.measures(x)) > 0.0)
        return np.flatnonzero(np.isfinite(self.goals) & taut)

    def slopes(self, x: Floats) -> tuple[Ints, Floats]:
        """Vertices (k, 8) and vectors a (k, 8, 3): sum of a (x) a is the stiffness of segments across their tension [N/m].

        The second derivative of the length l of a segment along u is (1 - u (x) u) / l; where it pushes it is left out.
        """
        points, (start, end) = self.anchors.points(x), self.segments.T
        way = points[end] - points[start]
        length = np.maximum(np.linalg.norm(way, axis=1), MIN_DIVISOR)
        unit, pull = way / length[:, None], np.maximum(self.pulls(self.measures(x))[self.owner], 0.0)
        across = np.sqrt(pull / length)[:, None, None] * (np.eye(3) - unit[:, :, None] * unit[:, None, :])
        weights = np.hstack([self.anchors.weights[end], -self.anchors.weights[start]])
        vertices = np.hstack([self.anchors.vertices[end], self.anchors.vertices[start]])
        vectors = weights[:, None, :, None] * across[:, :, None, :]
        return np.repeat(vertices, 3, axis=0), vectors.reshape(-1, 8, 3)

    def moved(self, x: Floats, tolerance: float) -> Lines | None:
        """Return lines with the multipliers moved towards the goals; None if all are met at x to a relative tolerance."""
        driven = np.isfinite(self.goals)
        measures = self.measures(x)
        pulls = self.pulls(measures)
        gap = np.where(driven, measures - np.nan_to_num(self.goals), 0.0)
        slack = (np.arange(self.count) < self.cables) & (gap <= 0) & (pulls == 0)
        if (slack | (np.abs(gap) <= tolerance * np.nan_to_num(self.goals, nan=1.0))).all():
            return None
        return replace(self, multipliers=np.where(driven, pulls, 0.0))

    def towards(self, begin: Floats, pulls: Floats, share: float) -> Lines:
        """Return lines whose goals (and prescribed tensions) are a share of the way from measures and tensions."""
        if share == 1.0:
            return self
        return replace(
            self, goals=begin + share * (self.goals - begin), tensions=pulls + share * (self.tensions - pulls)
        )

    def laplacian(self, count: int) -> sp.csc_matrix:
        """Their part of the global matrix, (count, count)."""
        segments = np.bincount(self.owner, minlength=self.count)
        stiffness = np.where(np.isfinite(self.goals), segments * self.inverse, 0.0)[self.owner]
        points = len(self.anchors.vertices)
        fasten = sp.csr_matrix(
            (self.anchors.weights.ravel(), (np.repeat(np.arange(points), 4), self.anchors.vertices.ravel())),
            shape=(points, count),
        )
        ends = fasten[self.segments[:, 1]] - fasten[self.segments[:, 0]]
        out = ends.T @ sp.diags(stiffness) @ ends
        if len(self.faces) and np.isfinite(self.goals[-1]):
            pairs = self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
            row, ones = np.arange(len(pairs)), np.ones(len(pairs))
            start, end = (sp.csr_matrix((ones, (row, corner)), shape=(len(pairs), count)) for corner in pairs.T)
            # |dA| <= L sum |d| / 2 over the sides
            square = MEAN_SQUARE_SIDE * self.goals[-1] / len(self.faces)
            out = out + (end - start).T @ (end - start) * (0.75 * len(self.faces) * square * self.inverse[-1])
        return out.tocsc()

    def same_matrix(self, other: Lines | None) -> bool:
        """Whether the part of the global matrix is that of other lines."""
        return (
            other is not None
            and self.count == other.count
            and np.array_equal(self.segments, other.segments)
            and np.array_equal(self.faces, other.faces)
            and np.array_equal(self.anchors.vertices, other.anchors.vertices)
            and np.array_equal(np.isfinite(self.goals), np.isfinite(other.goals))
        )


def make_lines(robot: VolumetricRobot, command: Command, diagonal: Floats, before: Lines | None) -> Lines | None:
    """Return what actuates lengths and areas in a command; None if nothing does.

    Parameters
    ----------
    diagonal
        Stiffness of the vertices in the global matrix [N/m], (n,).
    before
        Lines of the last equilibrium, whose multipliers are the first guess.

    Raises
    ------
    InputError
        A cable has both a length and a tension, or columns and cables differ in number.
    """
    edges, faces = command.find(EdgeLengths), command.find(FaceAreas)
    lengths, tensions = cable_targets(command, len(robot.cables))
    if not robot.cables and edges is None and faces is None:
        return None
    fastened, goals = [*robot.cable_anchors], [lengths]
    counts = [len(item.vertices) for item in fastened]
    sheet = np.empty((0, 3), np.int64)
    if edges is not None:
        ids = _known(robot, edges.edges, "EdgeLengths: edges")
        fastened.append(Anchors(np.repeat(ids.reshape(-1, 1), 4, axis=1), np.tile([1.0, 0.0, 0.0, 0.0], (ids.size, 1))))
        counts += [2] * len(ids)
        goals.append(edges.at(command.index) * np.linalg.norm(np.diff(robot.vertices[ids], axis=1)[:, 0], axis=1))
    if faces is not None:
        sheet = _known(robot, faces.faces, "FaceAreas: faces")
        goals.append(np.array([faces.at(command.index) * _area(robot.vertices, sheet)]))
    goal = np.concatenate(goals)
    anchors = Anchors(
        np.vstack([np.empty((0, 4), np.int64), *(item.vertices for item in fastened)]),
        np.vstack([np.empty((0, 4)), *(item.weights for item in fastened)]),
    )
    string = np.repeat(np.arange(len(counts)), counts)  # of every point; neighbours on one string are a segment
    first = np.flatnonzero(string[1:] == string[:-1])
    lines = Lines(
        anchors,
        np.stack([first, first + 1], axis=1),
        string[first],
        sheet,
        len(robot.cables),
        goal,
        np.concatenate([tensions, np.zeros(len(goal) - len(tensions))]),
        np.ones(len(goal)),
        np.zeros(len(goal)),
    )
    if before is not None and lines.same_matrix(before):
        multipliers = np.where(np.isfinite(goal), before.pulls(before.goals), 0.0)
        return replace(lines, inverse=before.inverse, multipliers=multipliers)
    return replace(lines, inverse=_inverse(lines, diagonal))


def _inverse(lines: Lines, diagonal: Floats) -> Floats:
    """1 / C of every scalar (g,): a share of the stiffness of the vertices [N/m] (n,) that it is fastened to."""
    out = np.full(lines.count, STRING_STIFFNESS_RATIO * float(diagonal.max()))
    at_points = np.einsum("qi,qi->q", lines.anchors.weights, diagonal[lines.anchors.vertices])
    segments = np.bincount(lines.owner, minlength=lines.count)
    total = np.bincount(lines.owner, at_points[lines.segments].mean(axis=1), minlength=lines.count)
    held = total > 0
    out[held] = STRING_STIFFNESS_RATIO * total[held] / segments[held]
    if len(lines.faces):
        out[-1] = (
            STRING_STIFFNESS_RATIO * float(diagonal[lines.faces].mean()) * len(lines.faces) / (4.0 * lines.goals[-1])
        )
    return out


def _known(robot: VolumetricRobot, ids: Ints, name: str) -> Ints:
    """Return vertex ids after checking that the robot has them."""
    if ids.max(initial=-1) >= len(robot.vertices):
        raise InputError(f"{name} name vertex {ids.max()}, but the robot has {len(robot.vertices)}")
    return ids


def _area(x: Floats, faces: Ints) -> float:
    """Area of faces [m^2]."""
    return 0.5 * float(np.linalg.norm(topology.face_normals(x, faces), axis=1).sum())
