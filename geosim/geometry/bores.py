"""Cavities that bores open to the outside, as printed actuators have them: found, and the bores closed by plugs.

On a grid, the outside is where a ball comes to that cannot pass a bore; what air it leaves is cavity or bore. Bores are where
what the smallest such ball leaves meets the outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy

from geosim.arrays import axes_along
from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import place
from geosim.geometry.imprint import CUT_NOISE, as_manifold, of_manifold
from geosim.geometry.surface import Surface, check_surface
from geosim.geometry.widths import unit_normals
from geosim.kernels import kernel

GRID_CELLS = 160  # along the diagonal of a body
LEAST_CAVITY_REL = 0.01  # of the volume of the body: smaller pockets are no cavities
MAX_BORE_REL = 0.15  # of the diagonal: wider openings are a matter of design


@dataclass(frozen=True)
class Bore:
    """A passage to a cavity: where it meets the skin (3,) [m], its unit axis outward (3,), radius [m], and the void [m^3].

    `bend` [m] is the depth of its rim along the axis, 0 where the skin is flat.
    """

    mouth: np.ndarray
    axis: np.ndarray
    radius: float
    void: float
    bend: float

    def __str__(self) -> str:
        return f"a bore {2e3 * self.radius:.3g} mm wide near {place(self.mouth)} (cavity of {self.void * 1e9:.4g} mm^3)"


def bores(body: Surface) -> list[Bore]:
    """Return the bores through which cavities of a checked body are open, none where there is no such cavity."""
    ball_sizes = 14  # each a fifth larger than the last
    step = body.diagonal / GRID_CELLS
    margin = (0.5 * MAX_BORE_REL * GRID_CELLS + 2.5) * step  # in which the largest ball finds room beside the body
    low = body.vertices.min(axis=0) - margin
    count = np.ceil((np.ptp(body.vertices, axis=0) + 2.0 * margin) / step).astype(int)
    solid = np.zeros(tuple(count), dtype=np.int8)
    _toggle(body.vertices[body.faces], low, step, solid)
    parts, _ = scipy.ndimage.label(np.cumsum(solid, axis=0) % 2 == 0)
    air = parts == parts[0, 0, 0]  # sealed cavities have no bores
    away = scipy.ndimage.distance_transform_edt(air)
    known, found = np.zeros_like(air), []
    for radius in np.geomspace(1.0, 0.5 * MAX_BORE_REL * GRID_CELLS, ball_sizes):
        label, _ = scipy.ndimage.label(away > radius)
        outside = label[0, 0, 0]
        reached = scipy.ndimage.distance_transform_edt(label != outside) <= radius
        left, _ = scipy.ndimage.label(air & ~reached)
        size = np.bincount(left.ravel())
        for k in np.flatnonzero(size * step**3 > LEAST_CAVITY_REL * body.volume):
            void = left == k
            if k > 0 and not (void & known).any():
                more = _of_void(body, void, reached, radius, low, step)
                known |= void if more else False
                found += more
    return found


def _of_void(
    body: Surface, void: np.ndarray, reached: np.ndarray, radius: float, low: np.ndarray, step: float
) -> list[Bore]:
    """Bores of a void on the grid: where it meets the outside; none where it meets it over much of its surface, as slots do."""
    # of the cells on the surface of the void; and width of a mouth over the radius of the ball, beyond which it is a slot
    max_open_share, max_mouth = 0.1, 2.5
    wall_widths, max_along_cosine = 1.7, 0.5  # its wall, over the radius; cosine between its normals and its axis
    block = np.ones((3, 3, 3))
    mouths = void & scipy.ndimage.binary_dilation(reached, block)
    if mouths.sum() > max_open_share * (void & ~scipy.ndimage.binary_erosion(void)).sum():
        return []
    patch, count = scipy.ndimage.label(mouths, block)
    for k, spans in enumerate(scipy.ndimage.find_objects(patch)):
        cells = np.argwhere(patch == k + 1)
        hollow = np.linalg.norm(cells - cells.mean(axis=0), axis=1).min() > 0.5 * radius  # a ring round another opening
        if hollow or max(s.stop - s.start for s in spans) > max_mouth * (radius + 1.0):
            return []
    places, out = low + (np.argwhere(void) + 0.5) * step, []
    normals, area = unit_normals(body.vertices, body.faces)
    corners = body.vertices[body.faces]
    for k in range(1, count + 1):
        mouth = low + (np.argwhere(patch == k).mean(axis=0) + 0.5) * step
        behind = places[np.linalg.norm(places - mouth, axis=1) < 2.0 * (radius + 1.0) * step].mean(axis=0)
        axis = _unit(mouth - behind)
        # its wall: triangles along the passage, whose normals are across it
        for _ in range(2):
            along, across = (corners - behind) @ axis, np.cross(corners - mouth, axis)
            near = np.linalg.norm(across, axis=2).max(axis=1) < wall_widths * (radius + 1.0) * step
            near &= (
                (along.max(axis=1) > 0.0)
                & (along.min(axis=1) < 3.0 * (radius + 1.0) * step)
                & (np.abs(normals @ axis) < max_along_cosine)
            )
            if not near.any():
                break
            _, ways = np.linalg.eigh(np.einsum("f,fi,fj->ij", area[near], normals[near], normals[near]))
            axis = ways[:, 0] * np.sign(ways[:, 0] @ axis)
        rim = corners[near].reshape(-1, 3)
        if len(rim) < 3:
            continue
        centre = 0.5 * (rim.min(axis=0) + rim.max(axis=0))
        off = rim - centre
        wide = float(np.linalg.norm(off - np.outer(off @ axis, axis), axis=1).max())
        high = off @ axis
        bend = float(high.max() - high[high > 0.0].min())
        out.append(Bore(centre + axis * float(high.max()), axis, wide, float(void.sum()) * step**3, bend))
    return out


def plugged(body: Surface, depth: float) -> Surface:
    """Return a checked body whose bores are closed, at the skin or at a depth [m], and a notice; the same without bores.

    Raises
    ------
    InputError
        A plug does not close its bore.
    """
    # A plug over its bore, so that the two share no wall. It is flush with a flat skin (rims deeper than the second, over the
    # radius, are bent); below a bent one it lies so deep, over its thickness, that no thin step is left.
    wider, flat_rim, sunk_below_bent = 1.1, 1e-3, 0.25
    closed_share = 0.8  # of the voids that were found, what must be enclosed at least
    found = bores(body)
    if not found:
        return body
    from manifold3d import Manifold

    solid = as_manifold(body.vertices, body.faces)
    for bore in found:
        thickness = bore.radius
        sunk = 0.0 if bore.bend < flat_rim * bore.radius else bore.bend + sunk_below_bent * thickness
        start = bore.mouth - (max(depth, sunk) + thickness) * bore.axis
        pose = np.column_stack([axes_along(bore.axis), start])
        solid = solid + Manifold.cylinder(thickness, wider * bore.radius, circular_segments=24).transform(pose)
    vertices, faces = of_manifold(solid, body.diagonal, CUT_NOISE)
    names = " and ".join(str(bore) for bore in found)
    where = f"{depth * 1e3:.3g} mm below the skin" if depth > 0.0 else "at the skin"
    notice = f"{body.label}: {names} closed {where}"
    made = check_surface(
        replace(body, vertices=vertices, faces=faces, notices=(*body.notices, notice)), allow_any_size=True
    )
    if _hollow(made) - _hollow(body) < closed_share * sum({bore.void for bore in found}):
        remedy = "give a smaller inlet_depth" if depth > 0.0 else "close it in the CAD program"
        raise InputError(f"{body.label}: {names} could not be closed {where}; {remedy}")
    return made


def _hollow(body: Surface) -> float:
    """Volume [m^3] of the inner shells of a checked body."""
    shell = shells.shell_ids(body.faces)
    depth = shells.nesting(body.vertices, body.faces, shell)
    inner = body.faces[(depth % 2 == 1)[shell]]
    return -shells.signed_volume(body.vertices, inner) if len(inner) else 0.0


def _unit(way: np.ndarray) -> np.ndarray:
    return way / max(float(np.linalg.norm(way)), np.finfo(float).tiny)


@kernel
def _toggle(corners, low, step, out):
    """Mark in each column along x the cells in which triangles are crossed, as often as they are."""
    for f in range(len(corners)):
        a, b, c = corners[f, 0], corners[f, 1], corners[f, 2]
        first_y = int(np.floor((min(a[1], b[1], c[1]) - low[1]) / step - 0.5))
        last_y = int(np.ceil((max(a[1], b[1], c[1]) - low[1]) / step - 0.5))
        first_z = int(np.floor((min(a[2], b[2], c[2]) - low[2]) / step - 0.5))
        last_z = int(np.ceil((max(a[2], b[2], c[2]) - low[2]) / step - 0.5))
        area = (b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1])
        if area == 0.0:
            continue
        for j in range(first_y, last_y + 1):
            for k in range(first_z, last_z + 1):
                # a place off all symmetric lines, so that no edge is met
                y, z = low[1] + (j + 0.5 + 1.234e-4) * step, low[2] + (k + 0.5 + 2.345e-4) * step
                u = ((b[1] - y) * (c[2] - z) - (b[2] - z) * (c[1] - y)) / area
                v = ((c[1] - y) * (a[2] - z) - (c[2] - z) * (a[1] - y)) / area
                if u >= 0.0 and v >= 0.0 and u + v <= 1.0:
                    x = u * a[0] + v * b[0] + (1.0 - u - v) * c[0]
                    i = int(np.ceil((x - low[0]) / step - 0.5))
                    out[i, j, k] += 1
