"""Friction between parts of a robot: Coulomb's law, balance, derivatives, and independence of the increments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shapes import block

import geosim
from geosim import Environment, Passive, Prescribed, RigidGroup

MU, GAP = 20e3, 0.0005  # Pa, m


def _stack():
    """A soft block above one face of a hard plate; the vertices of the plate, and the soft block's top."""
    low, first = block((0.04, 0.04, 0.004), (1, 1, 1))
    high, second = block((0.01, 0.01, 0.005), (2, 2, 2))
    vertices = np.vstack([low, high + [0.022, 0.004, 0.004 + GAP]])
    regions = np.repeat([0, 1], [len(first), len(second)])
    robot = geosim.VolumetricRobot.from_tets(
        vertices,
        np.vstack([first, second + len(low)]),
        regions,
        material={0: geosim.NeoHookean(mu=100 * MU), 1: geosim.NeoHookean(mu=MU)},
        fixed=np.flatnonzero(vertices[:, 2] < 1e-9),
    )
    return robot, len(low), np.flatnonzero(vertices[:, 2] > vertices[:, 2].max() - 1e-9)


def _path(steps, down=0.0007, aside=0.002):
    """Down in one command, aside in `steps`."""
    out = np.zeros((steps + 1, 3))
    out[:, 2] = -down
    out[1:, 0] = aside * np.arange(1, steps + 1) / steps
    return out


def _slid(steps, mu=0.4, plate=False):
    robot, split, top = _stack()
    path = _path(steps)
    held = {"rigid_groups": RigidGroup(top, path, (0, 0, 0))} if plate else {"prescribed": Prescribed(top, path)}
    solver = geosim.EnergyShapeSolver(element="p1", invariants="isochoric", check_stability=False)
    return geosim.solve(robot, Passive(steps=steps + 1), Environment(self_friction=mu, **held), solver=solver), split


@pytest.mark.parametrize("plate", [False, True])
def test_a_block_slides_on_another_at_the_coefficient(plate):
    """f_t = mu f_n where all slides, less before; forces and moments between the blocks balance."""
    result, split = _slid(2, plate=plate)
    on_high = result.contact_forces[:, split:].sum(axis=1)
    ratio = -on_high[:, 0] / on_high[:, 2]
    assert on_high[-1, 2] > 0.05
    assert abs(ratio[0]) < 0.01
    assert ratio[-1] == pytest.approx(0.4, rel=0.005)
    for forces, at in zip(result.contact_forces, result.frames):
        size = np.abs(forces).sum()
        assert np.abs(forces.sum(axis=0)).max() < 1e-9 * size
        lever = 0.05 * 0.005  # friction acts on both surfaces, which are a thickness of contact apart
        assert np.abs(np.cross(at, forces).sum(axis=0)).max() < lever * size
    held = result.reactions[-1].sum(axis=0)
    assert np.abs(held).max() < 1e-5 * on_high[-1, 2]
    assert result.extra["slip_ratio"].max() <= 1.0 + 1e-6
    assert result.extra["slip_ratio"][-1] > 0.999


def test_commands_of_half_the_size_change_nothing():
    coarse, fine = (_slid(steps)[0] for steps in (1, 2))
    for a, b in ((0, 0), (1, 2)):
        forces = [r.contact_forces[i, r.robot.vertices[:, 2] > 0.0042].sum(axis=0) for r, i in ((coarse, a), (fine, b))]
        assert forces[0] == pytest.approx(forces[1], abs=0.01 * np.linalg.norm(forces[1]))


def _pressed():
    """A state of the stack at rest, its nodes with the soft block pressed on the plate, and which of them are the block's."""
    robot, _, top = _stack()
    solver = geosim.EnergyShapeSolver(element="p2")
    state = solver.start(robot, Environment(self_friction=0.4, prescribed=Prescribed(top, (0, 0, 0))))
    contact, x = state.problem.contact, state.point.x.copy()
    high = x[:, 2] > (0.0042 - contact.at_rest.body.center[2]) / contact.length
    x[high, 2] -= 0.9 * GAP / contact.length  # pairs begin at a quarter of their distance at rest
    return state, x, high


@pytest.mark.parametrize(("way", "kept"), [(0.5, 0.5), (3.0, 1.0)])
def test_points_keep_what_is_elastic_of_a_slip(way, kept):
    """Moved aside by so many of the slip up to which it sticks, the block holds on by at most one, after the increment, too."""
    state, x, high = _pressed()
    contact = state.problem.contact
    held = contact.evaluate(x, state.contact_state, matrix=False).touching
    scale = held.scale.min()
    held = held._replace(scale=np.full(len(held.scale), scale))
    hold = replace(state.contact_state.parts, start=contact.surface.points(x)).lagged(held)
    moved = x + way * scale * np.outer(high, (0.6, 0.8, 0.0))
    points = contact.surface.points(moved)
    slips = hold.slips(points)[0]
    assert np.linalg.norm(slips, axis=1) == pytest.approx(way * scale, rel=1e-9)
    after = hold.renewed(points).slips(points)[0]
    assert after == pytest.approx(slips * kept / way, abs=1e-9 * scale)


@pytest.mark.parametrize("own", [False, True])
def test_tangent_is_the_derivative_of_the_forces(own):
    state, x, high = _pressed()
    problem, contact = state.problem, state.problem.contact
    rng = np.random.default_rng(5)
    x += 1e-3 * rng.normal(size=x.shape) * contact.thickness.min()
    contact_state = state.contact_state.lagged(contact.evaluate(x, state.contact_state, matrix=False))
    start = contact_state.parts.start + 0.02 * contact.thickness.min() * rng.normal(
        size=contact_state.parts.start.shape
    )
    contact_state = replace(contact_state, own=own, parts=replace(contact_state.parts, start=start))
    x[high, 0] += 1.5 * contact.thickness.min() * np.linspace(0.0, 1.0, high.sum())  # some stick, some slide
    x[high, 2] -= 0.001 * contact.thickness.min()
    size = (
        np.linalg.norm(contact_state.parts.slips(contact.surface.points(x))[0], axis=1) / contact_state.parts.held.scale
    )
    assert size.min() < 1.0 < size.max()
    forces = contact.evaluate(x, contact_state, matrix=True)
    pattern, data = contact.stiffened(x, forces, problem.pattern, np.zeros(len(problem.pattern.indices)))
    data = contact.added(forces.bends, pattern, data)
    for _ in range(2):
        d = rng.normal(size=x.shape)
        up, down = (contact.evaluate(y, contact_state, matrix=False).force for y in (x + 1e-8 * d, x - 1e-8 * d))
        want = (up - down) / 2e-8
        got = pattern.product(data, np.concatenate([d.ravel(), np.zeros(pattern.size - d.size)]))
        contact.apply_slides(forces, np.ones(d.size, dtype=bool), d.ravel(), got)
        assert got[: d.size].reshape(d.shape) == pytest.approx(want, abs=2e-5 * np.abs(want).max())
