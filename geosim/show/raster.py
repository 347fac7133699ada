"""Draws shaded triangle surfaces into an image with a depth buffer: pictures need no display and no graphics driver.

Steps: project along the view direction (parallel projection), find for every pixel the nearest triangle and the
barycentric coordinates in it, interpolate normal and colour, light them, blend ghosts over what lies behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.kernels import kernel

__all__ = ["Camera", "Layer", "camera_for", "draw"]

CREASE = np.cos(np.radians(35.0))  # sharper edges keep their facets
LIGHT = np.array([-0.45, 0.65, 0.75])  # right, up, towards the eye
SAMPLES = 2  # squared is the number of samples a pixel


@dataclass(frozen=True)
class Layer:
    """A surface to draw.

    Parameters
    ----------
    points, triangles
        Positions [m] (p, 3) and vertex ids (t, 3).
    colors
        RGB in 0..1 at the points (p, 3), or one for all (3,).
    opacity
        1 hides what is behind.
    """

    points: Floats
    triangles: Ints
    colors: Floats
    opacity: float = 1.0


@dataclass(frozen=True)
class Camera:
    """A parallel projection: rows of `axes` are right, up and towards the eye; `center` and `extent` in metres.

    `extent` is (width, height) of what the image shows.
    """

    axes: Floats
    center: Floats
    extent: tuple[float, float]

    def project(self, points: Floats) -> Floats:
        """Coordinates to the right, upwards and towards the eye [m], shape (n, 3)."""
        return (points - self.center) @ self.axes.T


def camera_for(
    points: Floats, moved: Floats, up: Any = (0.0, 0.0, 1.0), aspect: float = 1.5, margin: float = 1.12
) -> Camera:
    """Return the camera that shows where a motion happens: nearly square to the plane of the motion, seen from above.

    Parameters
    ----------
    points
        Everything that must be in the image [m], shape (n, 3).
    moved
        Positions that span the motion [m], shape (m, 3).
    up
        What should point upwards in the image.
    aspect
        Width over height of the image.
    margin
        How much larger than the contents the image is.
    """
    up = np.asarray(up, dtype=float)
    up = up / np.linalg.norm(up)
    centred = moved - moved.mean(axis=0)
    spread, directions = np.linalg.eigh(centred.T @ centred)
    normal = directions[:, 0]  # least motion
    if spread[2] < 2.0 * spread[0] or abs(normal @ up) > 0.9:  # no plane of motion, or one that is seen from above
        normal = np.array([0.4, -1.0, 0.1]) if abs(up[2]) > 0.5 else np.array([0.3, 0.2, 1.0])
    usual = np.array([0.35, -1.0, 0.25])
    normal = normal - (normal @ up) * up
    normal /= np.linalg.norm(normal)
    normal = normal if normal @ usual >= 0 else -normal
    side = np.cross(up, normal)
    eye = normal + 0.32 * up + 0.38 * side
    eye /= np.linalg.norm(eye)
    right = np.cross(up, eye)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(eye, right), eye])
    flat = points @ axes.T
    lower, upper = flat.min(axis=0), flat.max(axis=0)
    width, height = (upper - lower)[:2]
    height = margin * max(height, width / aspect, 1e-9)
    return Camera(axes, axes.T @ (0.5 * (lower + upper)), (aspect * height, height))


def draw(layers: Sequence[Layer], camera: Camera, size: tuple[int, int]) -> Floats:
    """Return an RGB image (height, width, 3) in 0..1 on white; `size` is (width, height) in pixels."""
    width, height = size[0] * SAMPLES, size[1] * SAMPLES
    image, nearest = np.ones((height, width, 3)), np.full((height, width), -np.inf)
    gap = 40.0 * camera.extent[0] / width  # surfaces this close count as one
    for layer in sorted(layers, key=lambda item: -item.opacity):
        pixels, shade, depth = _shaded(layer, camera, width, height)
        outline = _outline(depth, gap)[pixels]
        if layer.opacity == 1.0:
            alpha = np.where(depth[pixels] > nearest[pixels], 1.0, 0.0)
            nearest = np.maximum(nearest, depth)
        else:  # a ghost fills only what is empty; its outline is seen everywhere, fainter behind a surface
            empty = np.isneginf(nearest[pixels])
            line = outline * np.where(depth[pixels] > nearest[pixels] + gap, 0.55, 0.3)
            alpha = np.maximum(layer.opacity * empty, line)
        shade[outline] *= 0.35
        image[pixels] += alpha[:, None] * (shade - image[pixels])
    return image.reshape(size[1], SAMPLES, size[0], SAMPLES, 3).mean(axis=(1, 3))


def _shaded(layer: Layer, camera: Camera, width: int, height: int) -> tuple[Any, Floats, Floats]:
    """The pixels that the surface covers, their lit colours (q, 3), and the depth (height, width), -inf elsewhere."""
    flat = camera.project(layer.points)
    pixels = np.stack(
        [(flat[:, 0] / camera.extent[0] + 0.5) * width, (0.5 - flat[:, 1] / camera.extent[1]) * height, flat[:, 2]],
        axis=1,
    )
    triangles = np.ascontiguousarray(layer.triangles)
    ids, weights, depth = _rasterise(np.ascontiguousarray(pixels), triangles, width, height)
    rows, cols = np.nonzero(ids >= 0)
    colors = np.ascontiguousarray(np.broadcast_to(layer.colors, (len(layer.points), 3)), dtype=float)
    light = LIGHT / np.linalg.norm(LIGHT)
    half = (light + np.array([0.0, 0.0, 1.0])) / np.linalg.norm(light + np.array([0.0, 0.0, 1.0]))
    lit = _lit(rows, cols, ids, weights, _corner_normals(flat, triangles), colors, triangles, light, half)
    return (rows, cols), lit, depth


def _corner_normals(points: Floats, triangles: Ints) -> Floats:
    """Unit normals at the corners of every triangle (t, 3, 3): smooth, but creases keep their facets."""
    a, b, c = (points[triangles[:, i]] for i in range(3))
    area = np.cross(b - a, c - a)
    smooth = np.zeros((len(points), 3))
    for i in range(3):
        smooth += np.stack([np.bincount(triangles[:, i], area[:, d], len(points)) for d in range(3)], axis=1)
    unit = lambda v: v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300)  # noqa: E731
    flat, round_ = unit(area)[:, None], unit(smooth)[triangles]
    return np.where((flat * round_).sum(axis=2, keepdims=True) > CREASE, round_, np.broadcast_to(flat, round_.shape))


def _outline(depth: Floats, gap: float) -> Any:
    """Pixels at the near side of a jump in depth of more than `gap` [m]: silhouettes."""
    edge = np.zeros(depth.shape, dtype=bool)
    solid = np.where(np.isfinite(depth), depth, -1e9)
    for axis in (0, 1):
        step = np.diff(solid, axis=axis)
        near, far = [slice(None), slice(None)], [slice(None), slice(None)]
        near[axis], far[axis] = slice(1, None), slice(None, -1)
        edge[tuple(near)] |= step > gap
        edge[tuple(far)] |= step < -gap
    return edge & np.isfinite(depth)


@kernel
def _rasterise(pixels, triangles, width, height):
    """Nearest triangle of every pixel (-1: none), its barycentric weights and the depth (larger is nearer)."""
    ids = np.full((height, width), -1, dtype=np.int64)
    weights = np.zeros((height, width, 3))
    depth = np.full((height, width), -np.inf)
    for t in range(len(triangles)):
        ax, ay, az = pixels[triangles[t, 0]]
        bx, by, bz = pixels[triangles[t, 1]]
        cx, cy, cz = pixels[triangles[t, 2]]
        twice = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if twice == 0.0:
            continue
        left, right = max(int(np.floor(min(ax, bx, cx))), 0), min(int(np.ceil(max(ax, bx, cx))), width - 1)
        top, bottom = max(int(np.floor(min(ay, by, cy))), 0), min(int(np.ceil(max(ay, by, cy))), height - 1)
        for row in range(top, bottom + 1):
            y = row + 0.5
            for col in range(left, right + 1):
                x = col + 0.5
                u = ((bx - x) * (cy - y) - (cx - x) * (by - y)) / twice
                v = ((cx - x) * (ay - y) - (ax - x) * (cy - y)) / twice
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                z = u * az + v * bz + w * cz
                if z > depth[row, col]:
                    depth[row, col] = z
                    ids[row, col] = t
                    weights[row, col, 0] = u
                    weights[row, col, 1] = v
                    weights[row, col, 2] = w
    return ids, weights, depth


@kernel
def _lit(rows, cols, ids, weights, normals, colors, triangles, light, half):
    """Lit colours (q, 3) of covered pixels, from the normals at the corners (t, 3, 3) and the colours of points (p, 3)."""
    out = np.empty((len(rows), 3))
    for q in range(len(rows)):
        t, w = ids[rows[q], cols[q]], weights[rows[q], cols[q]]
        x, y, z = 0.0, 0.0, 0.0
        for k in range(3):
            x, y, z = x + w[k] * normals[t, k, 0], y + w[k] * normals[t, k, 1], z + w[k] * normals[t, k, 2]
        side = (-1.0 if z < 0.0 else 1.0) / max(np.sqrt(x * x + y * y + z * z), 1e-300)  # the side that is seen
        x, y, z = side * x, side * y, side * z
        diffuse = max(x * light[0] + y * light[1] + z * light[2], 0.0)
        gloss = 0.18 * max(x * half[0] + y * half[1] + z * half[2], 0.0) ** 40
        for d in range(3):
            color = 0.0
            for k in range(3):
                color += w[k] * colors[triangles[t, k], d]
            out[q, d] = min(max(color * (0.48 + 0.55 * diffuse + 0.10 * z) + gloss, 0.0), 1.0)
    return out
