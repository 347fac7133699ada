"""A robot as rigid links along its centre line: masses, centres of mass, inertias, and what touches the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from geosim.arrays import Floats, Ints
from geosim.errors import InputError
from geosim.geometry import topology
from geosim.model.robot import VolumetricRobot
from geosim.rods.robot import RodShellRobot

LEAST_CORNERS = 4  # of a hull


@dataclass(frozen=True)
class Links:
    """What links are made of.

    Parameters
    ----------
    masses
        [kg] (l,).
    centers
        Centres of mass, from where every link begins [m] (l, 3).
    inertias
        About them [kg m^2] (l, 3, 3).
    radii
        Of capsules with the volume of the robot [m] (l,).
    hulls
        Corners of the convex hull of the skin of every link, from where it begins [m] (h, 3); none of rods, which are capsules.
    """

    masses: Floats
    centers: Floats
    inertias: Floats
    radii: Floats
    hulls: tuple[Floats, ...] = ()


@dataclass(frozen=True)
class _Pieces:
    """Pieces of a robot: middles (p, 3), volumes, masses (p,), and second moments of mass about their middles (p, 3, 3)."""

    middles: Floats
    volumes: Floats
    masses: Floats
    moments: Floats


def links_along(robot: VolumetricRobot | RodShellRobot, places: Floats) -> Links:
    """Return the links between places (l + 1, 3): every tet or rod belongs to the nearest one; chambers count for the radius."""
    pieces = _tets(robot) if isinstance(robot, VolumetricRobot) else _rods(robot)
    ways, count = np.diff(places, axis=0), len(places) - 1
    lengths, middles = np.linalg.norm(ways, axis=1), pieces.middles
    nearest = _nearest(middles, places)
    least_share = 1e-3  # of the mean mass, and of the largest radius: of links that nothing is nearest to
    radii = np.sqrt(np.bincount(nearest, pieces.volumes, count) / (np.pi * lengths))
    radii = np.maximum(radii, least_share * radii.max())
    masses = np.bincount(nearest, pieces.masses, count)
    least = least_share * masses.sum() / count
    centers, inertias = 0.5 * ways, np.empty((count, 3, 3))
    for i in range(count):
        mine = nearest == i
        if masses[i] > least:
            centers[i] = pieces.masses[mine] @ middles[mine] / masses[i] - places[i]
        away = middles[mine] - places[i] - centers[i]
        second = np.einsum("p,pi,pj->ij", pieces.masses[mine], away, away) + pieces.moments[mine].sum(axis=0)
        second += least * radii[i] ** 2 * np.eye(3)  # MuJoCo wants a positive inertia of what is nearly empty too
        inertias[i] = np.trace(second) * np.eye(3) - second
    hulls = _hulls(robot, places) if isinstance(robot, VolumetricRobot) else ()
    return Links(np.maximum(masses, least), centers, inertias, radii, hulls)


def _nearest(points: Floats, places: Floats) -> Ints:
    """Return the link between places (l + 1, 3) that is nearest to every point (p, 3)."""
    ways = np.diff(places, axis=0)
    along = np.clip(np.einsum("pli,li->pl", points[:, None] - places[:-1], ways) / (ways**2).sum(axis=1), 0.0, 1.0)
    away = np.linalg.norm(points[:, None] - places[:-1] - along[..., None] * ways, axis=2)
    return np.asarray(away.argmin(axis=1))


def _hulls(robot: VolumetricRobot, places: Floats) -> tuple[Floats, ...]:
    """Return the corners of the convex hulls of the skin of links, from where each begins [m]."""
    from trimesh.remesh import subdivide_to_size  # slow to import

    finest = 0.25 * float(np.linalg.norm(np.diff(places, axis=0), axis=1).min())  # so that a face belongs to one link
    cut: Any = subdivide_to_size
    points, faces = cut(robot.vertices, topology.boundary_faces(robot.tets), finest, max_iter=20)
    nearest = _nearest(points[faces].mean(axis=1), places)
    owned = [points[np.unique(faces[nearest == i])] - place for i, place in enumerate(places[:-1])]
    if min(map(len, owned)) < LEAST_CORNERS:
        raise InputError("write_mjcf: a link has no skin of its own; give fewer links")
    return tuple(own[ConvexHull(own).vertices] for own in owned)


def _tets(robot: VolumetricRobot) -> _Pieces:
    corners = robot.vertices[robot.tets]
    volumes, middles = topology.tet_volumes(robot.vertices, robot.tets), corners.mean(axis=1)
    density = np.zeros(len(robot.tets))
    for region, material in robot.materials.items():
        density[robot.regions == region] = material.density
    masses, away = volumes * density, corners - middles[:, None]
    # of a tet with its middle at 0: m / 20 sum of x x^T of its corners
    return _Pieces(middles, volumes, masses, np.einsum("p,pci,pcj->pij", masses / 20.0, away, away))


def _rods(robot: RodShellRobot) -> _Pieces:
    assert robot.section is not None
    ends, area = robot.vertices[robot.edges], np.broadcast_to(robot.section.area, len(robot.edges))
    volumes = area * robot.rest_lengths
    masses, e = volumes * robot.edge_property("density"), ends[:, 1] - ends[:, 0]
    along, across = np.einsum("p,pi,pj->pij", masses / 12.0, e, e), masses * robot.radius**2 / 4.0
    own = along + across[:, None, None] * np.eye(3)
    points = np.flatnonzero(robot.masses)
    middles = np.concatenate([ends.mean(axis=1), robot.vertices[points]])
    none = np.zeros(len(points))
    own = np.concatenate([own, np.zeros((len(points), 3, 3))])
    return _Pieces(middles, np.append(volumes, none), np.append(masses, robot.masses[points]), own)
