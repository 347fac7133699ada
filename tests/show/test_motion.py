"""Between two frames tets turn and stretch in equal shares: rigid turns stay rigid, and frames stay as they are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bending import bar_robot, bent_result
from scipy.spatial.transform import Rotation

import geosim
from geosim import Result, Status
from geosim.show.motion import resampled


def turned(angle: float, times: np.ndarray, fixed: object = None) -> Result:
    """A free bar that turns as a rigid body and grows by a fifth; `times` has one time, of that frame."""
    robot = bar_robot(fixed=fixed)
    turn = Rotation.from_rotvec([0.0, angle, 0.0]).as_matrix()
    nodes = 1.2 * np.vstack([robot.vertices, robot.vertices[robot.p2_edges].mean(axis=1)]) @ turn.T
    n = len(robot.vertices)
    given = {"frames": nodes[None, :n], "mid_edge_frames": nodes[None, n:], "robot": robot, "times": times}
    return Result(Status.CONVERGED, "", True, **given)


@pytest.mark.parametrize("fixed", [None, [0]], ids=["free", "held at a corner"])
def test_half_of_a_turn_is_a_turn_by_half(fixed):
    """Closed form: 150 degrees and a stretch of 1.2 in one step are 75 degrees and 1.1 halfway; straight lines shrink to 0.6."""
    result = turned(np.radians(150.0), np.array([1.0]), fixed)
    half = resampled(result, [0.5])
    used = result.robot.body_vertices
    wanted = 1.1 * result.robot.vertices @ Rotation.from_rotvec([0.0, np.radians(75.0), 0.0]).as_matrix().T
    moved = half.frames[0] - half.frames[0][used].mean(axis=0)
    np.testing.assert_allclose(moved[used], (wanted - wanted[used].mean(axis=0))[used], atol=1e-9)
    mid = half.frames[0][result.robot.p2_edges].mean(axis=1)
    np.testing.assert_allclose(half.mid_edge_frames[0], mid, atol=1e-9)


def test_frames_of_the_result_are_kept_and_it_begins_at_rest():
    result = bent_result()
    all_frames = resampled(result, [0.0, *result.times, 2.5])
    robot = result.robot
    np.testing.assert_array_equal(all_frames.frames[0], robot.vertices)
    np.testing.assert_array_equal(all_frames.frames[1:-1], result.frames)
    np.testing.assert_array_equal(all_frames.mid_edge_frames[1:-1], result.mid_edge_frames)
    assert all_frames.volume_ratios[[0, -1], 0] == pytest.approx([1.0, 1.25])
    assert all_frames.chamber_pressures[[0, -1], 0] == pytest.approx([0.0, 2500.0])
    np.testing.assert_allclose(all_frames.frames[-1][robot.fixed], robot.vertices[robot.fixed], atol=1e-12)
    assert np.degrees(all_frames.bend_angle[-1]) == pytest.approx(50.0, abs=0.1)


def test_a_film_between_two_frames_is_smooth():
    """Where a bar bends by 20 degrees in each step, equal times are equal angles."""
    times = np.linspace(0.0, 4.0, 17)
    angles = np.degrees(resampled(bent_result(), times).bend_angle)
    np.testing.assert_allclose(angles, 20.0 * times, atol=0.05)


def test_rods_go_straight_from_frame_to_frame():
    rod = geosim.RodShellRobot(
        [[0, 0, 0], [0.1, 0, 0]], radius=5e-3, rod_material=geosim.LinearElastic(youngs_modulus=1e6)
    )
    up = np.array([[[0, 0, 0], [0.1, 0, 0]], [[0, 0, 0], [0.1, 0, 0.04]]])
    motion = Result(Status.CONVERGED, "", True, np.array([0.0, 2.0]), up, rod)
    np.testing.assert_allclose(resampled(motion, [0.0, 0.5, 2.0]).frames[:, 1, 2], [0.0, 0.01, 0.04], atol=1e-15)


def test_a_result_without_motion_stays(tmp_path):
    still = dataclasses.replace(turned(0.0, np.array([0.0])), mid_edge_frames=None)
    np.testing.assert_array_equal(resampled(still, [0.0, 0.0]).frames, np.repeat(still.frames, 2, axis=0))
