"""What robots are made of, against closed forms: cables, gas, layers and fibres; every number with its reference.

python benchmarks/fabric.py [tendon friction gas layer tube ...]
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.interpolate import CubicSpline

import geosim
from geosim import (
    Cable,
    CableLengths,
    CableTensions,
    Fibre,
    Inflation,
    Layer,
    LinearElastic,
    NeoHookean,
    Select,
    Syringe,
    VolumetricRobot,
    generate,
)
from geosim.actuation import AMBIENT

MU = 50e3  # shear modulus [Pa]
ROUGH = 0.3  # coefficient of friction
FAMILY = 10  # fibres of either hand on the tube: fewer let the wall bulge between them
THREAD = LinearElastic(youngs_modulus=3e9, poisson_ratio=0.4)  # polyester
HELD = Select.plane("x", below=1e-6)


def brick(size, cells, **options):
    """Return a block of so many cells, each of six tets, clamped at x = 0."""
    grid = [np.linspace(0.0, s, c + 1) for s, c in zip(size, cells)]
    vertices = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange(len(vertices)).reshape([c + 1 for c in cells])
    tets = []
    for i, j, k in np.ndindex(*cells):
        corner = number[i : i + 2, j : j + 2, k : k + 2]
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            at, ids = [0, 0, 0], [corner[0, 0, 0]]
            for axis in order:
                at[axis] = 1
                ids.append(corner[tuple(at)])
            tets.append(ids)
    return VolumetricRobot.from_tets(vertices, np.array(tets), material=NeoHookean(mu=MU), fixed=HELD, **options)


def wraps(result, frame):
    """Angles of wrap of the first cable."""
    problem = result.state.problem
    t = problem.cables.strands.ways(problem.scaled(result.nodes(frame)[problem.nodes]))[0]
    return np.arccos(np.clip((t[1:] * t[:-1]).sum(axis=1), -1.0, 1.0))


def beam(**options):
    """Return a slender beam with a cable 3 mm above its axis."""
    points = [(x, 5e-3, 8e-3) for x in np.linspace(0.0, 0.1, 11)]
    return brick((0.1, 0.01, 0.01), (10, 1, 1), cables=[Cable(points, **options)])


def tendon():
    """Length and tension, work, beam theory."""
    bent = geosim.solve(beam(), CableTensions([0.02]))
    theory = 0.02 * 3e-3 * 0.1 / (3 * MU * 0.01**4 / 12)
    print(
        f"beam: bend {bent.bend_angle[0]:.5f} rad, T e L / E I = {theory:.5f}: {bent.bend_angle[0] / theory - 1:+.2%}"
    )
    finger = generate.tendon_finger().robot("dragon-skin-30", max_edge=12e-3)
    pulled = geosim.solve(finger, CableTensions([1.0]))
    again = geosim.solve(finger, CableLengths(pulled.cable_lengths))
    apart = np.abs(again.frames - pulled.frames).max()
    print(
        f"tendon finger: bend {np.degrees(pulled.bend_angle[0]):.2f} deg at 1 N, cable {1e3 * pulled.cable_lengths[0, 0]:.3f} mm;"
    )
    print(f"  by that length: tension {again.cable_tensions[0, 0]:.6f} N, shapes differ by {apart * 1e9:.2g} nm")
    lengths = np.linspace(0.1, 0.5 * (0.1 + pulled.cable_lengths[0, 0]), 9)  # before the notches close
    path = geosim.solve(finger, CableLengths(lengths[1:]))
    tension = np.concatenate([[0.0], path.cable_tensions[:, 0]])
    work = float(CubicSpline(-lengths, tension).integrate(-lengths[0], -lengths[-1]))
    print(
        f"  work of the cable {1e3 * work:.6f} mJ, stored {1e3 * path.work[-1]:.6f} mJ: {work / path.work[-1] - 1:+.1e}"
    )


def friction():
    """exp(mu angle) while pulling, stick on reversal."""
    result = geosim.solve(beam(friction=ROUGH), CableTensions([0.1, 0.3, 0.29, 0.1]))
    for frame, name in enumerate(("pulling", "pulling", "let go a little", "letting go")):
        first, last = result.cable_end_tensions[frame, 0]
        limit = np.exp(ROUGH * wraps(result, frame).sum())
        ratio = max(first / last, last / first)
        print(
            f"{name}: {first:.4f} N to {last:.4f} N, ratio {ratio:.5f}, exp(mu angle) {limit:.5f}: {ratio / limit - 1:+.2%}"
        )
    kept = result.cable_end_tensions[2, 0, 1] / result.cable_end_tensions[1, 0, 1]
    bend = result.bend_angle[2] / result.bend_angle[1]
    print(f"stick on reversal: the far end keeps {kept:.4%} of its tension, the bend {bend:.3%}")


def gas():
    """Two connected chambers, balance of work, a sealed finger pressed by a plate."""
    finger = generate.round_finger(length=30e-3, radius=8e-3, wall=2e-3, cap=4e-3).robot("ecoflex-00-30", max_edge=6e-3)
    pair = generate.round_finger(chambers=2, length=30e-3, radius=8e-3, wall=2e-3, cap=4e-3).robot(
        "ecoflex-00-30", max_edge=6e-3
    )
    rest, pushed = pair.chamber_volumes.sum(), 0.3e-6
    extra = 1e-6
    both = geosim.solve(pair, Inflation(gas=True, connected=[(0, 1)], extra_volume=extra) & Syringe(pushed))
    P = both.chamber_pressures[0]
    closed = AMBIENT * (rest + extra) / (both.chamber_volumes[0].sum() + extra - pushed) - AMBIENT
    print(f"connected chambers: {P[0]:.4f} and {P[1]:.4f} Pa, closed form {closed:.4f} Pa: {P[0] / closed - 1:+.1e}")
    s = np.linspace(0.0, 1.0, 9)[1:] * finger.chamber_volumes[0]
    blown = geosim.solve(finger, Inflation(gas=True, extra_volume=1.5 * float(finger.chamber_volumes[0])) & Syringe(s))
    v = np.concatenate([finger.chamber_volumes, blown.chamber_volumes[:, 0]])
    work = float(CubicSpline(v, np.concatenate([[0.0], blown.chamber_pressures[:, 0]])).integrate(v[0], v[-1]))
    print(
        f"syringe: integral P dv {1e3 * work:.6f} mJ, stored {1e3 * blown.work[-1]:.6f} mJ: {work / blown.work[-1] - 1:+.1e}"
    )
    plate = geosim.Obstacle.plane((0, 0, 9e-3), (0, 0, -1), motion=[(0, 0, -1.8e-3)])
    pressed = geosim.solve(
        finger,
        Inflation(gas=True) & geosim.Passive(),
        geosim.Environment(obstacles=[plate], self_contact=False),
        solver=geosim.EnergyShapeSolver(element="p1"),
    )
    ratio, found = pressed.volume_ratios[0, 0], pressed.chamber_pressures[0, 0]
    hand, force = AMBIENT * (1 / ratio - 1), np.linalg.norm(pressed.obstacle_forces[0, 0])
    print(
        f"sealed finger, plate: V/V0 {ratio:.5f}, {found:.3f} Pa, by hand {hand:.3f} Pa: {found / hand - 1:+.1e}; {force:.3f} N"
    )


def layer():
    """Bend of a bender against the stiffness of its layer: the limit that does not lengthen."""
    # A bimorph: the block is pulled by a cable at its top, the layer at its bottom keeps its length.
    points = [(x, 5e-3, 8e-3) for x in np.linspace(0.0, 0.1, 11)]
    angles = []
    moduli = [0.0, 1e6, 1e7, 1e8, 1e9, 1e10]
    for young in moduli:
        sheet = (
            [Layer(Select.plane("z", below=1e-6), 0.1e-3, LinearElastic(youngs_modulus=young, poisson_ratio=0.3))]
            if young
            else []
        )
        robot = brick((0.1, 0.01, 0.01), (20, 2, 2), cables=[Cable(points)], layers=sheet)
        angles.append(geosim.solve(robot, CableTensions([0.02])).bend_angle[0])
        print(f"layer of {young:8.1e} Pa: bend {np.degrees(angles[-1]):.4f} deg")
    E, b, h, e = 3 * MU, 0.01, 0.01, 8e-3
    limit = 0.02 * e * 0.1 / (E * b * h**3 / 3)  # a beam whose neutral axis lies in its bottom
    print(f"inextensible limit T z L / (E b h^3 / 3) = {np.degrees(limit):.4f} deg: {angles[-1] / limit - 1:+.2%}")
    net = {}
    for t in (None, 0.1e-3):
        robot = generate.pneunet(chambers=3, layer=t).robot("dragon-skin-30", max_edge=7e-3)
        net[t] = geosim.solve(robot, Inflation(pressure=8e3))
        bend, ratio = np.degrees(net[t].bend_angle[0]), net[t].volume_ratios[0, 0]
        print(f"pneunet, paper {t}: bend {bend:.2f} deg at 8 kPa, V/V0 {ratio:.4f}")


def tube():
    """A thin tube wound with two families of fibres under pressure, against netting theory."""
    radius, wall, length = 6e-3, 1e-3, 30e-3
    neutral = np.degrees(np.arctan(np.sqrt(2 * radius / (radius - wall))))
    print(
        f"netting theory: fibres on the outside of this wall keep the length at {neutral:.1f} deg, of a thin wall at 54.7 deg"
    )
    for angle in (30.0, 54.7356, neutral, 70.0):
        body = generate.round_finger(length=length, radius=radius, wall=wall, cap=1.5e-3)
        turns = length / (2 * np.pi * radius / np.tan(np.radians(angle)))
        fibres = [
            Fibre.helix((0.2e-3, 0, 0), (length - 0.2e-3, 0, 0), radius - 0.05e-3, way * turns, 0.1e-3, THREAD, phase=p)
            for way in (1, -1)
            for p in 2 * np.pi * np.arange(FAMILY) / FAMILY
        ]
        robot = VolumetricRobot.from_surfaces(
            body.body,
            body.chambers,
            material="ecoflex-00-30",
            fixed=body.fixed,
            tip=body.tip,
            max_edge=5e-3,
            fibres=fibres,
        )
        result = geosim.solve(robot, Inflation(pressure=[5e3]), throw=False)
        if not len(result.frames):
            print(f"{angle:.1f} deg: {result.message}")
            continue
        change, twist = (result.tip[-1, 0] - length) / length, np.degrees(result.twist_angle[-1])
        sign = "shortens" if change < -2e-3 else "lengthens" if change > 2e-3 else "keeps its length"
        print(
            f"{angle:5.1f} deg: length {change:+.3%}, twist {twist:+.2f} deg, V/V0 {result.volume_ratios[-1, 0]:.4f}: {sign}"
        )


SECTIONS = {f.__name__: f for f in (tendon, friction, gas, layer, tube)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        print(f"--- {name}: {SECTIONS[name].__doc__}")
        SECTIONS[name]()
