"""Structured tetrahedral meshes with known geometry, and closed forms to hold solutions against."""

from __future__ import annotations

import numpy as np
import trimesh
from scipy.integrate import quad

import geosim
from geosim.geometry import topology


def block(size=(1.0, 1.0, 1.0), cells=(2, 2, 2), *, skew=0.0, seed=0):
    """Block of cubes, each split into six tets: vertices (n, 3), tets (m, 4). `skew` moves inner vertices about."""
    nx, ny, nz = cells
    grid = np.stack(np.meshgrid(*(np.linspace(0.0, s, c + 1) for s, c in zip(size, cells)), indexing="ij"), axis=-1)
    vertices = grid.reshape(-1, 3).copy()
    index = np.arange(len(vertices)).reshape(nx + 1, ny + 1, nz + 1)
    tets = []
    for i in range(nx):
        for j in range(ny):
            for k in range(nz):
                for path in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
                    at = np.array([i, j, k])
                    ids = [index[tuple(at)]]
                    for axis in path:
                        at[axis] += 1
                        ids.append(index[tuple(at)])
                    tets.append(ids)
    tets = np.array(tets)
    inside = ((vertices > 1e-9) & (vertices < np.array(size) - 1e-9)).all(axis=1)
    rng = np.random.default_rng(seed)
    vertices[inside] += skew * np.array(size) / np.array(cells) * rng.uniform(-1, 1, (int(inside.sum()), 3))
    flipped = topology.tet_volumes(vertices, tets) < 0
    tets[flipped] = tets[flipped][:, [0, 2, 1, 3]]
    return vertices, tets


def half_arch():
    """Half of a shallow arch: clamped at one end, its crown on a plane of symmetry, so that it snaps straight through."""
    vertices, tets = block((0.05, 0.01, 0.003), (8, 1, 1))
    vertices[:, 2] += 0.012 * np.sin(np.pi * vertices[:, 0] / 0.1) ** 2
    clamped, crown = vertices[:, 0] < 1e-9, vertices[:, 0] > 0.05 - 1e-9
    material = geosim.NeoHookean(mu=50e3, density=1070.0)
    return geosim.VolumetricRobot.from_tets(vertices, tets, material=material, fixed=clamped, tip=crown)


def shell(inner, outer, subdivisions, layers):
    """Thick sphere from an icosphere extruded in layers: vertices, tets, regions (0 body, 1 chamber)."""
    sphere = trimesh.creation.icosphere(subdivisions=subdivisions)
    directions, faces = np.asarray(sphere.vertices), np.asarray(sphere.faces)
    count = len(directions)
    radii = np.linspace(inner, outer, layers + 1)
    vertices = np.vstack([directions * r for r in radii] + [np.zeros((1, 3))])
    tets = []
    for layer in range(layers):
        low, high = faces + layer * count, faces + (layer + 1) * count
        order = np.argsort(faces, axis=1)
        a, b, c = (np.take_along_axis(low, order[:, [k]], 1)[:, 0] for k in range(3))
        d, e, f = (np.take_along_axis(high, order[:, [k]], 1)[:, 0] for k in range(3))
        tets += [np.stack([a, b, c, f], axis=1), np.stack([a, b, e, f], axis=1), np.stack([a, d, e, f], axis=1)]
    body = np.vstack(tets)
    core = np.hstack([faces, np.full((len(faces), 1), len(vertices) - 1)])
    tets = np.vstack([body, core])
    flipped = topology.tet_volumes(vertices, tets) < 0
    tets[flipped] = tets[flipped][:, [0, 2, 1, 3]]
    return vertices, tets, np.r_[np.zeros(len(body), dtype=int), np.ones(len(core), dtype=int)]


def sphere_pressure(c1, c2, volume_ratio, cubed_radii):
    """Exact pressure of a thick incompressible Mooney-Rivlin sphere at V/V0, with (b/a)^3 given.

    p = integral of W'(l) / (l^3 - 1) dl from l_outer to l_inner, W(l) = c1 (2 l^2 + l^-4) + c2 (l^4 + 2 l^-2).
    """
    inner = np.cbrt(volume_ratio)
    outer = np.cbrt(1.0 + (volume_ratio - 1.0) / cubed_radii)
    slope = lambda s: c1 * (4 * s - 4 * s**-5) + c2 * (4 * s**3 - 4 * s**-3)  # noqa: E731
    return quad(lambda s: slope(s) / (s**3 - 1.0), outer, inner, epsabs=0, epsrel=1e-12)[0]
