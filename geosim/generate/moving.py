"""The mesh of a design moved to other dimensions: vertices on surfaces with these, those between them harmonically."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints
from geosim.generate.design import Design
from geosim.geometry import shells, topology
from geosim.geometry.surface_map import SurfaceMap, surface_map, untangled
from geosim.model.robot import VolumetricRobot

LEAST_VOLUME_SHARE = 0.15  # of its volume that a tet of a moved mesh keeps; where one keeps less the mesh is made again


@dataclass(frozen=True, eq=False)
class DesignMesh:
    """The mesh of a design that others are moved from.

    Parameters
    ----------
    robot, design
        The robot, and the design that it was made from.
    places
        Where its vertices lie on the surfaces of the design.
    """

    robot: VolumetricRobot
    design: Design
    places: SurfaceMap

    @classmethod
    def of(cls, robot: VolumetricRobot, design: Design) -> DesignMesh:
        """Find where the vertices of a robot lie on the surfaces of its design."""
        surfaces = (design.body, *design.chambers)
        return cls(robot, design, surface_map(robot.vertices, robot.tets, robot.body_tets, surfaces))

    @cached_property
    def boundary(self) -> Ints:
        """Faces (f, 3) on the outside of all tets, and of those of the bodies."""
        return np.vstack([topology.boundary_faces(t) for t in (self.robot.tets, self.robot.body_tets)])

    def moved(self, design: Design) -> VolumetricRobot | None:
        """Return the robot moved to a design; None where that has other parts, or elements would be crushed."""
        # tets that keep less than this share of their volume are mended
        mended_volume_share = 0.3
        # Of all tets. Motions of a bellows that crushed .1 to 3.8 % were mended in .02 to .17 s (in one of them 24 of 16,003 tets
        # kept .18 to .3), those that crushed 4.5 and 5.4 % were not; a new mesh and its path from rest take 1 to 2 s longer.
        max_crushed_share = 0.04
        robot, before = self.robot, self.design
        surfaces = [(d.body, *d.chambers) for d in (before, design)]
        if before.name != design.name or len(surfaces[0]) != len(surfaces[1]):
            return None
        if design.layers or before.layers:  # their faces are those of the mesh that they were found on
            return None
        if not all(map(corresponds, *surfaces)):
            return None
        motion = self.places.carried([np.asarray(b.vertices) - np.asarray(a.vertices) for a, b in zip(*surfaces)])
        vertices = robot.vertices + motion
        before_it, after_it = (topology.tet_volumes(x, robot.tets) for x in (robot.vertices, vertices))
        wanted = before_it * (after_it.sum() / before_it.sum())
        crushed = float((after_it < mended_volume_share * wanted).mean())
        if crushed > max_crushed_share:
            return None
        if crushed > 0.0:
            vertices = untangled(vertices, robot.tets, self.boundary, wanted, mended_volume_share)
            if (topology.tet_volumes(vertices, robot.tets) / wanted).min() < LEAST_VOLUME_SHARE:
                return None
        # it would mesh the surfaces of the other design; what is made anew is made from the design
        return robot.moved(vertices, design=design, cables=design.cables, fibres=design.fibres, remesh=None)


def corresponds(before: Any, after: Any) -> bool:
    """Whether the vertices of one surface, moved to those of another, span it: plane faces may be cut otherwise."""
    # of area and volume, by which two triangulations of a surface may differ: rounding
    same_surface_rel = 1e-9
    if before.faces.shape != after.faces.shape or before.vertices.shape != after.vertices.shape:
        return False
    if (before.faces == after.faces).all():
        return True
    points = np.asarray(after.vertices)
    for measure in (_area, shells.signed_volume):
        was, now = (measure(points, np.asarray(s.faces)) for s in (before, after))
        if abs(was - now) > same_surface_rel * now:
            return False
    return True


def _area(points: Floats, faces: Any) -> float:
    return float(0.5 * np.linalg.norm(topology.face_normals(points, faces), axis=1).sum())
