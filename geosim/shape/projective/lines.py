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

from geosim.actuation import CableLengths, CableTensions, Command, EdgeLengths, FaceAreas
from geosim.arrays import Floats, Ints
from geosim.cable import Anchors
from geosim.errors import InputError
from geosim.robot import VolumetricRobot

__all__ = ["Lines", "make_lines"]

STIFFNESS = 0.2  # of a string, over that of the vertices it is fastened to in the global matrix


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
            out[-1] += 0.5 * np.linalg.norm(_normals(x, self.faces), axis=1).sum()
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
        driven = np.isfinite(self.goals)
        energy = float(np.sum(np.where(driven, 0.5 * pull**2 / np.where(driven, self.inverse, 1.0), pull * measures)))
        out = np.zeros_like(x)
        points = self.anchors.points(x)
        way = points[self.segments[:, 1]] - points[self.segments[:, 0]]
        along = pull[self.owner, None] * way / np.maximum(np.linalg.norm(way, axis=1), 1e-300)[:, None]
        at_points = np.zeros_like(points)
        np.add.at(at_points, self.segments[:, 1], along)
        np.subtract.at(at_points, self.segments[:, 0], along)
        np.add.at(out, self.anchors.vertices, self.anchors.weights[:, :, None] * at_points[:, None])
        if len(self.faces):
            normal = _normals(x, self.faces)
            unit = normal / np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
            for i in range(3):  # dA/da = n x (c - b) / 2 for the corners a, b, c in turn
                side = x[self.faces[:, (i + 2) % 3]] - x[self.faces[:, (i + 1) % 3]]
                np.add.at(out, self.faces[:, i], 0.5 * pull[-1] * np.cross(unit, side))
        return out, energy

    def moved(self, x: Floats, tolerance: float) -> Lines | None:
        """Return lines with the multipliers moved towards the goals; None if all are met at x to a relative tolerance."""
        driven = np.isfinite(self.goals)
        gap = np.where(driven, self.measures(x) - np.nan_to_num(self.goals), 0.0)
        slack = np.zeros(self.count, dtype=bool)
        slack[: self.cables] = (gap[: self.cables] <= 0) & (self.pulls(self.measures(x))[: self.cables] == 0)
        if (slack | (np.abs(gap) <= tolerance * np.nan_to_num(self.goals, nan=1.0))).all():
            return None
        return replace(self, multipliers=np.where(driven, self.pulls(self.measures(x)), 0.0))

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
            row = np.arange(len(pairs))
            sides = sp.csr_matrix((np.ones(len(pairs)), (row, pairs[:, 1])), shape=(len(pairs), count)) - sp.csr_matrix(
                (np.ones(len(pairs)), (row, pairs[:, 0])), shape=(len(pairs), count)
            )
            # |dA| <= L sum |d| / 2 over the sides; L^2 of the faces is about 2.3 of their mean area
            square = 2.3 * self.goals[-1] / len(self.faces)
            out = out + sides.T @ sides * (0.75 * len(self.faces) * square * self.inverse[-1])
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
    lengths, pulls = _cable_targets(robot, command)
    if not robot.cables and edges is None and faces is None:
        return None
    fastened = list(robot.cable_anchors)
    segments, owner, start = [], [], 0
    for k, item in enumerate(fastened):
        q = len(item.vertices)
        segments.append(start + np.stack([np.arange(q - 1), np.arange(1, q)], axis=1))
        owner.append(np.full(q - 1, k))
        start += q
    goals, tensions = [lengths], [pulls]
    if edges is not None:
        ids = edges.edges
        if len(ids) and ids.max() >= len(robot.vertices):
            raise InputError(f"EdgeLengths: edges name vertex {ids.max()}, but the robot has {len(robot.vertices)}")
        single = np.zeros((ids.size, 4))
        single[:, 0] = 1.0
        fastened.append(Anchors(np.repeat(ids.reshape(-1, 1), 4, axis=1), single))
        segments.append(start + np.arange(ids.size).reshape(-1, 2))
        owner.append(len(lengths) + np.arange(len(ids)))
        rest = np.linalg.norm(robot.vertices[ids[:, 1]] - robot.vertices[ids[:, 0]], axis=1)
        goals.append(edges.at(command.index) * rest)
        tensions.append(np.zeros(len(ids)))
    sheet = np.empty((0, 3), np.int64)
    if faces is not None:
        sheet = faces.faces
        if sheet.max() >= len(robot.vertices):
            raise InputError(f"FaceAreas: faces name vertex {sheet.max()}, but the robot has {len(robot.vertices)}")
        area = 0.5 * np.linalg.norm(_normals(robot.vertices, sheet), axis=1).sum()
        goals.append(np.array([faces.at(command.index) * area]))
        tensions.append(np.zeros(1))
    all_anchors = Anchors(
        np.vstack([a.vertices for a in fastened] or [np.empty((0, 4), np.int64)]),
        np.vstack([a.weights for a in fastened] or [np.empty((0, 4))]),
    )
    goal = np.concatenate(goals)
    count = len(goal)
    chain = np.vstack(segments) if segments else np.empty((0, 2), np.int64)
    whose = np.concatenate(owner).astype(np.int64) if owner else np.empty(0, np.int64)
    inverse = np.ones(count)
    if len(chain):
        at_points = np.einsum("qi,qi->q", all_anchors.weights, diagonal[all_anchors.vertices])
        mean = np.bincount(whose, at_points[chain].mean(axis=1), minlength=count) / np.maximum(
            np.bincount(whose, minlength=count), 1
        )
        inverse = np.where(mean > 0, STIFFNESS * mean, float(diagonal.max()) * STIFFNESS)
    if len(sheet):
        inverse[-1] = STIFFNESS * float(diagonal[sheet].mean()) * len(sheet) / (4.0 * goal[-1])
    lines = Lines(
        all_anchors, chain, whose, sheet, len(robot.cables), goal, np.concatenate(tensions), inverse, np.zeros(count)
    )
    if before is not None and lines.same_matrix(before):
        return replace(
            lines, inverse=before.inverse, multipliers=np.where(np.isfinite(goal), before.pulls(before.goals), 0.0)
        )
    return lines


def _cable_targets(robot: VolumetricRobot, command: Command) -> tuple[Floats, Floats]:
    """Lengths [m] (nan = not driven) and tensions [N] of all cables in a command."""
    lengths, tensions = command.find(CableLengths), command.find(CableTensions)
    count = len(robot.cables)
    if (lengths is not None or tensions is not None) and count == 0:
        raise InputError(
            "CableLengths, CableTensions: this robot has no cables; give cables=[Cable(points), ...] or write "
            "[[cables]] into its file"
        )
    length = np.full(count, np.nan) if lengths is None else lengths.at(command.index, count)
    tension = np.full(count, np.nan) if tensions is None else tensions.at(command.index, count)
    both = np.isfinite(length) & np.isfinite(tension)
    if both.any():
        raise InputError(
            f"cable {int(np.flatnonzero(both)[0]) + 1}: both a length and a tension are prescribed; prescribe one, "
            f"the other is returned"
        )
    return length, np.nan_to_num(tension)


def _normals(x: Floats, faces: Ints) -> Floats:
    """Normals of faces, twice as long as their areas."""
    return np.cross(x[faces[:, 1]] - x[faces[:, 0]], x[faces[:, 2]] - x[faces[:, 0]])
