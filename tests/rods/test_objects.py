"""Free objects that rods hold by friction: a gripper of four rods lifts a ball and a cube, and lets go where it must."""

import numpy as np
import pytest
import trimesh
from rod_cases import gripper

from geosim import (
    Environment,
    InputError,
    LinearElastic,
    Load,
    Obstacle,
    Passive,
    Prescribed,
    RodShellRobot,
    RodShellStepper,
    solve,
)
from geosim.rods.objects import with_object

RUBBER = LinearElastic(2e6, 0.5, 1100.0)
INWARD = -np.array([[np.cos(a), np.sin(a), 0] for a in 0.5 * np.pi * np.arange(4)])


def four_rods(reach, top, bottom, nodes):
    """Four upright rods of radius 5 mm around the z axis."""
    z = np.linspace(top, bottom, nodes)
    line = np.stack([0 * z, 0 * z, z], axis=1)
    chain = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    return RodShellRobot(
        np.concatenate([line - reach * d for d in INWARD]),
        np.concatenate([chain + nodes * k for k in range(4)]),
        radius=5e-3,
        rod_material=RUBBER,
    )


def test_a_cube_slips_at_the_load_that_friction_bears():
    """Four rods press a cube; weighed down in steps of a hundredth it slips at mu times the sum of the normal forces."""
    mu, size = 0.5, 0.04
    robot = four_rods(0.5 * size + 5.9e-3, 0.1, -0.1, 9)
    robot, cube = with_object(robot, trimesh.creation.box((size, size, size)), 0.05)
    ends = np.ravel([[9 * k, 9 * k + 8] for k in range(4)])
    into = np.repeat(4e-3 * INWARD, 2, axis=0)
    solver = RodShellStepper(dt=0.01, frame_interval=0.05, damping=10.0)

    def surroundings(share, load):
        held = [Prescribed([e], np.outer(share, d)) for e, d in zip(ends, into)]
        down = np.stack([0 * load, 0 * load, -load], axis=1)
        return Environment(self_friction=mu, prescribed=held, loads=[Load.force(cube, down)])

    gripped = solve(robot, Passive(0.5, 10), surroundings(np.linspace(0.1, 1, 10), np.zeros(10)), solver=solver)
    normal = (gripped.reactions[-1, ends] * np.repeat(INWARD, 2, axis=0)).sum()
    assert normal > 0.1
    shares = np.append(np.linspace(0.1, 0.9, 3), np.arange(0.95, 1.06, 0.01))
    loads = surroundings(np.ones(len(shares)), shares * mu * normal)
    pulled = solve(robot, Passive(0.05 * len(shares), len(shares)), loads, solver=solver, initial=gripped)
    speed = -np.diff(pulled.frames[:, cube, 2].mean(axis=1)) / 0.05
    slips = shares[np.flatnonzero(speed > solver.slip_velocity)[0]]
    assert slips == pytest.approx(1.0, abs=0.02)
    assert speed[shares < 0.95].max() < 0.5 * solver.slip_velocity


def test_a_gripper_of_four_rods_lifts_a_cube():
    """Their ends close about it and rise: 5 g are lifted from the floor by 2 cm."""
    size, k = 0.04, 12
    robot, cube = with_object(
        four_rods(0.5 * size + 5.9e-3, 0.16, -0.014, 8), trimesh.creation.box((size, size, size)), 0.005
    )
    ends, into = np.ravel([[8 * k, 8 * k + 7] for k in range(4)]), np.repeat(1.5e-3 * INWARD, 2, axis=0)
    closed, up = np.clip(np.arange(1, k + 1) / 4, 0, 1), 4e-3 * np.clip(np.arange(1, k + 1) - 5, 0, 5)
    moves = closed[:, None, None] * into + up[:, None, None] * np.array([0, 0, 1.0])
    surroundings = Environment(
        gravity=(0, 0, -9.81),
        self_friction=0.5,
        obstacles=[Obstacle.plane((0, 0, -0.0207), (0, 0, 1), friction=0.3)],
        prescribed=[Prescribed([e], moves[:, i]) for i, e in enumerate(ends)],
    )
    solver = RodShellStepper(dt=5e-3, frame_interval=0.05, damping=2.0)
    result = solve(robot, Passive(0.05 * k, k), surroundings, solver=solver)
    height = result.frames[:, cube, 2].mean(axis=1)
    assert height[-1] - height[5] == pytest.approx(0.02, abs=1e-3)
    assert abs(height[-1] - height[-2]) < 2e-4
    assert result.contact_forces[-1, cube].sum(axis=0) == pytest.approx([0, 0, 0.005 * 9.81], rel=0.05, abs=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("held", ["ball", "cube"])
def test_a_gripper_of_four_rods_with_cables_lifts_what_it_holds(held):
    """12 g are lifted by 3 cm, and stay there; rods bear the weight by their contact."""
    case = gripper(held)
    result = solve(**case.arguments())
    skin = np.arange(48, len(case.robot.vertices))
    height = result.frames[:, skin, 2].mean(axis=1)
    assert height[-1] - height[6] == pytest.approx(0.03, abs=2e-3)
    assert abs(height[-1] - height[-2]) < 2e-4
    assert result.contact_forces[-1, skin].sum(axis=0) == pytest.approx([0, 0, 0.012 * 9.81], rel=0.05, abs=5e-3)
    assert np.ptp(result.frames[-1, skin], axis=0) == pytest.approx(0.04, rel=0.05)


def test_objects_that_cannot_be_are_refused():
    rods = four_rods(0.03, 0.1, 0.0, 3)
    ball = trimesh.creation.icosphere(1, 0.02)
    held, _ = with_object(rods, ball, 0.1)
    with pytest.raises(InputError, match="of rods alone"):
        with_object(held, ball, 0.1)
    with pytest.raises(InputError, match="mass"):
        with_object(rods, ball, 0.0)
    with pytest.raises(InputError, match="object"):
        with_object(rods, trimesh.Trimesh(ball.vertices, ball.faces[1:]), 0.1)
    mass = RodShellStepper().start(held).system.mass[: 3 * len(held.vertices) : 3]
    assert mass[len(rods.vertices) :].sum() == pytest.approx(0.1)
