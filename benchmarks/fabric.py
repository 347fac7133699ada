"""What robots are made of and what they hold: cables, gas, layers, fibres and grips, every number with its reference.

python benchmarks/fabric.py [tendon friction gas layer tube grasp ...]
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
from geosim.model.actuation import AMBIENT_PRESSURE_PA

MU = 50e3  # shear modulus [Pa]
ROUGH = 0.3  # coefficient of friction
FAMILY = 10  # fibres of either hand on the tube: fewer let the wall bulge between them
THREAD = LinearElastic(youngs_modulus=3e9, poisson_ratio=0.4)  # polyester
HELD = Select.plane("x", below=1e-6)
LIFT = 2e-3  # [m]


def lattice(size, cells):
    """Return vertices and tets of a block of so many cells, each of six tets."""
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
    return vertices, np.array(tets)


def brick(size, cells, **options):
    """Return a block clamped at x = 0."""
    return VolumetricRobot.from_tets(*lattice(size, cells), material=NeoHookean(mu=MU), fixed=HELD, **options)


def wraps(result, frame):
    """Angles of wrap of the first cable."""
    problem = result.state.problem
    t = problem.cables.strands.ways(problem.scaled(result.nodes(frame)[problem.nodes]))[0]
    return np.arccos(np.clip((t[1:] * t[:-1]).sum(axis=1), -1.0, 1.0))


def beam(**options):
    """Return a slender beam with a cable 3 mm above its axis."""
    points = [(x, 5e-3, 8e-3) for x in np.linspace(0.0, 0.1, 11)]
    return brick((0.1, 0.01, 0.01), (10, 1, 1), cables=[Cable(points, **options)])


def integral(x, y, split=0):
    """Integral of y over x by splines that meet at one of the points."""
    parts = (slice(0, split + 1), slice(split, None))
    return sum(float(CubicSpline(x[p], y[p]).integrate(x[p][0], x[p][-1])) for p in parts if len(x[p]) > 1)


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
    begins, last = (
        91.8e-3,
        pulled.cable_lengths[0, 0],
    )  # the notches close: the tension has kinks, which ask for close frames
    lengths = np.concatenate([np.linspace(0.1, begins, 7), np.linspace(begins, last, 81)[1:]])
    path = geosim.solve(finger, CableLengths(lengths[1:]))
    work = integral(-lengths, np.concatenate([[0.0], path.cable_tensions[:, 0]]), split=6)
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
    finger = generate.round_finger(length=30e-3, radius=8e-3, wall=2e-3, cap=4e-3).robot(
        "ecoflex-00-30-fang2022", max_edge=6e-3
    )
    pair = generate.round_finger(chambers=2, length=30e-3, radius=8e-3, wall=2e-3, cap=4e-3).robot(
        "ecoflex-00-30-fang2022", max_edge=6e-3
    )
    rest, pushed = pair.chamber_volumes.sum(), 0.3e-6
    extra = 1e-6
    both = geosim.solve(pair, Inflation(gas=True, connected=[(0, 1)], extra_volume=extra) & Syringe(pushed))
    P = both.chamber_pressures[0]
    closed = (
        AMBIENT_PRESSURE_PA * (rest + extra) / (both.chamber_volumes[0].sum() + extra - pushed) - AMBIENT_PRESSURE_PA
    )
    print(f"connected chambers: {P[0]:.4f} and {P[1]:.4f} Pa, closed form {closed:.4f} Pa: {P[0] / closed - 1:+.1e}")
    s = np.linspace(0.0, 1.0, 9)[1:] * finger.chamber_volumes[0]
    blown = geosim.solve(finger, Inflation(gas=True, extra_volume=1.5 * float(finger.chamber_volumes[0])) & Syringe(s))
    v = np.concatenate([finger.chamber_volumes, blown.chamber_volumes[:, 0]])
    work = integral(v, np.concatenate([[0.0], blown.chamber_pressures[:, 0]]))
    print(
        f"syringe: integral P dv {1e3 * work:.6f} mJ, stored {1e3 * blown.work[-1]:.6f} mJ: {work / blown.work[-1] - 1:+.1e}"
    )
    ways = np.concatenate(
        [[0.9e-3], np.linspace(0.9e-3, 1.8e-3, 81)[1:]]
    )  # it touches at 1 mm; every point that comes is a kink
    plate = geosim.Obstacle.plane((0, 0, 9e-3), (0, 0, -1), motion=[(0, 0, -way) for way in ways])
    pressed = geosim.solve(
        finger,
        Inflation(gas=True) & geosim.Passive(steps=len(ways)),
        geosim.Environment(obstacles=[plate], self_contact=False),
        solver=geosim.EnergyShapeSolver(element="p1"),
    )
    v, found = pressed.chamber_volumes[:, 0], pressed.chamber_pressures[-1, 0]
    rest = float(finger.chamber_volumes[0])
    hand, force = AMBIENT_PRESSURE_PA * (rest / v[-1] - 1), np.linalg.norm(pressed.obstacle_forces[-1, 0])
    print(
        f"sealed finger, plate: V/V0 {v[-1] / rest:.5f}, {found:.3f} Pa, by hand {hand:.3f} Pa: {found / hand - 1:+.1e}; "
        f"{force:.3f} N"
    )
    given = integral(ways, pressed.obstacle_forces[:, 0, 2])
    kept = AMBIENT_PRESSURE_PA * (rest * np.log(v[0] / v[-1]) - (v[0] - v[-1])) + pressed.work[-1] - pressed.work[0]
    print(
        f"  work of the plate {1e3 * given:.6f} mJ, in wall, contact and gas {1e3 * kept:.6f} mJ: {given / kept - 1:+.1e}"
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
    # the wall is incompressible: what its fibres enclose grows as much as the chamber does
    print(
        "netting theory: fibres at 54.7 deg keep the length, those more along the axis shorten, those around it lengthen it"
    )
    for angle in (30.0, 54.7356, 70.0):
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
            material="ecoflex-00-30-fang2022",
            fixed=body.fixed,
            tip=body.tip,
            max_edge=5e-3,
            fibres=fibres,
        )
        result = geosim.solve(robot, Inflation(pressure=[5e3]), throw=False)
        if not len(result.frames):
            print(f"{angle:.1f} deg: {result.message}")
            continue
        middle = np.abs(robot.vertices[:, 0] - 0.5 * length) < 0.25 * length  # away from the cap, which bulges
        change = np.polyfit(robot.vertices[middle, 0], result.frames[-1, middle, 0], 1)[0] - 1.0
        rim = np.linalg.norm(robot.vertices[:, 1:], axis=1) > 0.99 * radius  # the middle of the cap bulges
        rim &= robot.vertices[:, 0] > length - 1e-6
        whole, twist = result.frames[-1, rim, 0].mean() / length - 1.0, np.degrees(result.twist_angle[-1])
        sign = "shortens" if change < -2e-3 else "lengthens" if change > 2e-3 else "keeps its length"
        print(
            f"{angle:5.1f} deg: middle half {change:+.3%}, to the rim of the cap {whole:+.3%}, twist {twist:+.2f} deg, "
            f"V/V0 {result.volume_ratios[-1, 0]:.4f}: {sign}"
        )


def lifted(thing, count, size, cells, gap, top, press, mu):
    """Blocks around the axis z close on an object with their whole tops (`top`) or backs, let it go, and lift it by 2 mm."""
    block, tets = lattice(size, cells)
    block += [0.5 * gap, -0.5 * size[1], -size[2] if top else -0.5 * size[2]]
    moves = block[:, 2] > -1e-9 if top else block[:, 0] > 0.5 * gap + size[0] - 1e-9
    parts, driven = [], []
    for i in range(count):
        angle = np.pi + 2.0 * np.pi * i / count
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        parts.append(block @ turn.T)
        way = [-press * turn[:, 0] + [0, 0, z] for z in (0.0, 0.0, LIFT)]
        driven.append(geosim.Prescribed(np.flatnonzero(moves) + i * len(block), way))
    robot = VolumetricRobot.from_tets(
        np.vstack(parts),
        np.vstack([tets + i * len(block) for i in range(count)]),
        material=NeoHookean(mu=mu, density=0.0),
        fixed=None,
        tip=driven[0].vertices,
    )
    around = geosim.Environment(gravity=(0, 0, -9.81), obstacles=[thing], prescribed=driven, self_contact=False)
    return geosim.solve(robot, geosim.Passive(steps=3), around)


def needed(result, count, frame):
    """Coefficient of friction that statics asks for: what pulls over what presses, of every finger at its middle of pressure."""
    thing, pose = result.environment.obstacles[0], result.obstacle_poses[frame, 0]
    middle, ratios = pose[:3, :3] @ thing.middle + pose[:3, 3], []
    places, pushes = (a[frame].reshape(count, -1, 3) for a in (result.frames, result.contact_forces))
    for x, forces in zip(places, pushes):
        share = np.linalg.norm(forces, axis=1)
        normal = share @ (x - middle) / share.sum()
        normal = normal * [1, 1, 0] if thing.shape == "box" else normal
        normal /= np.linalg.norm(normal)
        push = forces.sum(axis=0)
        ratios.append(np.linalg.norm(push - (push @ normal) * normal) / (push @ normal))
    return float(np.mean(ratios))


def ball(friction):
    """10 g between the ends of fingers that hang."""
    return geosim.Obstacle.sphere((0, 0, -22e-3), 10e-3, friction=friction, free=True, mass=0.01)


def cube(friction):
    """60 g between flat jaws."""
    return geosim.Obstacle.box((-8e-3, -12e-3, -12e-3), (8e-3, 12e-3, 12e-3), friction=friction, free=True, mass=0.06)


GRIPS = {
    "ball, three bending fingers": (ball, (0.755, 0.775), 3, (8e-3, 8e-3, 30e-3), (2, 2, 6), 20e-3, True, 2e-3, 2 * MU),
    "cube, two jaws": (cube, (0.37, 0.39), 2, (10e-3, 20e-3, 20e-3), (1, 4, 4), 16e-3, False, 0.1e-3, MU),
}


def grasp():
    """A ball lifted by three fingers, a cube by two jaws: the least friction that holds them against what statics needs."""
    for name, (thing, (low, high), count, *contact_state) in GRIPS.items():
        kept = lost = None
        while high - low > 0.003 * high:
            friction = 0.5 * (low + high)
            result = lifted(thing(friction), count, *contact_state)
            if result.obstacle_held[-1, 0]:
                high, kept = friction, result
            else:
                low, lost = friction, result
        if kept is None or lost is None:
            print(f"{name}: the limit is outside of {low:.4f} .. {high:.4f}")
            continue
        need, way = needed(kept, count, -1), 1e3 * kept.obstacle_poses[-1, 0, 2, 3]
        print(
            f"{name}: mu = {high:.4f} holds, {low:.4f} loses ({lost.message.partition(': ')[2]}); lifted by {way:.3f} mm, "
            f"statics needs {need:.4f}: {need / high - 1:+.2%}, {need / low - 1:+.2%}; {len(kept.trace)} and "
            f"{len(lost.trace)} Newton"
        )


SECTIONS = {f.__name__: f for f in (tendon, friction, gas, layer, tube, grasp)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        print(f"--- {name}: {SECTIONS[name].__doc__}")
        SECTIONS[name]()
