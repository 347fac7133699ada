"""A rod with tendons against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import geosim

RADIUS, LENGTH, MODULUS = 5e-3, 0.2, 1e6
SECOND = 0.25 * np.pi * RADIUS**4


def straight(board, count=20, away=3e-3):
    lines = np.tile([away, 0.0], (1, count, 1))
    return board("rod").Rod(np.full(count, LENGTH / count), np.full(count, RADIUS), lines)


def test_a_tendon_along_the_axis_bends_to_an_arc(board):
    """kappa = T d / (E I), v = 1 - T / (E A), without weight; places are off by chords for arcs, (kappa h)^2 / 24."""
    tension = 2.0
    shape = board("rod").bend(straight(board), MODULUS, 1e-9, [tension], np.eye(3))
    np.testing.assert_allclose(shape.strains[:, 2], tension * 3e-3 / (MODULUS * SECOND), rtol=1e-6)
    np.testing.assert_allclose(shape.strains[:, 3], 1.0 - tension / (MODULUS * np.pi * RADIUS**2), rtol=1e-6)
    chords = 1.5 * LENGTH * (shape.strains[0, 2] * LENGTH / 20) ** 2 / 24
    angle, arc = shape.strains[0, 2] * LENGTH, shape.strains[0, 3] / shape.strains[0, 2]
    np.testing.assert_allclose(shape.places[-1], [arc * np.sin(angle), arc * (1 - np.cos(angle)), 0.0], atol=chords)


def test_a_tendon_that_rubs_loses_tension_with_the_angle(board):
    """kappa EI / d = T0 exp(-mu theta), theta' = kappa: exp(mu theta) = 1 + mu T0 d s / (E I)."""
    tension, mu = 2.0, 0.4
    rod = straight(board, 60)
    shape = board("rod").bend(rod, MODULUS, 1e-9, [tension], np.eye(3), friction=mu)
    slope = tension * 3e-3 / (MODULUS * SECOND)
    np.testing.assert_allclose(shape.strains[:, 2], slope / (1.0 + mu * slope * rod.stations), rtol=0.02)


def test_a_cantilever_sags_by_its_weight(board):
    """w L^4 / (8 E I), w = rho A g, for small deflections."""
    density = 20.0
    shape = board("rod").bend(straight(board, 40), MODULUS, density, [0.0], np.eye(3))
    expected = density * np.pi * RADIUS**2 * 9.81 * LENGTH**4 / (8 * MODULUS * SECOND)
    assert shape.places[-1, 2] == pytest.approx(-expected, rel=5e-3)


def test_a_hanging_rod_stays_straight_and_a_turned_base_turns_the_shape(board):
    bend = board("rod").bend
    hanging = bend(straight(board), MODULUS, 1000.0, [0.0])
    assert np.abs(hanging.places[:, :2]).max() < 1e-12
    assert hanging.places[-1, 2] < -LENGTH
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # about the direction of gravity
    one = bend(straight(board), MODULUS, 1000.0, [1.0])
    other = bend(straight(board), MODULUS, 1000.0, [1.0], turn @ one.rotations[0])
    np.testing.assert_allclose(other.places, one.places @ turn.T, atol=1e-9)
    point = one.at(straight(board), 0.5 * LENGTH, (0, 0, 0))
    np.testing.assert_allclose(point, one.places[10], atol=1e-9)


def test_rubber_is_pressed_together_and_bends_as_its_fibres_say(board):
    """E / 3 A (v - v^-2) = -T; a small bend u = T d v^(1/2) / (w''(v) I), and (v - v^-2) A E / 3 = -T on its axis."""
    area, tension = np.pi * RADIUS**2, 8.0
    bend, rods = board("rod").bend, {away: straight(board, away=away) for away in (0.0, 1e-6)}
    axis, aside = (bend(rods[away], MODULUS, 1e-9, [tension], np.eye(3), rubber=True).strains[0] for away in rods)
    v = axis[3]
    assert MODULUS / 3.0 * area * (v - v**-2) == pytest.approx(-tension, rel=1e-9)
    assert v < 0.92
    tangent = MODULUS * (1.0 + 2.0 * v**-3) / 3.0
    assert aside[2] == pytest.approx(tension * 1e-6 * v**0.5 / (tangent * SECOND), rel=1e-4)


def test_rubber_bends_as_finite_elements_do(board):
    """Nine cables over the section, more of them on one side, 7 % shorter: the turn between two sections within 2 %."""
    count, sections, length, radius, modulus = 4, 10, 0.06, 6.4e-3, 250e3
    side, along = np.linspace(-1.0, 1.0, count + 1), np.linspace(0.0, length, sections + 1)
    x, u, v = np.meshgrid(along, side, side, indexing="ij")
    grid = np.stack([x, u * np.sqrt(1.0 - 0.5 * v**2), v * np.sqrt(1.0 - 0.5 * u**2)], axis=-1)  # squares onto discs
    number = np.arange(grid[..., 0].size).reshape(x.shape)
    corners = np.stack([number[i : sections + i, j : count + j, k : count + k].ravel()
                        for k in (0, 1) for j in (0, 1) for i in (0, 1)], axis=1)  # fmt: skip
    tets = corners[:, board("segments").KUHN].reshape(-1, 4)
    points = grid.reshape(-1, 3)
    edges = points[tets[:, 1:]] - points[tets[:, :1]]
    volumes = np.linalg.det(edges) / 6.0
    tets[volumes < 0] = tets[volumes < 0][:, [1, 0, 2, 3]]
    grid[..., 1:] *= radius * np.sqrt(np.pi * length / np.abs(volumes).sum())
    end = (grid.reshape(-1, 3)[tets].mean(axis=1)[:, 0] > along[-2]).astype(int)  # stiff, where cables end
    lines = grid[:, 1:-1, 1:-1].reshape(sections + 1, -1, 3)
    pulls = 0.2 * (1.0 + 0.5 * lines[0, :, 2] / radius)
    rubber = {0: geosim.NeoHookean(modulus / 3.0), 1: geosim.NeoHookean(30.0 * modulus)}
    robot = geosim.VolumetricRobot.from_tets(
        grid.reshape(-1, 3), tets, end, material=rubber, fixed=geosim.Select.plane("x", below=1e-9),
        tip=geosim.Select.plane("x", above=length - 1e-9), allow_any_size=True,
        cables=[geosim.Cable(lines[:, k]) for k in range(lines.shape[1])],
    )  # fmt: skip
    still = geosim.Environment(self_contact=False)
    solver = geosim.EnergyShapeSolver(check_stability=False)
    frame = geosim.solve(robot, geosim.CableTensions(pulls[None]), still, solver=solver).frames[-1]
    turns = []
    for k in (3, 7):
        across = frame[number[k, 2, -1]] - frame[number[k, 2, 0]]
        turns.append(np.arctan2(across[0], across[2]))
    tendons = np.array([np.tile(line[0, 1:], (20, 1)) for line in lines.transpose(1, 0, 2)])
    rod = board("rod").Rod(np.full(20, length / 20), np.full(20, radius), tendons)
    found, linear = (
        np.linalg.norm(
            board("rod").bend(rod, modulus, 1e-9, pulls, np.eye(3), poisson=0.5, rubber=kind).strains[10, 1:3]
        )
        for kind in (True, False)
    )
    turned = abs(turns[1] - turns[0]) / (along[7] - along[3])
    assert found == pytest.approx(turned, rel=0.02)
    assert linear > 1.1 * turned


def test_discrete_rods_with_guides_agree_with_tendons_in_channels(board):
    """Two models of one tentacle, a bend of a right angle: apart by 0.7 mm with 32 segments, by 9 mm with 16."""
    rods, channels = board("tentacle_rods"), board("tentacle")
    z, pull = np.zeros(len(channels.PRIORS)), np.array([0.0, 4.6154])
    z[5:8] = 1.0, -1.0, 1.0  # a base that is turned, whose directors are not those of the markers
    expected = channels.markers(pull, z)
    apart = [np.abs(rods.markers(pull, z, count, 5) - expected).max() for count in (16, 32)]
    assert apart[1] < 2e-3
    assert apart[1] < 0.5 * apart[0]


def test_markers_of_discrete_rods_hang_where_they_are_mounted(board):
    """Without a pull, with the base moved by its prior: x to the side of the offsets, the tentacle along -z, the tip beyond."""
    rods, channels = board("tentacle_rods"), board("tentacle")
    z = np.zeros(len(channels.PRIORS))
    z[2:5] = 1.0
    found = rods.markers(np.zeros(2), z, 16, 4).reshape(4, 3) - channels.PRIORS[2:5]
    np.testing.assert_allclose(found[:, 0], [o[2] for _, o in channels.MARKERS], atol=1e-9)
    np.testing.assert_allclose(found[:, 1], 0.0, atol=1e-9)
    at = np.array([s + o[0] for s, o in channels.MARKERS])
    assert (-found[:, 2] > at).all()  # it is stretched by its weight
    np.testing.assert_allclose(-found[:, 2], at, rtol=0.02)
