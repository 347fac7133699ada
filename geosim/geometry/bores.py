"""Cavities that bores open to the outside, as printed actuators have them: found, and the bores closed by plugs.

On a grid, the outside is where a ball comes to that cannot pass a bore; what air it leaves is cavity or bore. The smallest ball
that leaves a cavity tells the bores: the passages between the air that is left far from walls and the outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.ndimage

from geosim.errors import InputError
from geosim.geometry import shells
from geosim.geometry.holes import place
from geosim.geometry.imprint import as_manifold, of_manifold
from geosim.geometry.simplify import collapsed
from geosim.geometry.surface import Surface, check_surface
from geosim.geometry.widths import unit_normals
from geosim.kernels import kernel

GRID_CELLS = 160  # along the diagonal of a body
LEAST_CAVITY_REL = 0.01  # of the volume of the body: smaller pockets are no cavities
MAX_BORE_REL = 0.1  # of the diagonal: wider openings are a matter of design
CUT_NOISE = 1e-5  # of the diagonal: slivers so flat are left by a cut


@dataclass(frozen=True)
class Bore:
    """A passage to a cavity: where it meets the skin (3,) [m], its unit axis outward (3,), radius [m], and the void [m^3]."""

    mouth: np.ndarray
    axis: np.ndarray
    radius: float
    void: float

    def __str__(self) -> str:
        return f"a bore {2e3 * self.radius:.3g} mm wide near {place(self.mouth)} (cavity of {self.void * 1e9:.4g} mm^3)"


def bores(body: Surface) -> list[Bore]:
    """Return the bores through which cavities of a checked body are open, none where there is no such cavity."""
    step = body.diagonal / GRID_CELLS
    low = body.vertices.min(axis=0) - 3.5 * step
    count = np.ceil((np.ptp(body.vertices, axis=0) + 7.0 * step) / step).astype(int)
    solid = np.zeros(tuple(count), dtype=np.int8)
    _toggle(body.vertices[body.faces], low, step, solid)
    air = np.cumsum(solid, axis=0) % 2 == 0
    away = scipy.ndimage.distance_transform_edt(air)
    known, found = np.zeros_like(air), []
    for radius in np.arange(1.0, MAX_BORE_REL * GRID_CELLS / 2.0, 0.5):
        label, _ = scipy.ndimage.label(away > radius)
        outside = label[0, 0, 0]
        reached = scipy.ndimage.distance_transform_edt(label != outside) <= radius
        left, _ = scipy.ndimage.label(air & ~reached)
        inner = (label > 0) & (label != outside)
        size = np.bincount(left.ravel())
        for k in np.unique(left[inner]):
            void = left == k
            if k > 0 and size[k] * step**3 > LEAST_CAVITY_REL * body.volume and not (void & known).any():
                more = _of_void(body, void, inner, reached, radius, low, step)
                known |= void if more else False
                found += more
    return found


def _of_void(
    body: Surface, void: np.ndarray, inner: np.ndarray, reached: np.ndarray, radius: float, low: np.ndarray, step: float
) -> list[Bore]:
    """Bores of a void on the grid: what of it no ball from inside reaches, beside the outside."""
    volume = float(void.sum()) * step**3
    wall_widths, max_along_cosine = 1.7, 0.5  # its wall, over the radius; cosine between its normals and its axis
    core = scipy.ndimage.distance_transform_edt(~(inner & void)) <= radius + 1.0
    passage, count = scipy.ndimage.label(void & ~core, np.ones((3, 3, 3)))
    beside = scipy.ndimage.binary_dilation(reached, np.ones((3, 3, 3)))
    out = []
    normals, area = unit_normals(body.vertices, body.faces)
    corners, within = body.vertices[body.faces], scipy.ndimage.binary_dilation(core, np.ones((3, 3, 3)))
    for k in range(1, count + 1):
        mine = passage == k
        if not (mine & beside).any() or not (mine & within).any():
            continue
        cells = [low + (np.argwhere(mine & next_to).mean(axis=0) + 0.5) * step for next_to in (within, beside)]
        axis = _unit(cells[1] - cells[0])
        # its wall: triangles along the passage, whose normals are across it
        for _ in range(2):
            along, across = (corners - cells[0]) @ axis, np.cross(corners - cells[0], axis)
            near = np.linalg.norm(across, axis=2).max(axis=1) < wall_widths * (radius + 1.0) * step
            near &= (along.max(axis=1) > 0.0) & (np.abs(normals @ axis) < max_along_cosine)
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
        out.append(Bore(centre + axis * float((off @ axis).max()), axis, wide, volume))
    return out


def plugged(body: Surface, depth: float) -> Surface:
    """Return a checked body whose bores are closed, at the skin or at a depth [m], with a notice for each; the same without bores.

    Raises
    ------
    InputError
        A plug does not close its bore.
    """
    wider, sunk = (
        1.1,
        0.02,
    )  # a plug over its bore, so that the two share no wall; and how deep it lies over its thickness
    found = bores(body)
    if not found:
        return body
    from manifold3d import Manifold

    solid, before = (
        as_manifold(body.vertices, body.faces),
        len(shells.nesting(body.vertices, body.faces, shells.shell_ids(body.faces))),
    )
    for bore in found:
        thickness = bore.radius
        z = bore.axis
        x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
        x /= np.linalg.norm(x)
        start = bore.mouth - (depth + (1.0 + sunk) * thickness) * z
        pose = np.column_stack([x, np.cross(z, x), z, start])
        solid = solid + Manifold.cylinder(thickness, wider * bore.radius, circular_segments=24).transform(pose)
    vertices, faces = collapsed(*of_manifold(solid, body.diagonal), CUT_NOISE * body.diagonal, np.inf)
    names = " and ".join(str(bore) for bore in found)
    where = f"{depth * 1e3:.3g} mm below the skin" if depth > 0.0 else "at the skin"
    notice = f"{body.label}: {names} closed {where}"
    made = check_surface(
        replace(body, vertices=vertices, faces=faces, notices=(*body.notices, notice)), allow_any_size=True
    )
    if int(shells.shell_ids(made.faces).max()) + 1 < before + len({bore.void for bore in found}):
        remedy = "give a smaller inlet_depth" if depth > 0.0 else "close it in the CAD program"
        raise InputError(f"{body.label}: {names} could not be closed {where}; {remedy}")
    return made


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
