"""Forces between a robot and what it holds, and the work that is done on it."""

from __future__ import annotations

import numpy as np

from geosim.arrays import Bools, Floats, Ints
from geosim.collision.shapes import POINT, VERTICES, kind_of
from geosim.model.contract import Robot
from geosim.model.environment import Environment, Obstacle
from geosim.model.select import selected_ids


def holding_forces(environment: Environment, forces: Floats) -> Floats:
    """Largest force against the prescribed motion of every obstacle over the frames [N], (o,); nan for one that stays.

    Parameters
    ----------
    forces
        On the obstacles, one frame a command [N], (k, o, 3).

    A motion goes from pose to pose; that of an obstacle that turns is taken at its middle.
    """
    out = np.full(len(environment.obstacles), np.nan)
    for o, obstacle in enumerate(environment.obstacles):
        if obstacle.motion is None:
            continue
        middle = np.append(_middle(obstacle), 1.0)
        places = np.array([(obstacle.pose(i) @ middle)[:3] for i in range(-1, len(forces))])
        ways = np.diff(places, axis=0)
        lengths = np.linalg.norm(ways, axis=1)
        moves = lengths > 0.0
        if moves.any():
            against = -np.einsum("ki,ki->k", forces[moves, o], ways[moves]) / lengths[moves]
            out[o] = np.nanmax(against, initial=0.0)
    return out


def _middle(obstacle: Obstacle) -> Floats:
    """Mean of the points that define an obstacle [m], (3,)."""
    sorts = kind_of(obstacle.shape).parameters
    points = [np.atleast_2d(obstacle.parameters[key]) for key, sort in sorts.items() if sort in (POINT, VERTICES)]
    return np.asarray(np.vstack(points).mean(axis=0))


def blocked_forces(robot: Robot, environment: Environment, reactions: Floats) -> Floats:
    """Force of the supports [N] (k, 3) on the tip vertices that a `Prescribed` holds; nan if none does."""
    ids = held_tip(robot, environment)
    return reactions[:, ids].sum(axis=1) if len(ids) else np.full((len(reactions), 3), np.nan)


def held_tip(robot: Robot, environment: Environment) -> Ints:
    """Return the tip vertices that a `Prescribed` holds."""
    return np.asarray(robot.tip[prescribed_vertices(robot, environment)[robot.tip]])


def prescribed_vertices(robot: Robot, environment: Environment) -> Bools:
    """Return which vertices a `Prescribed` holds, (n,)."""
    held = np.zeros(len(robot.vertices), dtype=bool)
    for prescribed in environment.prescribed:
        held[selected_ids(prescribed.vertices, robot.vertices, "prescribed", among=robot.body_vertices)] = True
    return held
