"""Solids of a robot, and the few operations that moulds are made with. All lengths in metres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from geosim.arrays import Floats, Ints, axes_along
from geosim.errors import InputError
from geosim.generate.surfaces import SEGMENTS
from geosim.geometry import shells, topology
from geosim.geometry.imprint import as_manifold
from geosim.model.robot import VolumetricRobot


def of_robot(robot: VolumetricRobot) -> tuple[Any, list[Any]]:
    """Solid within the skin of a robot at rest, cavities filled, and the solid of every chamber.

    Raises
    ------
    InputError
        The mesh touches itself along an edge, so that it bounds no solid.
    """
    skin = _solid(robot.vertices, robot.tets, robot.name)
    regions = robot.chamber_regions
    return skin, [
        _solid(robot.vertices, robot.tets[robot.regions == r], f"chamber {i + 1}") for i, r in enumerate(regions)
    ]


def _solid(vertices: Floats, tets: Ints, name: str) -> Any:
    flat = 1e-7  # over the size: triangles that lie in a plane by less are one facet
    points, faces = shells.compact(vertices, topology.boundary_faces(topology.oriented(vertices, tets)[0]))
    solid = as_manifold(points, faces)
    if solid.is_empty():
        raise InputError(
            f"{name}: its surface touches itself along an edge and bounds no solid; part it in the CAD program"
        )
    return solid.simplify(flat * float(np.linalg.norm(np.ptp(points, axis=0))))


def arrays(solid: Any) -> tuple[Floats, Ints]:
    """Vertices [m] (n, 3) and outward triangles (m, 3) of a solid."""
    mesh = solid.to_mesh64()
    return np.asarray(mesh.vert_properties)[:, :3].astype(float), np.asarray(mesh.tri_verts).astype(np.int64)


def block(low: Sequence[float] | Floats, high: Sequence[float] | Floats) -> Any:
    """A box between two corners [m] (3,)."""
    from manifold3d import Manifold

    return Manifold.cube(np.asarray(high, float) - np.asarray(low, float)).translate(np.asarray(low, float))


def cylinder(start: Floats, end: Floats, diameter: float) -> Any:
    """A round rod between two points [m] (3,)."""
    from manifold3d import Manifold

    way = np.asarray(end, float) - np.asarray(start, float)
    rod = Manifold.cylinder(float(np.linalg.norm(way)), 0.5 * diameter, circular_segments=SEGMENTS)
    return rod.transform(np.column_stack([axes_along(way), start]))


def united(solids: Sequence[Any]) -> Any:
    """The union of solids that may overlap."""
    from manifold3d import Manifold, OpType

    return Manifold.batch_boolean(list(solids), OpType.Add) if solids else Manifold()


def half_space(solid: Any, axis: int, height: float, above: bool) -> Any:
    """What of a solid lies above or below a height [m] along an axis."""
    normal = np.eye(3)[axis] * (1.0 if above else -1.0)
    return solid.trim_by_plane(normal, height * (1.0 if above else -1.0))


def whole(solid: Any) -> Any:
    """A solid without the crumbs of no volume that cuts along common faces leave."""
    crumb = 1e-9  # of a solid's volume
    from manifold3d import Manifold

    pieces = solid.decompose()
    kept = [piece for piece in pieces if abs(piece.volume()) > crumb * solid.volume()]
    return solid if len(kept) == len(pieces) else Manifold.compose(kept)


def place_mm(point: Floats) -> str:
    """A place [m] (3,) as it is said."""
    return "({:.4g}, {:.4g}, {:.4g}) mm".format(*(np.round(np.asarray(point) * 1e3, 3) + 0.0))  # no -0
