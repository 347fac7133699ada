"""The body as it is printed: cavities cut out, an inlet for a tube into each, and how thick its walls are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.apps.moulds.solids import arrays, cylinder
from geosim.arrays import Floats, Ints
from geosim.geometry.widths import MIN_FACING_COSINE, next_along, unit_normals, widths

BEYOND = 0.5  # diameters that the bore of an inlet goes on at both ends, so that it opens


@dataclass(frozen=True)
class Inlet:
    """The bore of a tube: from a point in the chamber to one outside [m] (3,), diameter [m], whether it ends where held."""

    start: Floats
    end: Floats
    diameter: float
    is_held: bool

    @property
    def way(self) -> Floats:
        """Unit vector (3,) out of the chamber."""
        return np.asarray((self.end - self.start) / np.linalg.norm(self.end - self.start))

    @property
    def bore(self) -> Any:
        """What is cut out."""
        return self.stem(0.0, 0.0)

    def stem(self, beyond: float, play: float) -> Any:
        """The bore, longer at its end, wider on every side [m]: the rod that keeps it open, or the hole that holds this."""
        return cylinder(self.start, self.end + beyond * self.way, self.diameter + 2.0 * play)


@dataclass(frozen=True)
class Walls:
    """Thickness [m] of the wall behind every face (m,) of a surface (vertices (n, 3), faces (m, 3)); nan at rims."""

    vertices: Floats
    faces: Ints
    thickness: Floats

    @property
    def least(self) -> tuple[float, Floats]:
        """The thinnest wall [m] and its place [m] (3,)."""
        k = int(np.nanargmin(self.thickness))
        return float(self.thickness[k]), self.vertices[self.faces[k]].mean(axis=0)


def inlets(skin: Any, chambers: Sequence[Any], held: Floats, diameter: float) -> list[Inlet]:
    """Find the shortest straight way out of every chamber, through a face that is held where there is one.

    Parameters
    ----------
    skin, chambers
        Solids; the cavities are not cut out of the skin.
    held
        Corners [m] (2, 3) of the box of what is held.
    diameter
        Outer diameter [m] of the tube; narrower where a chamber is.
    """
    wall_share = 0.6  # of the smallest width of a chamber: a wider tube is no inlet
    straight = 0.9  # cosine between an inlet and the face that it leaves through
    near_shortest = 1.2  # times the shortest way through a wall: among these the inlet nearest to their middle
    found = []
    outer, outside = arrays(skin)
    out, _ = unit_normals(outer, outside)
    margin = 1e-4 * float(np.ptp(outer))
    for k, chamber in enumerate(chambers):
        vertices, faces = arrays(chamber)
        normal, area = unit_normals(vertices, faces)
        centres = vertices[faces].mean(axis=1)
        others = [arrays(c) for i, c in enumerate(chambers) if i != k]
        points, ways, weight = _candidates(centres, normal, area, vertices)
        length, face = next_along(points, ways, outer, outside)
        good = np.isfinite(length) & (np.einsum("ij,ij->i", out[face], ways) > straight)
        for v, f in others:
            good &= next_along(points, ways, v, f)[0] > length
        ends = points + np.where(np.isfinite(length), length, 0.0)[:, None] * ways
        in_held = ((ends > held[0] - margin) & (ends < held[1] + margin)).all(axis=1) & good
        chosen = np.flatnonzero(in_held if in_held.any() else good)
        if len(chosen) == 0:
            chosen = np.flatnonzero(np.isfinite(length))
        chosen = chosen[length[chosen] <= near_shortest * length[chosen].min()]
        same = chosen[ways[chosen] @ ways[chosen[np.argmin(length[chosen])]] > straight]
        middle = np.average(ends[same], axis=0, weights=weight[same])
        best = same[np.argmin(np.linalg.norm(ends[same] - middle, axis=1))]
        width = min(diameter, wall_share * float(np.ptp(vertices, axis=0).min()))
        found.append(
            Inlet(
                points[best] - BEYOND * width * ways[best],
                ends[best] + BEYOND * width * ways[best],
                width,
                bool(in_held.any()),
            )
        )
    return found


def _candidates(centres: Floats, normal: Floats, area: Floats, vertices: Floats) -> tuple[Floats, Floats, Floats]:
    """Points on a chamber's wall, ways out and areas: faces along their normals, and middles of flat ends along the axes."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    points, ways, weights = [centres], [normal], [area]
    for axis in range(3):
        for way in (-1.0, 1.0):
            direction = np.eye(3)[axis] * way
            end = np.flatnonzero(normal @ direction > 0.99)
            at = (low, high)[way > 0][axis]
            end = end[np.abs(centres[end, axis] - at) < 1e-3 * (high[axis] - low[axis])]
            if len(end):
                points.append(np.average(centres[end], axis=0, weights=area[end])[None])
                ways.append(direction[None])
                weights.append(area[end].sum(keepdims=True))
    return np.vstack(points), np.vstack(ways), np.concatenate(weights)


def walls(body: Any) -> Walls:
    """Measure the wall behind every face of a solid: the shortest way to the face across, along its normal or 40 degrees off it.

    Of a cone of ways as in [Shapira, Shamir and Cohen-Or 2008, Visual Computer 24]: the normal alone misses
    neighbouring surfaces at ridges of bellows and edges of a flat cavity. It would take the whole body there for a
    wall.
    """
    fine = 0.015  # of the diagonal: edges of the triangles behind each of which the wall is measured
    tilt, turns = np.radians(40.0), 0.25 * np.pi * np.arange(8)
    low, high = np.reshape(body.bounding_box(), (2, 3))
    vertices, faces = arrays(body.refine_to_length(fine * float(np.linalg.norm(high - low))))
    thickness = widths(vertices, faces, (-1.0,))
    # A tilted way through an even wall is longer by 1 / cos(tilt): what is hardly thicker than the thinnest wall is known.
    asked = np.flatnonzero(thickness > thickness.min() / np.cos(tilt))
    normals, _ = unit_normals(vertices, faces)
    inward = -normals[asked]
    across = np.cross(inward, np.eye(3)[np.argmin(np.abs(inward), axis=1)])
    across /= np.linalg.norm(across, axis=1)[:, None]
    sideways = [np.cos(turn) * across + np.sin(turn) * np.cross(inward, across) for turn in turns]
    ways = np.vstack([np.cos(tilt) * inward + np.sin(tilt) * side for side in sideways])
    centres = vertices[faces[asked]].mean(axis=1)
    length, other = next_along(np.tile(centres, (len(turns), 1)), ways, vertices, faces)
    facing = np.einsum("ij,ij->i", np.tile(inward, (len(turns), 1)), normals[other]) > MIN_FACING_COSINE
    tilted = np.where(facing & (other >= 0), length, np.inf).reshape(len(turns), -1)
    thickness[asked] = np.minimum(thickness[asked], tilted.min(axis=0))
    return Walls(vertices, faces, np.where(np.isfinite(thickness), thickness, np.nan))
