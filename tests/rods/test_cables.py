"""Cables through guides along rods: virtual work, the capstan, constant curvature, lengths, and the same in motion."""

import numpy as np
import pytest

from geosim import (
    Cable,
    CableLengths,
    CableTensions,
    InputError,
    LinearElastic,
    Passive,
    RodShellRobot,
    RodShellStepper,
    solve,
)
from geosim.rods.drive import make_drive
from geosim.rods.terms import Term

RUBBER = LinearElastic(1e6, 0.5, 1000.0)
RADIUS, OFFSET, LENGTH = 5e-3, 8e-3, 0.2
BENDING = 1e6 * np.pi * RADIUS**4 / 4
STATIC = RodShellStepper(static=True)


def arm(cables=3, friction=0.0, nodes=41, guides=21, **options):
    """A straight arm along x, clamped, with cables at even angles about it, through guides every centimetre."""
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0, LENGTH, nodes)
    led = np.linspace(0.5 * LENGTH / (nodes - 1), LENGTH, guides)
    angle = 2 * np.pi * np.arange(cables) / cables
    paths = [np.stack([led, 0 * led + OFFSET * np.cos(a), 0 * led + OFFSET * np.sin(a)], axis=1) for a in angle]
    made = [Cable(p, friction=friction) for p in paths]
    return RodShellRobot(
        x, radius=RADIUS, rod_material=RUBBER, fixed_vertices=[0, 1], fixed_edges=[0], cables=made, **options
    )


def directions(frame):
    """Unit tangents of the edges."""
    e = np.diff(frame, axis=0)
    return e / np.linalg.norm(e, axis=1)[:, None]


@pytest.mark.parametrize("friction", [0.0, 0.4])
@pytest.mark.parametrize("actuation", [CableTensions([0.3]), CableLengths([0.15])])
def test_the_stiffness_of_a_cable_is_the_derivative_of_its_force(friction, actuation):
    rng = np.random.default_rng(3)
    robot = arm(1, friction, nodes=5, guides=4)
    solver = RodShellStepper(dt=1e-2)
    state = solver.start(robot)
    drive = make_drive(state, actuation.commands((CableTensions, CableLengths), "")[0])
    state = drive.start
    q = state.q + 1e-3 * rng.normal(size=len(state.q))
    term: Term = drive.terms(state, 1e-2, 1.0)[0]
    order = state.system.pattern.order

    def force(q):
        f = np.zeros_like(q)
        term.add_force(q, f)
        return f

    found = np.zeros((len(order), len(order)))
    extra = term.add_stiffness(q, np.zeros(state.system.pattern.size))
    row, col, data = extra.entries
    np.add.at(found, (row, col), data)
    for k, dof in enumerate(order):
        step = np.zeros_like(q)
        step[dof] = 1e-8
        slope = (force(q + step) - force(q - step))[order] / 2e-8
        assert found[:, k] == pytest.approx(slope, abs=2e-5 * abs(found).max())


def test_forces_of_a_cable_are_the_derivative_of_its_length():
    """With one tension all along, also where guides turn with their sections."""
    rng = np.random.default_rng(4)
    robot = arm(2, nodes=5, guides=4)
    solver = RodShellStepper()
    drive = make_drive(solver.start(robot), CableTensions([[0.0, 2.0]]).commands((CableTensions,), "")[0])
    state = drive.start
    q = state.q + 1e-3 * rng.normal(size=len(state.q))
    term = drive.terms(state, 1e-2, 1.0)[0]
    f = np.zeros_like(q)
    term.add_force(q, f)

    def length(q):
        measures = {}
        term.measure(q, measures)
        return measures["cable_lengths"][1]

    for _ in range(5):
        # virtual motions along which frames are carried without holonomy: from the state itself
        step = 1e-6 * rng.normal(size=len(q))
        change = (length(q + step) - length(q - step)) / 2
        assert f @ step == pytest.approx(2.0 * change, abs=2e-3 * abs(f * step).sum())


def test_three_cables_bend_an_arm_to_constant_curvature():
    """Curvature sum T d / (E I), in the plane of that sum [Webster and Jones 2010].

    Between guides a distance s apart cables run straight, on average by curvature s^2 / 12 nearer to the centre of curvature.
    """
    tensions = np.array([0.3, 0.1, 0.05])
    result = solve(arm(), CableTensions([tensions]), solver=STATIC)
    angle = 2 * np.pi * np.arange(3) / 3
    pull = np.array([tensions @ np.cos(angle), tensions @ np.sin(angle)])
    apart = (LENGTH - 0.5 * LENGTH / 40) / 20
    curvature = OFFSET * np.hypot(*pull) / (BENDING - tensions.sum() * apart**2 / 12)
    t = directions(result.frames[-1])
    turns = np.arccos(np.clip((t[:-1] * t[1:]).sum(axis=1), -1, 1))
    shorter = 1 - tensions.sum() / (1e6 * np.pi * RADIUS**2)  # curvature is an angle over a length at rest
    assert turns[2:-2] / 5e-3 == pytest.approx(curvature, rel=0.01)
    assert np.arctan2(t[-1, 2], t[-1, 1]) == pytest.approx(np.arctan2(pull[1], pull[0]), abs=1e-3)
    assert result.cable_tensions[-1] == pytest.approx(tensions)
    bend = np.arccos(t[-1, 0])
    away = OFFSET * np.array([np.cos(a - np.arctan2(pull[1], pull[0])) for a in angle])
    expected = shorter * (LENGTH - 0.5 * LENGTH / 40) - bend * away
    assert result.cable_lengths[-1] == pytest.approx(expected, rel=2e-3)


def test_the_tension_falls_by_the_capstan_equation():
    """exp(-mu theta) along a bent arm that is pulled; let go, the other way round, by exp(mu theta)."""
    result = solve(arm(1, friction=0.3), CableTensions([0.3, 0.28]), solver=STATIC)
    for frame, sign in ((0, -1), (1, 1)):
        t = directions(result.frames[frame])
        near, far = result.cable_end_tensions[frame, 0]
        theta = np.arccos(t[1] @ t[-2])  # the first and the last piece of the cable
        assert near == result.cable_tensions[frame, 0]
        if sign < 0:  # all of it slides
            assert far / near == pytest.approx(np.exp(-0.3 * theta), rel=0.01)
        else:  # the end still sticks
            assert 1.0 > far / near > np.exp(-0.3 * theta)
    bent = np.arccos(directions(result.frames[0])[0] @ directions(result.frames[0])[-1])
    smooth = solve(arm(1), CableTensions([0.3]), solver=STATIC).frames[-1]
    assert bent < 0.95 * np.arccos(directions(smooth)[0] @ directions(smooth)[-1])


def test_a_length_and_its_tension_are_two_sides_of_one():
    """An arm pulled to the length that a tension gave has that tension."""
    by_tension = solve(arm(1), CableTensions([0.1, 0.2]), solver=STATIC)
    by_length = solve(arm(1), CableLengths(by_tension.cable_lengths), solver=STATIC)
    assert by_length.cable_lengths == pytest.approx(by_tension.cable_lengths, rel=1e-3)
    assert by_length.cable_tensions == pytest.approx(by_tension.cable_tensions, rel=0.02)
    slack = solve(arm(1), CableLengths([LENGTH * 1.1]), solver=STATIC)
    assert slack.cable_tensions[-1] == 0
    assert slack.frames[-1] == pytest.approx(arm(1).vertices)


def test_a_cable_pulls_in_motion_as_at_rest_and_its_work_is_booked():
    robot = arm(1, nodes=11, guides=6)
    pull = Passive(4.0, 4) & CableTensions([0.1, 0.1, 0.1, 0.1])
    moved = solve(robot, pull, solver=RodShellStepper(dt=0.02, damping=8.0))
    still = solve(robot, CableTensions([0.1]), solver=STATIC)
    assert abs(moved.frames[-1] - still.frames[-1]).max() < 0.02 * abs(still.frames[-1] - still.robot.vertices).max()
    e, extra = moved.energies, moved.extra
    assert abs(e - e[0] - extra["work"] + extra["dissipated"] - extra["drift"]).max() < 1e-12
    assert extra["work"][-1] > 0


@pytest.mark.parametrize("rows", [1, 2])
def test_lengths_hold_in_a_motion_with_more_frames_than_rows(rows):
    """A slow pull ends near the equilibrium; a cable that hangs slack is named by its row, not by its frame."""
    robot = arm(1, nodes=11, guides=6)
    path = np.linspace(robot.cables[0].length, 0.97 * robot.cables[0].length, rows + 1)[1:]
    pull = Passive(4.0, rows) & CableLengths(path)
    result = solve(robot, pull, solver=RodShellStepper(dt=0.05, damping=20.0))
    assert len(result.frames) == 81
    assert "slack" not in result.message
    assert result.tip[-1] == pytest.approx(solve(robot, CableLengths(path), solver=STATIC).tip[-1], abs=3e-3)
    slack = Passive(0.1, rows) & CableLengths([*path[:-1], 0.25])
    message = solve(robot, slack, solver=RodShellStepper(dt=0.02)).message
    assert f"Cable 1 hangs slack at command {rows}: 250 mm are given" in message


def test_cables_that_cannot_be_are_refused():
    x = np.array([[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0]])
    with pytest.raises(InputError, match=r"cable 1: point 2 lies .* mm from the nearest rod"):
        RodShellRobot(x, radius=5e-3, rod_material=RUBBER, cables=[[[0, 0, 0.01], [0.1, 0, 0.1]]])
    with pytest.raises(InputError, match="no cables"):
        solve(RodShellRobot(x, radius=5e-3, rod_material=RUBBER), CableTensions([1.0]), solver=STATIC)


@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_no_energy_appears_where_cables_pull_an_arm_about_two_axes(friction):
    """The work is the tension times what the cables became shorter; friction in the guides takes its share of it."""
    pull = np.array([0.3, 0.1, 0.05])
    motion = Passive(0.2, 2) & CableTensions([pull, pull])
    moved = solve(arm(3, friction, nodes=11, guides=6), motion, solver=RodShellStepper(dt=0.01, damping=1.0))
    mean = 0.5 * (moved.cable_tensions[1:] + moved.cable_tensions[:-1])
    work = (mean * -np.diff(moved.cable_lengths, axis=0)).sum()
    assert moved.extra["work"][-1] == pytest.approx(work, rel=1e-12)
    assert moved.extra["drift"].max() < 1e-3 * work
    assert -0.1 * work < moved.extra["drift"][-1] < 0
    assert list(moved.cable_tensions[0]) == [0, 0, 0]
    if friction:
        damped = sum(
            0.01 * ((b - a) / 0.01) ** 2 @ moved.solver.start(moved.robot).system.mass[: a.size]
            for a, b in zip(moved.frames.reshape(-1, 33), moved.frames.reshape(-1, 33)[1:])
        )
        assert moved.extra["dissipated"][-1] > 1.2 * damped
