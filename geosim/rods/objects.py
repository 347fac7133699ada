"""Free objects that rods hold: a closed surface becomes a stiff shell of the object's mass, solved with the rods as one.

Its contact with rods and friction are those of shells, `geosim.rods.sheet_contact`, so that forces balance both ways in every
iteration: nothing is staggered, and a light object in a firm grip is as stable as a rod. What is held gives way by little: the
shell is as firm as the rods that hold it.

The mass lies in the surface: a ball resists turning as a hollow one, 2/3 m r^2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from geosim.arrays import Ints, number
from geosim.errors import InputError
from geosim.geometry.surface import check_surface
from geosim.material.materials import LinearElastic
from geosim.rods.robot import RodShellRobot

THICKNESS = 0.02  # of the object's size: contact is felt at half of it from the surface


def with_object(
    robot: RodShellRobot, surface: Any, mass: float, *, units: str | None = None, firmness: float | None = None
) -> tuple[RodShellRobot, Ints]:
    """Return the robot with a free object beside its rods, and the vertices of the object.

    Parameters
    ----------
    robot
        Rods without shells.
    surface
        The closed surface of the object where it begins: a path or a trimesh.Trimesh, as for bodies.
    mass
        [kg].
    units
        Of a file.
    firmness
        Young's modulus times thickness of its shell [N/m]; None: the largest Young's modulus times radius of the rods.

    Returns
    -------
    robot, vertices
        Friction between rods and object is `Environment(self_friction=)`; `vertices` (v,) name the object in
        `Result.frames`, `Load.force` and `Result.contact_forces`.

    Raises
    ------
    InputError
        The robot has shells of its own, or the surface is no closed one.
    """
    if len(robot.triangles) or not robot.own_edges:
        raise InputError("with_object: the robot must be of rods alone: all triangles of a robot are of one material")
    number(mass, "with_object: mass [kg]", above=0.0)
    made = check_surface(surface, units=units, name="object")
    if firmness is None:
        firmness = float((robot.edge_property("youngs_modulus") * robot.radius).max())
    number(firmness, "with_object: firmness [N/m]", above=0.0)
    corners = made.vertices[made.faces]
    area = 0.5 * float(np.linalg.norm(np.cross(*(corners[:, k] - corners[:, 0] for k in (1, 2))), axis=1).sum())
    thickness = THICKNESS * made.diagonal
    material = LinearElastic(firmness / thickness, 0.3, mass / (area * thickness))
    n, more = len(robot.vertices), len(made.vertices)
    joined = replace(
        robot,
        vertices=np.concatenate([robot.vertices, made.vertices]),
        triangles=made.faces + n,
        thickness=thickness,
        shell_material=material,
        shell_bending="mid-edge",
        velocities=np.concatenate([robot.velocities, np.zeros((more, 3))]),
        masses=np.concatenate([robot.masses, np.zeros(more)]),
        fixed_components=np.concatenate([robot.fixed_components, np.zeros((more, 3), dtype=bool)]),
    )
    return joined, np.arange(n, n + more)
