"""Closes the inlets of chambers: a bore that runs through the skin is capped by a wall, so that the chamber can hold pressure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from geosim.collision.queries import closest_points
from geosim.collision.tree import build_tree
from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import place
from geosim.geometry.imprint import CUT_NOISE, as_manifold, of_manifold
from geosim.geometry.surface import Surface
from geosim.geometry.widths import next_along, unit_normals

OUT = 1e-9  # of the chamber's volume: less beyond the skin is rounding
ON_SKIN = 1e-6  # of the diagonal: vertices of the piece beyond the skin that lie on it are its rim
BEYOND = 0.1  # of a cap's thickness that it reaches out of the skin


def capped(bodies: Sequence[Surface], chamber: Surface) -> Surface:
    """Return a checked chamber that ends inside the skin, and a notice of where it was closed; the same one if it does already.

    The cap is as thick as the wall of the chamber is elsewhere, in the median over its area.

    Raises
    ------
    InputError
        Nothing of the chamber is left inside the skin.
    """
    skin = reduce(lambda a, b: a + b, [as_manifold(b.vertices, outer(b)) for b in bodies])
    solid = as_manifold(chamber.vertices, chamber.faces)
    beyond = solid - skin
    if beyond.volume() <= OUT * solid.volume():
        return chamber
    vertices, faces = of_manifold(skin, bodies[0].diagonal)
    wall, said = _wall(chamber, vertices, faces), []
    inside = solid ^ skin
    for piece in beyond.decompose():
        if piece.volume() > OUT * solid.volume():
            cap, across, middle = _cap(piece, vertices, faces, wall, bodies[0].diagonal)
            inside = inside - cap
            said.append(f"{across * 1e3:.3g} mm wide near {place(middle)}")
    kept = max(inside.decompose(), key=lambda piece: piece.volume(), default=None)
    if kept is None or kept.volume() <= OUT * solid.volume():
        raise InputError(f"{chamber.label}: nothing of it lies inside the body; check its position, units and origin")
    diagonal = bodies[0].diagonal
    points, triangles = of_manifold(kept, diagonal, CUT_NOISE)
    notice = f"{chamber.label}: its inlet {' and '.join(said)} is closed by a wall of {wall * 1e3:.3g} mm"
    return replace(chamber, vertices=points, faces=triangles, notices=(*chamber.notices, notice))


def outer(body: Surface) -> np.ndarray:
    """Triangles (m, 3) of the shells of a body that bound no cavity."""
    shell = shells.shell_ids(body.faces)
    return np.asarray(body.faces[(shells.nesting(body.vertices, body.faces, shell) == 0)[shell]])


def _wall(chamber: Surface, vertices: np.ndarray, faces: np.ndarray) -> float:
    """Median distance [m] from the chamber's faces outward to the skin."""
    no_wall = 0.02  # of a chamber's diagonal: the cap's thickness where no face has the skin across
    ways, size = unit_normals(chamber.vertices, chamber.faces)
    centres = chamber.vertices[chamber.faces].mean(axis=1)
    lengths, _ = next_along(centres, ways, vertices, faces)
    inside = shells.winding_numbers(centres, vertices, faces) > 0.5
    seen = np.flatnonzero(inside & np.isfinite(lengths))
    if len(seen) == 0:
        return no_wall * chamber.diagonal
    seen = seen[np.argsort(lengths[seen])]
    share = np.cumsum(size[seen])
    return float(lengths[seen[np.searchsorted(share, 0.5 * share[-1])]])


def _cap(
    piece: Any, vertices: np.ndarray, faces: np.ndarray, wall: float, diagonal: float
) -> tuple[Any, float, np.ndarray]:
    """What closes the bore behind a piece beyond the skin (manifold3d); how wide the bore is [m], and its middle [m] (3,)."""
    wider = 1.05  # a cap over its bore, so that the two share no wall
    points, _ = of_manifold(piece, diagonal)
    near, face, _ = closest_points(points, vertices, build_tree(vertices, faces))
    rim = points[np.linalg.norm(points - near, axis=1) < ON_SKIN * diagonal]
    on_skin = face[np.linalg.norm(points - near, axis=1) < ON_SKIN * diagonal]
    normals, _ = unit_normals(vertices, faces[np.unique(on_skin)])
    # The skin across the bore: of the faces round the rim those that look the way the piece goes.
    way = points.mean(axis=0) - rim.mean(axis=0)
    out = normals[np.argmax(normals @ way)]
    middle = rim.mean(axis=0)
    wide = middle + wider * (rim - middle)
    hull = type(piece).hull_points(np.vstack([wide + BEYOND * wall * out, wide - wall * out]))
    return hull, float(np.linalg.norm(rim[:, None] - rim[None], axis=2).max()), middle
