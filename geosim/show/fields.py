"""Fields that files and pictures show: displacement, stretch, stress, and the curved surface that carries them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geosim.arrays import Floats, Ints, norm
from geosim.geometry import topology
from geosim.measures import strain
from geosim.model.contract import Robot, taken
from geosim.model.robot import VolumetricRobot
from geosim.result import Result
from geosim.show.contact import contact_pressures
from geosim.show.tubes import tubes

# What the surface is coloured by: label and colour map.
COLORS = {
    "displacement": ("displacement [mm]", "viridis"),
    "stretch": ("largest stretch [-]", "plasma"),
    "stress": ("von Mises stress [kPa]", "inferno"),
    "contact": ("contact pressure [kPa]", "YlOrRd"),
}


UNMOVED_MM = 1e-6  # what is moved by less is at rest, and a field that is smaller everywhere is 0


@dataclass(frozen=True)
class Shown:
    """A surface as it is drawn or written.

    Parameters
    ----------
    points, rest
        Current and rest positions [m], shape (p, 3).
    triangles
        Vertex ids, oriented outward, shape (t, 3).
    strains
        Gives `stretch` and `stress`, which most pictures do not show and which take longer than the surface; None where
        they are not defined (rods, shells).
    pressure
        Contact pressure at the points [Pa], shape (p,); None where nothing touches.
    """

    points: Floats
    rest: Floats
    triangles: Ints
    strains: Callable[[], tuple[Floats, Floats]] | None = None
    pressure: Floats | None = None

    @cached_property
    def _strains(self) -> tuple[Floats, Floats]:
        none = np.full(len(self.points), np.nan)
        return (none, none) if self.strains is None else self.strains()

    @property
    def stretch(self) -> Floats:
        """Largest principal stretch [-] at the points, shape (p,); nan where it is not defined."""
        return self._strains[0]

    @property
    def stress(self) -> Floats:
        """Equivalent (von Mises) stress at the points [Pa], shape (p,); nan where it is not defined."""
        return self._strains[1]

    @property
    def displacement(self) -> Floats:
        """Length of the displacement of the points [m], shape (p,)."""
        return norm(self.points - self.rest, axis=1)

    def in_units(self, color: str) -> Floats:
        """A field by its key in `COLORS`, in the unit of its label, shape (p,); no contact is a pressure of 0."""
        if color == "contact":
            return np.zeros(len(self.points)) if self.pressure is None else 1e-3 * self.pressure
        scale = {"displacement": 1e3, "stress": 1e-3}.get(color, 1.0)
        return np.asarray(scale * getattr(self, color))


def displacements(result: Result, i: int) -> Floats:
    """Displacements of the vertices in frame i [m], shape (n, 3)."""
    return np.asarray(result.frames[i] - result.robot.vertices)


def max_displacement(result: Result, i: int) -> float:
    """Largest displacement of a body vertex in frame i [m]."""
    moved = displacements(result, i)[result.robot.body_vertices]
    return float(np.linalg.norm(moved, axis=1).max(initial=0.0))


def rest_nodes(robot: Robot) -> Floats:
    """Rest positions of the vertices, then of the mid-edge nodes if the robot has any [m], shape (n + e, 3)."""
    return topology.with_mid_edges(robot.vertices, robot.p2_edges)


def max_stretch(result: Result, i: int) -> Floats:
    """Largest principal stretch of every body tet at its centroid in frame i [-], shape (mb,)."""
    robot = _solid(result)
    return strain.stretch(strain.deformations(robot, result.nodes(i)))


def _solid(result: Result) -> VolumetricRobot:
    return taken(result.robot, VolumetricRobot, "max_stretch")


def of_nodes(result: Result, i: int) -> tuple[Floats, Floats]:
    """Largest principal stretch [-] and von Mises stress [Pa] around the nodes of a body in frame i, (n + e,) each."""
    robot = _solid(result)
    F = strain.deformations(robot, result.nodes(i))
    of_tets = strain.stretch(F), strain.von_mises(robot, F)
    stretch, stress = strain.around_nodes(robot, np.stack(of_tets, axis=1)).T
    return stretch, stress


def shown_surface(
    result: Result,
    i: int = -1,
    subdivide: int = 2,
    faces: Ints | None = None,
    known: tuple[Floats, Floats] | None = None,
) -> Shown:
    """Return the surface of frame i with its fields: the outer skin of a body, the skin of rods and shells.

    Parameters
    ----------
    result
        What was solved.
    i
        Frame; None is the rest shape.
    subdivide
        How often curved faces are split.
    faces
        Faces (f, 3) to show instead of the outer skin of a body.
    known
        What `of_nodes` returns, where another surface of the frame has asked for it.
    """
    robot = result.robot
    if not len(robot.p2_edges):
        return _thin_surface(robot, result.frames[i])
    rest, nodes = rest_nodes(robot), result.nodes(i)
    faces6 = topology.curved_faces(robot.skin if faces is None else faces, robot.p2_edges, len(robot.vertices))
    points, triangles, _, weights = topology.interpolate_p2(nodes, faces6, subdivide)
    corners, shape = faces6[weights[:, 0].astype(np.int64)], weights[:, 1:]
    at_rest = np.einsum("pk,pkd->pd", shape, rest[corners])
    if not len(robot.body_tets):  # a multibody robot: soft and rigid parts, whose skin only is shown
        return Shown(points, at_rest, triangles)

    def strains() -> tuple[Floats, Floats]:
        stretch, stress = (np.einsum("pk,pk->p", shape, values[corners]) for values in known or of_nodes(result, i))
        return stretch, np.maximum(stress, 0.0)

    contact = None if i is None else contact_pressures(result, i)
    if contact is not None:
        full = np.concatenate([contact, contact[robot.p2_edges].mean(axis=1)])
        contact = np.maximum(np.einsum("pk,pk->p", shape, full[corners]), 0.0)
    return Shown(points, at_rest, triangles, strains, contact)


def rest_surface(robot: Robot) -> tuple[Floats, Ints]:
    """Points [m], the vertices first, and triangles of a robot at rest: its outer skin, tubes of rods."""
    if len(robot.p2_edges):
        return robot.vertices, robot.skin
    shown = _thin_surface(robot, robot.vertices)
    return shown.points, shown.triangles


def _thin_surface(robot: Robot, positions: Floats) -> Shown:
    """Surface of rods (closed tubes of their radius) and shells (both sides)."""
    rest, sheets = robot.vertices, robot.skin
    points, at_rest = [positions], [rest]
    triangles = [sheets, sheets[:, ::-1]]
    edges, radius = robot.edges, robot.radius
    if len(edges):
        tube, around = tubes(positions, edges, radius)
        flat, _ = tubes(rest, edges, radius)
        triangles.append(around + len(positions))
        points.append(tube)
        at_rest.append(flat)
    return Shown(np.vstack(points), np.vstack(at_rest), np.vstack(triangles))
