"""Where moulds part, what holds a part that is drawn off and how deep, and ways along which cores leave their cavities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from geosim.apps.moulds.solids import arrays, half_space
from geosim.arrays import Floats, axes_along
from geosim.geometry.topology import face_normals

AXES = "xyz"
TILT = 1e-3  # cosine: walls so near the drawing direction slide, 0.1 mm on 100 mm
HOLDS = 2e-3  # of the area of the box across the direction: less is the rounding of facets
LEVELS = 16  # at which the depth of undercuts is measured
NEAR = 1e-5  # of the size: levels nearer to each other are one, and depths known


@dataclass(frozen=True)
class Parting:
    """A parting plane: axis (0, 1, 2) of its normal and height [m]."""

    axis: int
    height: float


@dataclass(frozen=True)
class Hold:
    """What holds a part: how deep [m] it reaches behind what stays, where [m] (3,), the longest wall [m] it slides along."""

    depth: float
    place: Floats
    slides: float


def hold(part: Any, way: Floats, rest: Any) -> Hold:
    """Measure the undercuts that hold a part which is drawn off.

    A point p of the part is held if the rest has one at p + t `way` for some t > 0: if it lies in the shadow that the rest
    further on casts on the level of p. The depth is the largest distance from such a point to the rim of the shadow. By this much
    the rim must be pushed aside, or a third part drawn sideways, before the part passes. Shadows are polygons, exact for the
    facets; there are none but below faces of the rest that look back, and those with the largest areas are looked at.

    Parameters
    ----------
    part, rest
        Solids that do not overlap.
    way
        Unit vector (3,).
    """
    turn = axes_along(way)
    part, rest = (s.transform(np.column_stack([turn.T, np.zeros(3)])) for s in (part, rest))
    floor = float(part.bounding_box()[2])
    vertices, faces = arrays(half_space(rest, 2, floor, True))
    if len(faces) == 0:
        return Hold(0.0, np.zeros(3), 0.0)
    normals, z = face_normals(vertices, faces), vertices[faces][:, :, 2]
    near = NEAR * float(np.ptp(vertices))
    tilt = normals[:, 2] / np.maximum(np.linalg.norm(normals, axis=1), np.finfo(float).tiny)
    slides = float(np.max(np.ptp(z, axis=1), where=np.abs(tilt) <= TILT, initial=0.0))
    looks_back = (tilt < -TILT) & (z.max(axis=1) > floor + near)
    levels, which = np.unique((z.min(axis=1)[looks_back] / near).round(), return_inverse=True)
    largest = np.argsort(np.bincount(which, normals[looks_back, 2], len(levels)))[:LEVELS]
    deepest, place = 0.0, np.zeros(3)
    for level in np.maximum((levels[largest] - 1.0) * near, floor + near):
        shadow = half_space(rest, 2, level, True).project()
        region = part.slice(level) ^ shadow
        least, most = deepest, 0.5 * float(np.ptp(np.reshape(shadow.bounds(), (2, 2)), axis=0).min())
        while most - least > near:
            depth = 0.5 * (least + most)
            inner = region ^ shadow.offset(-depth, circular_segments=64)
            if inner.is_empty():
                most = depth
            else:
                least = deepest = depth
                place = turn @ np.append(inner.to_polygons()[0][0], level)
    return Hold(deepest, place, slides)


def undercut(vertices: Floats, faces: Any, axis: int, height: float) -> float:
    """Area [m^2], projected along an axis, of faces that hold one of two mould halves that part at a height [m].

    Above the plane faces that look down hold the upper half, below it those that look up the lower one.
    """
    normals = face_normals(vertices, faces)
    size = np.linalg.norm(normals, axis=1)
    along = normals[:, axis] / np.maximum(size, np.finfo(float).tiny)
    z = vertices[faces][:, :, axis]
    low, high = z.min(axis=1), z.max(axis=1)
    above = np.clip((high - height) / np.maximum(high - low, np.finfo(float).tiny), 0.0, 1.0)
    near = NEAR * float(np.ptp(vertices))
    above = np.where(high - height < near, 0.0, above)
    below = np.where(height - low < near, 0.0, 1.0 - above)
    return float((0.5 * np.abs(normals[:, axis]) * ((along < -TILT) * above + (along > TILT) * below)).sum())


def is_free(solid: Any, axis: int, height: float) -> bool:
    """Whether nothing but the rounding of facets holds two mould halves that part at a height [m]."""
    vertices, faces = arrays(solid)
    return undercut(vertices, faces, axis, height) <= HOLDS * float(np.prod(np.delete(np.ptp(vertices, axis=0), axis)))


def partings(solid: Any, axes: Sequence[int]) -> list[Parting]:
    """Return the plane across each of some axes that is held least, the best first; of equals the one with the lowest halves."""
    heights = 60  # planes tried along each axis
    vertices, faces = arrays(solid)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    best = []
    for axis in axes:
        middle, found = 0.5 * (low[axis] + high[axis]), []
        levels = np.unique(np.append(vertices[:, axis].round(9), middle))
        if len(levels) > heights:
            levels = np.unique(np.append(np.quantile(levels, np.linspace(0, 1, heights)), middle))
        across = float(np.prod(np.delete(high - low, axis)))
        for height in levels:
            held = max(undercut(vertices, faces, axis, float(height)) / across - HOLDS, 0.0)
            deep = max(height - low[axis], high[axis] - height)
            found.append((round(held, 9), round(deep, 9), axis, float(height)))
        best.append(min(found))
    return [Parting(axis, height) for *_, axis, height in sorted(best, key=lambda item: item[:2])]


def lid_planes(chambers: Sequence[Any]) -> list[tuple[int, float, float]]:
    """Axis, sense and height [m] of planes from which the cores of all chambers stand up and leave by being drawn off.

    The chambers begin at the plane, and no face of theirs beyond looks back to it. The shallowest cavities come first.
    """
    parts = [arrays(c) for c in chambers]
    everything = np.vstack([v for v, _ in parts])
    size = np.ptp(everything, axis=0)
    found = []
    for axis, sense in product((2, 1, 0), (1.0, -1.0)):
        mirror = np.where(np.arange(3) == axis, sense, 1.0)
        height = float((sense * everything[:, axis]).min())
        held = sum(undercut(mirror * v, f[:, :: int(sense)], axis, height) for v, f in parts)
        if held <= HOLDS * float(np.prod(np.delete(size, axis))):
            found.append((axis, sense, sense * height))
    return sorted(found, key=lambda plane: float(size[plane[0]]))
