"""Cables (tendons): polylines through material points of a body that pull and never push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, Ints, choice, einsum, floats, frozen, number
from geosim.errors import InputError


@guarded
@dataclass(frozen=True)
class Cable:
    """A cable that slides through points of a body and pulls; without friction one tension >= 0 goes along all of it.

    Parameters
    ----------
    points
        Rest positions [m] of the points that it passes through, in order, shape (q, 3), q >= 2; inside the body or
        on its surface. It is fastened at the end where it is not pulled.
    friction
        Coefficient mu at the points between: where it slides round an angle theta its tension falls by exp(-mu theta)
        away from the end that it is pulled at [capstan equation].
    pulled
        Which end is pulled: "first" or "last".
    name
        Shown in summaries.
    """

    points: Any
    friction: float = 0.0
    pulled: str = "first"
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", floats(self.points, "Cable: points", (None, 3)))
        number(self.friction, "Cable: friction", low=0.0)
        cable_ends = ("first", "last")
        choice(self.pulled, "Cable: pulled", cable_ends)
        if len(self.points) < 2:
            raise InputError(f"Cable: points has {len(self.points)} point; give at least two")
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        if (steps == 0).any():
            i = int(np.flatnonzero(steps == 0)[0])
            raise InputError(f"Cable: points {i + 1} and {i + 2} are the same; remove one")

    @property
    def length(self) -> float:
        """Length at rest [m]."""
        return float(np.linalg.norm(np.diff(self.points, axis=0), axis=1).sum())


@dataclass(frozen=True)
class Anchors:
    """Where points are fastened: corners of body tets (q, 4), barycentric weights (q, 4), and which body tets (q,)."""

    vertices: Ints
    weights: Floats
    tets: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def points(self, x: Floats) -> Floats:
        """Positions of the points [m] (q, 3) for positions of the vertices [m] (n, 3)."""
        return einsum("qi,qik->qk", self.weights, x[self.vertices])

    def length(self, x: Floats) -> float:
        """Length of the cable [m]."""
        return float(np.linalg.norm(np.diff(self.points(x), axis=0), axis=1).sum())


def as_cables(given: Sequence[Any]) -> tuple[Cable, ...]:
    """Return cables from `Cable` objects or arrays of points [m] (q, 3)."""
    return tuple(item if isinstance(item, Cable) else Cable(item) for item in given)


def anchors(points: Floats, vertices: Floats, tets: Ints, size: float, label: str) -> Anchors:
    """Fasten points [m] (q, 3) to body tets.

    Parameters
    ----------
    points
        Rest positions [m] (q, 3).
    vertices, tets, size
        Rest positions [m] (n, 3), body tets (m, 4), diagonal of the body [m].
    label
        For messages, such as "cable 1".

    Raises
    ------
    InputError
        A point lies outside of the body.
    """
    origin = vertices[tets[:, 3]]
    inverse = np.linalg.inv((vertices[tets[:, :3]] - origin[:, None]).transpose(0, 2, 1))
    chosen, weights = [], []
    # of the robot's size: how far a point may lie outside of the body, which may be a faceted surface
    max_point_outside_rel = 5e-3
    for i, point in enumerate(points):
        local = np.einsum("mij,mj->mi", inverse, point - origin)
        local = np.concatenate([local, 1.0 - local.sum(axis=1, keepdims=True)], axis=1)
        near = np.argsort(-local.min(axis=1), kind="stable")[:64]  # inside one of them, or outside of all
        clipped = np.maximum(local[near], 0.0)
        clipped /= clipped.sum(axis=1, keepdims=True)
        gaps = np.linalg.norm(np.einsum("mi,mik->mk", clipped, vertices[tets[near]]) - point, axis=1)
        best = int(np.argmin(gaps))
        if gaps[best] > max_point_outside_rel * size:
            raise InputError(
                f"{label}: point {i + 1} ({', '.join(f'{v:.6g}' for v in point)}) m lies outside of the body by "
                f"up to {gaps[best] * 1e3:.3g} mm; put it inside the body or on its surface"
            )
        chosen.append(near[best])
        weights.append(clipped[best])
    found = np.array(chosen, dtype=np.int64)
    return Anchors(frozen(tets[found]), frozen(np.array(weights)), frozen(found))
