"""Draws shaded triangle surfaces into an image with a depth buffer: pictures need no display and no graphics driver.

Steps: project along the view direction (parallel projection), and find the nearest triangle of every pixel with its
barycentric coordinates. Interpolate normal and colour, light them, and blend ghosts over the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arrays import MIN_DIVISOR, Floats, Ints
from geosim.kernels import kernel

LIGHT_DIRECTION = np.array([-0.45, 0.65, 0.75])  # right, up, towards the eye
SAMPLES_PER_SIDE = 2  # squared is the number of samples a pixel


@dataclass(frozen=True)
class RasterLayer:
    """A surface to draw.

    Parameters
    ----------
    points, triangles
        Positions [m] (p, 3) and vertex ids (t, 3).
    colors
        RGB in 0..1 at the points (p, 3), or one for all (3,).
    opacity
        1 hides what is behind.
    ghost
        Whether it is drawn only where no opaque surface is, neither before nor behind it.
    """

    points: Floats
    triangles: Ints
    colors: Floats
    opacity: float = 1.0
    ghost: bool = False


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


def camera_for(points: Floats, moved: Floats, aspect: float, up: Any = (0.0, 0.0, 1.0)) -> Camera:
    """Return the camera that shows where a motion happens: nearly square to the plane of the motion, seen from above.

    Parameters
    ----------
    points
        Everything that must be in the image [m], shape (n, 3).
    moved
        Positions that span the motion [m], shape (m, 3).
    aspect
        Width over height of the image.
    up
        What should point upwards in the image.
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
    margin = 1.12  # of the image over its contents
    height = margin * max(height, width / aspect, 1e-9)
    return Camera(axes, axes.T @ (0.5 * (lower + upper)), (aspect * height, height))


def draw(
    layers: Sequence[RasterLayer], camera: Camera, size: tuple[int, int], paper: Any = (1, 1, 1), ink: Any = (0, 0, 0)
) -> Any:
    """Return an RGB image (height, width, 3), float32, in 0..1; `size` is (width, height) in pixels.

    `paper` is the background; outlines are drawn towards `ink`.
    """
    width, height = size[0] * SAMPLES_PER_SIDE, size[1] * SAMPLES_PER_SIDE
    places = [_places(layer, camera, width, height) for layer in layers]
    top, bottom, left, right = (SAMPLES_PER_SIDE * side for side in _box(places, size))
    image: Any = np.full((bottom - top, right - left, 3), paper, dtype=np.float32)
    nearest = np.full(image.shape[:2], -np.inf)
    gap = 40.0 * camera.extent[0] / width  # surfaces this close count as one
    light = LIGHT_DIRECTION / np.linalg.norm(LIGHT_DIRECTION)
    half = (light + np.array([0.0, 0.0, 1.0])) / np.linalg.norm(light + np.array([0.0, 0.0, 1.0]))
    outlines = np.asarray(ink, dtype=float)
    for number in sorted(range(len(layers)), key=lambda n: -layers[n].opacity):
        layer, pixels = layers[number], places[number] - (left, top, 0.0)
        triangles = np.ascontiguousarray(layer.triangles)
        colors = np.ascontiguousarray(np.broadcast_to(layer.colors, (len(layer.points), 3)), dtype=float)
        normals = _corner_normals(camera.project(layer.points), triangles)
        ids, depth = _rasterise(pixels, triangles, image.shape[:2])
        seen = pixels, triangles, ids, depth, normals, colors
        _blend(image, nearest, seen, (light, half, gap), (layer.opacity, layer.ghost, outlines))
    out, n = np.full((size[1], size[0], 3), paper, dtype=np.float32), SAMPLES_PER_SIDE
    out[top // n : bottom // n, left // n : right // n] = (
        sum(image[i::n, j::n] for i in range(n) for j in range(n)) / n**2
    )
    return out


def _places(layer: RasterLayer, camera: Camera, width: int, height: int) -> Floats:
    """Where the points of a layer are: column, row, and depth [m] towards the eye, shape (p, 3)."""
    flat = camera.project(layer.points)
    across, down = flat[:, 0] / camera.extent[0] + 0.5, 0.5 - flat[:, 1] / camera.extent[1]
    return np.ascontiguousarray(np.stack([across * width, down * height, flat[:, 2]], axis=1))


def _box(places: Sequence[Floats], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """First row, last, first column, last (not in it) of the pixels that any layer covers and of those around them."""
    sides: list[int] = []
    for axis, most in ((1, size[1]), (0, size[0])):
        along = np.concatenate([np.zeros(0), *(p[:, axis] for p in places)]) / SAMPLES_PER_SIDE
        ends = [along.min(initial=most) - 1.0, along.max(initial=0.0) + 2.0]
        low, high = np.clip(np.floor(ends), 0, most).astype(int).tolist()
        sides += [low, max(low, high)]
    return sides[0], sides[1], sides[2], sides[3]


def _corner_normals(points: Floats, triangles: Ints) -> Floats:
    """Unit normals at the corners of every triangle (t, 3, 3), split where surfaces meet at an edge.

    A corner takes the mean, by area, of the triangles around its point whose normals are within `crease` of its own.
    """
    crease = np.radians(35.0)  # sharper edges stay sharp; coarse round walls turn by less from face to face
    a, b, c = (points[triangles[:, i]] for i in range(3))
    area = np.cross(b - a, c - a)
    flat = area / np.maximum(np.linalg.norm(area, axis=1, keepdims=True), MIN_DIVISOR)
    order = np.argsort(triangles, axis=None, kind="stable")
    starts = np.searchsorted(triangles.ravel()[order], np.arange(len(points) + 1))
    return np.asarray(_split_normals(triangles, area, flat, order // 3, starts, np.cos(crease)))


@kernel
def _split_normals(triangles, area, flat, around, starts, crease_cosine):
    """Mean normals of corners over the triangles `around` each point that lie on its side of an edge."""
    out = np.zeros((len(triangles), 3, 3))
    for t in range(len(triangles)):
        for k in range(3):
            point = triangles[t, k]
            for at in range(starts[point], starts[point + 1]):
                other = around[at]
                cosine = flat[t, 0] * flat[other, 0] + flat[t, 1] * flat[other, 1] + flat[t, 2] * flat[other, 2]
                if other == t or cosine > crease_cosine:
                    for d in range(3):
                        out[t, k, d] += area[other, d]
            length = np.sqrt(out[t, k, 0] ** 2 + out[t, k, 1] ** 2 + out[t, k, 2] ** 2)
            for d in range(3):
                out[t, k, d] /= max(length, MIN_DIVISOR)
    return out


@kernel
def _weights(pixels, triangle):
    """First two barycentric weights: at the origin, what they change to the right, and downwards.

    They are -1 everywhere where the triangle is seen from its edge.
    """
    ax, ay = pixels[triangle[0], 0], pixels[triangle[0], 1]
    bx, by = pixels[triangle[1], 0], pixels[triangle[1], 1]
    cx, cy = pixels[triangle[2], 0], pixels[triangle[2], 1]
    twice = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    if twice == 0.0:
        return (-1.0, -1.0), (0.0, 0.0), (0.0, 0.0)
    at = (bx * cy - cx * by) / twice, (cx * ay - ax * cy) / twice
    return at, ((by - cy) / twice, (cy - ay) / twice), ((cx - bx) / twice, (ax - cx) / twice)


@kernel
def _rasterise(pixels, triangles, shape):
    """Nearest triangle of every sample (-1: none), and its depth (larger is nearer; -inf: none)."""
    ids = np.full(shape, -1, dtype=np.int32)
    depth = np.full(ids.shape, -np.inf)
    for t in range(len(triangles)):
        ax, ay, az = pixels[triangles[t, 0]]
        bx, by, bz = pixels[triangles[t, 1]]
        cx, cy, cz = pixels[triangles[t, 2]]
        left, right = max(int(np.floor(min(ax, bx, cx))), 0), min(int(np.ceil(max(ax, bx, cx))), shape[1] - 1)
        top, bottom = max(int(np.floor(min(ay, by, cy))), 0), min(int(np.ceil(max(ay, by, cy))), shape[0] - 1)
        at, across, down = _weights(pixels, triangles[t])
        for row in range(top, bottom + 1):
            y = row + 0.5
            u0, v0 = at[0] + y * down[0], at[1] + y * down[1]
            for col in range(left, right + 1):
                u, v = u0 + (col + 0.5) * across[0], v0 + (col + 0.5) * across[1]
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                z = u * az + v * bz + w * cz
                if z > depth[row, col]:
                    depth[row, col] = z
                    ids[row, col] = t
    return ids, depth


@kernel
def _is_outline(depth, row, col, gap):
    """Whether a sample is at the near side of a jump in depth of more than `gap` [m]: a silhouette.

    What is cut off where the image ends has no silhouette there.
    """
    for way in range(4):
        r, c = row + (way == 0) - (way == 1), col + (way == 2) - (way == 3)
        if 0 <= r < depth.shape[0] and 0 <= c < depth.shape[1] and depth[row, col] - depth[r, c] > gap:
            return True
    return False


@kernel
def _lit(weights, triangle, normals, colors, light, half, out):
    """Write a lit colour, from the normals at the corners of a triangle (3, 3) and the colours of points (p, 3)."""
    x, y, z = 0.0, 0.0, 0.0
    for k in range(3):
        x, y, z = x + weights[k] * normals[k, 0], y + weights[k] * normals[k, 1], z + weights[k] * normals[k, 2]
    side = (-1.0 if z < 0.0 else 1.0) / max(np.sqrt(x * x + y * y + z * z), MIN_DIVISOR)  # the side that is seen
    x, y, z = side * x, side * y, side * z
    diffuse = max(x * light[0] + y * light[1] + z * light[2], 0.0)
    gloss = 0.18 * max(x * half[0] + y * half[1] + z * half[2], 0.0) ** 40
    for d in range(3):
        color = 0.0
        for k in range(3):
            color += weights[k] * colors[triangle[k], d]
        out[d] = min(max(color * (0.48 + 0.55 * diffuse + 0.10 * z) + gloss, 0.0), 1.0)


@kernel
def _blend(image, nearest, seen, lamp, paint):
    """Draw a layer over an image, in place; `nearest` is how near what hides others is, -inf where nothing is.

    `lamp` holds the light, the direction of gloss and the gap of outlines; `paint` the opacity, whether it is a ghost, and the
    colour of outlines.
    """
    pixels, triangles, ids, depth, normals, colors = seen
    light, half, gap = lamp
    opacity, ghost, ink = paint
    shade = np.empty(3)
    for row in range(ids.shape[0]):
        for col in range(ids.shape[1]):
            t = ids[row, col]
            if t < 0:
                continue
            z, before = depth[row, col], nearest[row, col]
            if z <= before or (ghost and before > -np.inf):
                continue
            outline = _is_outline(depth, row, col, gap)
            alpha = max(opacity, 0.55) if outline else opacity
            if opacity == 1.0:
                nearest[row, col] = z
            at, across, down = _weights(pixels, triangles[t])
            x, y = col + 0.5, row + 0.5
            u, v = at[0] + x * across[0] + y * down[0], at[1] + x * across[1] + y * down[1]
            weights = u, v, 1.0 - u - v
            _lit(weights, triangles[t], normals[t], colors, light, half, shade)
            for d in range(3):
                color = ink[d] + 0.35 * (shade[d] - ink[d]) if outline else shade[d]
                image[row, col, d] += alpha * (color - image[row, col, d])
