"""Contact of the energy solver: against theory, and what grasps, bellows and membranes take.

    python benchmarks/contact.py [hertz column slip pneunet shipped gripper halves sizes grasps membrane]

All by default (an hour or two); arguments of a section follow colons: `gripper:p2:0.5`, `grasps:10`, `pneunet:1.5,2:p1`.
Only `pneunet` needs reference data.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim import Environment, Inflation, NeoHookean, Obstacle, Passive, Prescribed, VolumetricRobot
from geosim.shape.energy.solver import EnergyShapeSolver

NAN = np.nan
SPLIT = ((0, 1, 3, 7), (0, 3, 2, 7), (0, 2, 6, 7), (0, 6, 4, 7), (0, 4, 5, 7), (0, 5, 1, 7))


def bricks(*axes: Any) -> tuple[Any, Any]:
    """Vertices and tets of a brick whose cells lie between the given coordinates."""
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    index = np.arange(len(vertices)).reshape([len(a) for a in axes])
    cells = [
        index[i : i + 2, j : j + 2, k : k + 2].ravel()
        for i in range(len(axes[0]) - 1)
        for j in range(len(axes[1]) - 1)
        for k in range(len(axes[2]) - 1)
    ]
    return vertices, np.array([v[list(t)] for v in cells for t in SPLIT])


def graded(count: int, first: float, length: float, growth: float) -> Any:
    """Coordinates from 0: `count` equal cells, then growing ones."""
    x = list(first * np.arange(count + 1))
    while x[-1] < length:
        x.append(x[-1] + growth * (x[-1] - x[-2]))
    return np.array(x)


def hertz(elements: str = "4,6,8", growth: str = "1.7", depths: str = "0.15,0.4,0.7,1.0") -> None:
    """A quarter of a soft block on a rigid sphere, a/R = 0.09: force against depth from first touch."""
    radius, a, mu = 0.05, 0.0045, 20e3
    depth, gap = a * a / radius, 3e-4
    theory = 4.0 / 3.0 * (4.0 * mu) * np.sqrt(radius) * depth**1.5  # E / (1 - nu^2) = 4 mu
    for count in (int(v) for v in elements.split(",")):
        h = a / count
        x, z = (graded(cells, h, 0.15, float(growth)) for cells in (int(1.3 * count), count // 2 + 1))
        vertices, tets = bricks(x, x, z)
        robot = VolumetricRobot.from_tets(vertices, tets, material=NeoHookean(mu=mu), fixed=None)
        top = np.flatnonzero(vertices[:, 2] == vertices[:, 2].max())
        sides = [
            Prescribed(np.flatnonzero(vertices[:, 0] == 0), (0, NAN, NAN)),
            Prescribed(np.flatnonzero(vertices[:, 1] == 0), (NAN, 0, NAN)),
        ]
        sphere = Obstacle.sphere((0, 0, -radius - gap), radius)
        solver = EnergyShapeSolver(invariants="isochoric")
        rest = solver.start(robot, Environment(obstacles=sphere, prescribed=[*sides, Prescribed(top, (NAN, NAN, 0))]))
        contact = rest.problem.contact
        middle = np.argmin(np.linalg.norm(contact.metres(contact.surface.points(rest.point.x)), axis=1))
        touch = gap - contact.thickness[middle] * contact.length  # the first point feels the sphere here
        start = time.perf_counter()
        shares = np.array([0.0, *(float(v) for v in depths.split(","))])
        path = np.full((len(shares), 3), NAN)
        path[:, 2] = -(touch + depth * shares)
        result = geosim.solve(
            robot,
            Passive(steps=len(shares)),
            Environment(obstacles=sphere, prescribed=[*sides, Prescribed(top, path)]),
            solver=solver,
        )
        force = -4.0 * result.obstacle_forces[:, 0, 2]
        errors = np.round(100 * (force[1:] / (theory * shares[1:] ** 1.5) - 1), 1)
        print(
            f"hertz: {count} elements per contact radius, {len(tets)} tets: force {force[-1]:.4f} N, theory {theory:.4f}; at "
            f"{shares[1:].tolist()} of the depth {errors.tolist()} %; penetration "
            f"{result.max_penetration.max() / h:.1e} edges, {effort(result, time.perf_counter() - start)}",
            flush=True,
        )


def crossings(result: Any) -> str:
    """Crossings of every frame by an independent library (pip install ipctk), on skin and walls split in sixteen."""
    try:
        import ipctk
    except ImportError:
        return "ipctk is not installed"
    faces = np.vstack([result.robot.skin, *result.robot.chamber_walls])
    found = []
    for i in range(len(result.frames)):
        points, triangles, _, _ = result.curved_surface(faces, i, 2)
        ends = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        mesh = ipctk.CollisionMesh(points, np.unique(ends, axis=0), triangles)
        found.append(bool(ipctk.has_intersections(mesh, points)))
    return f"{sum(found)} of {len(found)} frames cross (ipctk)"


def effort(result: Any, seconds: float) -> str:
    """Iterations and seconds of a solve."""
    return f"{len(result.trace)} Newton, {seconds:.0f} s"


def slip() -> None:
    """A flat pad on a rough sliding floor: the ratio of shear to normal force, at two increments."""
    for mu in (0.1, 0.3, 0.6):
        for steps in (5, 10):
            vertices, tets = bricks(np.linspace(0, 0.03, 6), np.linspace(0, 0.02, 4), np.linspace(0, 0.004, 3))
            robot = VolumetricRobot.from_tets(
                vertices, tets, material=NeoHookean(mu=20e3), fixed=np.flatnonzero(vertices[:, 2] > 0.004 - 1e-9)
            )
            motion = np.zeros((steps + 1, 3))
            motion[:, 2], motion[1:, 0] = 0.0004, np.linspace(0, 0.005 * mu / 0.3 * 0.5, steps + 1)[1:]
            floor = Obstacle.plane((0, 0, -1e-5), (0, 0, 1), friction=mu, motion=motion)
            start = time.perf_counter()
            result = geosim.solve(
                robot,
                Passive(steps=steps + 1),
                Environment(obstacles=floor),
                throw=False,
                solver=EnergyShapeSolver(invariants="isochoric"),
            )
            force = result.obstacle_forces[:, 0]
            print(
                f"slip: mu {mu}, {steps} steps: shear / normal {np.round(-force[:, 0] / -force[:, 2], 4).tolist()}, largest "
                f"f_t / (mu f_n) {result.extra['slip_ratio'].max():.6f}, {result.status.name}, "
                f"{effort(result, time.perf_counter() - start)}",
                flush=True,
            )


def column() -> None:
    """The Euler column, clamped and free: where the tangent turns indefinite, over Timoshenko's load."""
    side, length, mu = 0.01, 0.15, 20e3
    half = np.array([0.0, side / 2])
    vertices, tets = bricks(half, half, np.linspace(0, length, 31))
    for axis in (0, 1):  # its own mirror image: nothing but rounding bends it
        mirrored = vertices.copy()
        mirrored[:, axis] = side - mirrored[:, axis]
        both = np.vstack([vertices, mirrored])
        _, first, inverse = np.unique(np.round(both * 1e9).astype(int), axis=0, return_index=True, return_inverse=True)
        tets = inverse.ravel()[np.vstack([tets, tets[:, [0, 2, 1, 3]] + len(vertices)])]
        vertices = both[first]
    euler = np.pi**2 * 3 * mu * side**4 / 12 / (4 * length**2)
    critical = euler / (1 + 1.2 * euler / (mu * side**2))
    tip = np.flatnonzero(vertices[:, 2] > length - 1e-9)
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=NeoHookean(mu=mu), tip=tip, fixed=np.flatnonzero(vertices[:, 2] < 1e-9)
    )
    factors = np.array([0.9, 0.95, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03])
    loads = np.zeros((len(factors), 3))
    loads[:, 2] = -factors * critical
    result = geosim.solve(robot, Passive(steps=len(factors)), Environment(loads=geosim.Load.force(tip, loads)))
    aside = np.linalg.norm(result.tip[:, :2] - side / 2, axis=1)
    for factor, stable, way in zip(factors, result.stable, aside):
        print(
            f"column: {factor:.3f} of Timoshenko's load {critical * 1e3:.3f} mN (Euler {euler * 1e3:.3f}): "
            f"{'stable' if stable else 'unstable'}, {way * 1e3:.2e} mm aside"
        )


def pneunet(ratios: str = "1.5,2", element: str = "p2") -> None:
    """The PneuNet case of the reference data, with and without contact with itself."""
    data = Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data")) / "cases" / "pneunet.npz"
    d = np.load(data)
    robot = VolumetricRobot.from_tets(
        d["points"] * 1e-3, d["tets"], d["region"], material=geosim.MooneyRivlin(), fixed=d["fixed"], tip=d["tip"]
    )
    compare("pneunet case", robot, [float(v) for v in ratios.split(",")], element)


def compare(name: str, robot: Any, ratios: list[float], element: str) -> None:
    """Print the bend of a robot with and without contact."""
    for touches in (False, True):
        start = time.perf_counter()
        result = geosim.solve(
            robot,
            Inflation(volume_ratio=ratios),
            Environment(self_contact=touches),
            throw=False,
            solver=EnergyShapeSolver(element=element),
        )
        print(
            f"{name}, {element}, contact {'on' if touches else 'off'}: {result.status.name}, tip "
            f"{np.round(result.tip * 1e3, 3).tolist()} mm, contacts {result.contact_count.tolist()}, crossings "
            f"{result.crossings.tolist()}, {crossings(result)}, {effort(result, time.perf_counter() - start)}",
            flush=True,
        )


def shipped(name: str = "pneunet", ratios: str = "1.5,2", element: str = "p2") -> None:
    """A shipped finger (pneunet, bellows: 1 mm gaps, 79k tets), with and without contact with itself."""
    robot = geosim.load_robot(Path(__file__).resolve().parents[1] / "meshes" / name / "robot.toml")
    compare(f"shipped {name}", robot, [float(v) for v in ratios.split(",")], element)


def gripper(element: str = "p1", frictions: str = "0.1,0.3,0.5,0.8", pull: str = "2,4,6,8") -> None:
    """The shipped gripper closes on a ball of 40 mm, which is then pulled down: force against friction."""
    robot = geosim.load_case(Path(__file__).resolve().parents[1] / "meshes" / "gripper" / "robot.toml")[0]
    close, down = [1.2, 1.4, 1.5], [float(v) * 1e-3 for v in pull.split(",")]
    for mu in (float(v) for v in frictions.split(",")):
        motion = np.zeros((len(close) + len(down), 3))
        motion[len(close) :, 2] = -np.array(down)
        ball = Obstacle.sphere((0, 0, -0.04), 0.02, friction=mu, motion=motion)
        start = time.perf_counter()
        result = geosim.solve(
            robot,
            Inflation(volume_ratio=np.repeat([[*close, *[close[-1]] * len(down)]], 3, axis=0).T),
            Environment(obstacles=ball),
            solver=EnergyShapeSolver(element=element),
            throw=False,
        )
        force = result.obstacle_forces[:, 0, 2]
        print(
            f"gripper: {element}, mu {mu}: force on the ball {np.round(force * 1e3, 1).tolist()} mN, largest "
            f"{np.nanmax(force, initial=0) * 1e3:.1f}; penetration {np.nanmax(result.max_penetration) * 1e3:.1e} mm; "
            f"{crossings(result)}; {result.status.name}, {effort(result, time.perf_counter() - start)}",
            flush=True,
        )


def halves(mu: str = "0.5") -> None:
    """The same grasp and pull in commands of half the size: what the force on the ball makes of it."""
    robot = geosim.load_case(Path(__file__).resolve().parents[1] / "meshes" / "gripper" / "robot.toml")[0]
    ends = []
    for fine in (1, 2):
        close = np.interp(np.arange(1, 3 * fine + 1) / fine, [0, 1, 2, 3], [1.0, 1.2, 1.4, 1.5])
        down = np.arange(1, 2 * fine + 1) / fine * 2e-3
        motion = np.zeros((len(close) + len(down), 3))
        motion[len(close) :, 2] = -down
        ball = Obstacle.sphere((0, 0, -0.04), 0.02, friction=float(mu), motion=motion)
        ratios = np.concatenate([close, np.full(len(down), close[-1])])
        start = time.perf_counter()
        result = geosim.solve(
            robot,
            Inflation(volume_ratio=np.repeat([ratios], 3, axis=0).T),
            Environment(obstacles=ball),
            solver=EnergyShapeSolver(element="p1"),
            throw=False,
        )
        ends.append((result.frames[-1], result.obstacle_forces[-1, 0, 2]))
        print(
            f"halves: {len(ratios)} commands: force {1e3 * ends[-1][1]:.2f} mN, {result.status.name}, "
            f"{effort(result, time.perf_counter() - start)}",
            flush=True,
        )
    moved = np.linalg.norm(ends[0][0] - robot.vertices, axis=1).max()
    apart = np.linalg.norm(ends[0][0] - ends[1][0], axis=1).max()
    print(
        f"halves: force changes by {100 * (ends[1][1] / ends[0][1] - 1):+.2f} %, the shape by {100 * apart / moved:.2f} % of "
        f"its motion"
    )


def sizes(kinds: str = "sphere,cylinder", diameters: str = "20,30,40,50,60", mu: str = "0.5") -> None:
    """The shipped gripper closes on balls and standing cylinders of 20..60 mm and is pulled: grip and pull-out force."""
    robot = geosim.load_case(Path(__file__).resolve().parents[1] / "meshes" / "gripper" / "robot.toml")[0]
    for kind in kinds.split(","):
        for radius in (0.5e-3 * float(d) for d in diameters.split(",")):
            # what is wide stands lower, clear of the fingers at rest, and needs less
            close = [1.2, 1.4, 1.5] if radius > 0.012 else [1.2, 1.4, 1.6]
            down = [2e-3, 4e-3, 6e-3]
            motion = np.zeros((len(close) + len(down), 3))
            motion[len(close) :, 2] = -np.array(down)
            center = np.array([0.0, 0.0, min(-0.04, -0.02 - radius)])
            half = np.array([0.0, 0.0, 0.02])
            item = (
                Obstacle.sphere(center, radius, friction=float(mu), motion=motion)
                if kind == "sphere"
                else Obstacle.cylinder(center - half, center + half, radius, friction=float(mu), motion=motion)
            )
            start = time.perf_counter()
            try:
                result = geosim.solve(
                    robot,
                    Inflation(volume_ratio=np.repeat([[*close, *[close[-1]] * len(down)]], 3, axis=0).T),
                    Environment(obstacles=item),
                    solver=EnergyShapeSolver(element="p1"),
                    throw=False,
                )
            except geosim.InputError as error:
                print(f"sizes: {kind} of {2e3 * radius:.0f} mm: refused: {error}", flush=True)
                continue
            force = result.obstacle_forces[:, 0]
            print(
                f"sizes: {kind} of {2e3 * radius:.0f} mm, mu {mu}: contacts {result.contact_count.tolist()}, force down "
                f"{np.round(1e3 * force[:, 2], 1).tolist()} mN; penetration {np.nanmax(result.max_penetration) * 1e3:.1e} mm; "
                f"{crossings(result)}; {result.status.name}, {effort(result, time.perf_counter() - start)}",
                flush=True,
            )


def grasps(count: str = "50", element: str = "p1") -> None:
    """Random grasps: sphere or cylinder of 20..60 mm, pose and friction from a seed."""
    robot = geosim.load_case(Path(__file__).resolve().parents[1] / "meshes" / "gripper" / "robot.toml")[0]
    rng = np.random.default_rng(2024)
    outcomes: dict[str, int] = {}
    for k in range(int(count)):
        radius, mu = rng.uniform(0.010, 0.030), rng.uniform(0.0, 0.8)
        center = np.array(
            [
                *rng.uniform(-0.004, 0.004, 2),
                rng.uniform(-0.055, -0.005 - radius) if radius < 0.025 else -0.008 - radius,
            ]
        )
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        kind = "sphere" if k % 2 == 0 else "cylinder"
        half = 0.012
        item = (
            Obstacle.sphere(center, radius, friction=mu)
            if kind == "sphere"
            else Obstacle.cylinder(center - half * axis, center + half * axis, 0.6 * radius, friction=mu)
        )
        start = time.perf_counter()
        try:
            result = geosim.solve(
                robot,
                Inflation(volume_ratio=[[1.2] * 3, [1.4] * 3]),
                Environment(obstacles=item),
                solver=EnergyShapeSolver(element=element),
                throw=False,
            )
            name = result.status.name
            seen = f"{len(result.frames)} frames, {crossings(result)}, {effort(result, time.perf_counter() - start)}"
        except geosim.InputError as error:
            name, seen = "refused", str(error)[:80]
        outcomes[name] = outcomes.get(name, 0) + 1
        print(f"grasp {k}: {kind} of {2e3 * radius:.0f} mm, mu {mu:.2f}: {name}, {seen}", flush=True)
    print(f"grasps: {outcomes}")


def membrane(element: str = "p1") -> None:
    """A membrane of 250 mm over four pads inflated to four volumes; seconds a step beside the paper's 3.83 s."""
    robot = geosim.load_robot(Path(__file__).resolve().parents[1] / "meshes" / "membrane" / "robot.toml")
    start = time.perf_counter()
    result = geosim.solve(
        robot,
        Inflation(volume_ratio=[[1.2, 1.3, 1.4, 1.5], [1.5, 1.8, 2.0, 2.2]]),
        throw=False,
        solver=EnergyShapeSolver(element=element),
    )
    seconds = time.perf_counter() - start
    print(
        f"membrane: {element}, {len(robot.body_tets)} tets: {result.status.name}, contacts {result.contact_count.tolist()}, "
        f"{crossings(result)}, middle lifted {np.round(1e3 * (result.tip[:, 2] - 0.015), 2).tolist()} mm, "
        f"{effort(result, seconds)}, {seconds / max(len(result.frames), 1):.1f} s a step",
        flush=True,
    )


SECTIONS: dict[str, Any] = {
    "hertz": hertz,
    "column": column,
    "slip": slip,
    "pneunet": pneunet,
    "shipped": shipped,
    "gripper": gripper,
    "halves": halves,
    "sizes": sizes,
    "grasps": grasps,
    "membrane": membrane,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        key, *arguments = name.split(":")  # gripper:p2:0.5
        if key not in SECTIONS:
            raise SystemExit(f"contact.py: {key!r} is no section; give some of {', '.join(SECTIONS)}")
        SECTIONS[key](*arguments)
