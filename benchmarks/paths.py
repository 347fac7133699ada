"""Load paths that used to stall: status, Newton iterations, CPU seconds of every case, beside the same path in small steps.

    python benchmarks/paths.py                 all cases
    python benchmarks/paths.py pneunet vacuum  those whose name contains a word

Every case runs in its own process under a time limit (`--limit SECONDS`, default 300), because that they end is the point.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import geosim
from geosim import EnergyShapeSolver, Environment, Inflation, Obstacle, Passive, RigidGroup, Select, generate
from geosim.generate.surfaces import tube

GRAVITY = (0.0, 0.0, -9.81)


def surfaces(
    shape: Any, length: float, edge: float, material: Any = "dragon-skin-10-dubied2022"
) -> geosim.VolumetricRobot:
    """Return a robot along x, clamped at x = 0, with its tip at x = length [m]."""
    body, chambers = shape
    return geosim.VolumetricRobot.from_surfaces(
        body, chambers, material=material, max_edge=edge, fixed=Select.plane("x", below=1e-4),
        tip=Select.plane("x", above=length - 1e-4))  # fmt: skip


def pneunet(bellows: int = 8, wall: float = 2e-3, edge: float = 4.5e-3) -> geosim.VolumetricRobot:
    """Return a PneuNet of Dragon Skin 10."""
    return generate.pneunet(chambers=bellows, wall=wall).robot("dragon-skin-10-dubied2022", max_edge=edge)


def finger() -> geosim.VolumetricRobot:
    """Return the plain finger of Ecoflex."""
    return geosim.load_robot(Path(geosim.__file__).parent / "data" / "meshes" / "finger" / "robot.toml")


def twisted(edge: float = 5e-3) -> geosim.VolumetricRobot:
    """Return a finger with a winding flat chamber."""
    return generate.twister(turns=1.0).robot("ecoflex-00-30-fang2022", max_edge=edge)


def polygon(*corners: tuple[float, float]) -> np.ndarray:
    """Return corners (m, 2) [m] of polar coordinates [mm, degrees]."""
    radius, angle = np.array(corners).T
    return 1e-3 * radius[:, None] * np.stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))], axis=1)


SECTIONS = {  # of chambers whose edges are sharp
    "triangle": polygon(*((6.0, 120 * k) for k in range(3))),
    "square": polygon(*((6.0, 45 + 90 * k) for k in range(4))),
    "lens": polygon((6.0, 0), (2.0, 50), (1.6, 90), (2.0, 130), (6.0, 180), (2.0, 230), (1.6, 270), (2.0, 310)),
    "cross": polygon(*((6.0 if k % 3 else 2.1, 45 + 90 * (k // 3) + (0, 28, 62)[k % 3]) for k in range(12))),
    "star": polygon(*((6.5 if k % 2 == 0 else 3.0, 36 * k) for k in range(10))),
}


def sharp(section: str, turns: float = 0.0, length: float = 40e-3, edge: float = 6e-3) -> geosim.VolumetricRobot:
    """Return a round finger whose chamber has a section with sharp edges, which wind about the axis."""
    round_ = polygon(*((10.0, 30 * k) for k in range(12)))
    surfaces_ = []
    for corners, start, end, turned in ((round_, 0.0, length, 0.0), (SECTIONS[section], 5e-3, length - 5e-3, turns)):
        x = np.linspace(start, end, 2 + int(8 * turned))
        angle = np.linspace(0.0, 2.0 * np.pi * turned, len(x))[:, None]
        y, z = corners.T
        rings = np.stack([
            np.broadcast_to(x[:, None], (len(x), len(corners))), y * np.cos(angle) - z * np.sin(angle),
            y * np.sin(angle) + z * np.cos(angle)], axis=2)  # fmt: skip
        surfaces_.append(tube(rings, int(turned > 0.0)))
    return surfaces((surfaces_[0], surfaces_[1:]), length, edge, "ecoflex-00-30-fang2022")


def block(low=(-9.81e-3, -5.81e-3, -5.53e-3), high=(9.81e-3, 5.81e-3, 6.0e-3)) -> geosim.VolumetricRobot:
    """Return the block with a box of a chamber that collapses."""
    body = trimesh.creation.box(bounds=[[-14e-3, -8.95e-3, -8.9e-3], [14e-3, 8.95e-3, 8.9e-3]])
    return geosim.VolumetricRobot.from_surfaces(
        body, [trimesh.creation.box(bounds=[low, high])], material="ecoflex-00-30-fang2022", max_edge=5.87e-3,
        fixed=Select.plane("x", below=-13.99e-3), tip=Select.plane("x", above=13.99e-3))  # fmt: skip


def run(robot: Any, actuation: Any, environment: Any = None, **options: Any) -> geosim.Result:
    """Solve without raising."""
    return geosim.solve(robot, actuation, environment, solver=EnergyShapeSolver(**options), throw=False)


def ramp(end: float, count: int, start: float = 0.0) -> np.ndarray:
    """Return `count` equal steps to the end."""
    return start + (end - start) * np.arange(1, count + 1) / count


def ball(mu: float) -> Environment:
    """Return gravity and a ball below the finger, to which it comes and on which it slides."""
    return Environment(gravity=GRAVITY, obstacles=Obstacle.sphere((85e-3, 10e-3, -12e-3), 10e-3, friction=mu))


def facets(steps: int) -> geosim.Result:
    """Blow a box up to V/V0 = 7.6 against a rough ball of flat facets, in so many commands."""
    body, cavity = (trimesh.creation.box((side,) * 3) for side in (20e-3, 12e-3))
    held = Select.plane("x", below=-9.9e-3)
    robot = geosim.VolumetricRobot.from_surfaces(
        body, [cavity], material="ecoflex-00-30-fang2022", fixed=held, max_edge=5e-3
    )
    rough = trimesh.creation.icosphere(subdivisions=2, radius=8e-3)
    rough.apply_translation((21e-3, 6e-3, 2e-3))
    around = Environment(obstacles=Obstacle.mesh(rough, friction=0.8))
    return run(robot, Inflation(volume_ratio=1.0 + ramp(6.6, steps)), around, element="p1")


def bar() -> geosim.VolumetricRobot:
    """Return a beam of Ecoflex without a chamber."""
    box = trimesh.creation.box(bounds=[[0.0, 0.0, 0.0], [0.06, 0.02, 0.02]])
    return surfaces((box, []), 0.06, 8e-3, "ecoflex-00-30-fang2022")


def disc() -> tuple[Any, Any]:
    """Return a block with a rigid plate on its end that is turned once about."""
    robot = bar()
    return robot, RigidGroup(robot.tip, rotation=[[2 * np.pi, 0.0, 0.0]])


def turned() -> geosim.Result:
    """Turn the end of a bar by a whole revolution in one command."""
    robot, plate = disc()
    return run(robot, Passive(), Environment(rigid_groups=[plate], self_contact=False))


def bellows() -> geosim.VolumetricRobot:
    """Return bellows of two folds, 4.8k tets."""
    return generate.bellows(convolutions=2).robot("ecoflex-00-30-fang2022", max_edge=6e-3)


def round_(places: Any, radii: Any, sides: int = 10) -> Any:
    """Return the surface of revolution about x through places and radii [mm], with so many sides."""
    angle = 2.0 * np.pi * np.arange(sides) / sides
    unit = np.stack([np.ones(sides), np.cos(angle), np.sin(angle)], axis=1)
    scales = [np.array([x, r, r]) for x, r in zip(places, radii)]
    return tube(1e-3 * np.array([unit * scale for scale in scales]))


def folds(count: int = 2, wall: float = 2.0) -> geosim.VolumetricRobot:
    """Return coarse bellows of ten sides."""
    x = 3.0 + 4.0 * np.arange(2 * count + 1)
    r = np.where(np.arange(2 * count + 1) % 2, 12.0, 8.0)
    length = x[-1] + 3.0
    shape = round_([0.0, *x, length], [8.0, *r, 8.0]), [round_(x, r - wall)]
    return surfaces(shape, 1e-3 * length, 7e-3, "ecoflex-00-30-fang2022")


def suction() -> geosim.VolumetricRobot:
    """Return a coarse finger of ten sides with thin walls, which suction closes."""
    shape = round_([0.0, 40.0], [8.0, 8.0]), [round_([4.0, 36.0], [6.0, 6.0])]
    return surfaces(shape, 0.04, 7e-3, "ecoflex-00-30-fang2022")


def fingers() -> geosim.VolumetricRobot:
    """Return a coarse PneuNet of two chambers with thick walls, which suction bends backwards."""
    return generate.pneunet(chambers=2, wall=2e-3).robot("dragon-skin-10-dubied2022", max_edge=7e-3)


def pushed(shape: Callable[..., Obstacle], *place: Any, element: str) -> geosim.Result:
    """Move an obstacle from above the middle of a bar to below it in one command: the bar must give way."""
    obstacle = shape(*place, motion=[(0.0, 0.0, -26e-3)])
    robot = bar()
    return run(robot, Passive(), Environment(obstacles=obstacle), element=element)


ROD = (30e-3, -20e-3, 24e-3), (30e-3, 40e-3, 24e-3), 1e-3  # across the bar, 2 mm thick
BALL = (30e-3, 10e-3, 24e-3), 2e-3
BACK = (0.7, 0.4, 0.2, 0.4, 0.7, 1.0)  # V/V0
CLOSED = (0.7, 0.4, 0.2, 0.1, 0.2, 0.4, 0.7, 1.0)  # V/V0
SUCKED = (-10e3, -20e3, -30e3, -20e3, -10e3, 0.0)  # Pa
LARGE = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # V/V0

CASES: dict[str, Callable[[], geosim.Result]] = {
    "pneunet 5, 10 kPa": lambda: run(pneunet(), Inflation(pressure=[5e3, 10e3])),
    "pneunet 10 x 1 kPa": lambda: run(pneunet(), Inflation(pressure=ramp(10e3, 10))),
    "pneunet p1 4 steps": lambda: run(pneunet(4, 1e-3, 3.5e-3), Inflation(pressure=ramp(10e3, 4)), element="p1"),
    "pneunet 7: 6 kPa": lambda: run(pneunet(7), Inflation(pressure=[6e3])),
    "pneunet 7: 8 steps": lambda: run(pneunet(7), Inflation(pressure=ramp(6e3, 8))),
    "vacuum block -35 kPa": lambda: run(block(), Inflation(pressure=[-35e3])),
    "vacuum block p1": lambda: run(block(), Inflation(pressure=[-35e3]), element="p1"),
    "vacuum block 50 steps": lambda: run(block(), Inflation(pressure=ramp(-35e3, 50))),
    "vacuum block V 0.1": lambda: run(block(), Inflation(volume_ratio=[0.1])),
    "twisted to 10": lambda: run(twisted(), Inflation(volume_ratio=[2, 3, 4, 5, 6, 8, 10])),
    "gravity finger": lambda: run(finger(), Inflation(volume_ratio=[2.0]), Environment(gravity=GRAVITY)),
    "finger": lambda: run(finger(), Inflation(volume_ratio=[2.0])),
    "friction 1 frame": lambda: run(finger(), Inflation(volume_ratio=[2.0]), ball(0.4)),
    "friction 4 frames": lambda: run(finger(), Inflation(volume_ratio=ramp(2.0, 4, 1.0)), ball(0.4)),
    "friction 32 frames": lambda: run(finger(), Inflation(volume_ratio=ramp(2.0, 32, 1.0)), ball(0.4)),
    "rigid turn": turned,
    "rod through p1": lambda: pushed(Obstacle.cylinder, *ROD, element="p1"),
    "rod through p2": lambda: pushed(Obstacle.cylinder, *ROD, element="p2"),
    "ball through p1": lambda: pushed(Obstacle.sphere, *BALL, element="p1"),
    "ball through p2": lambda: pushed(Obstacle.sphere, *BALL, element="p2"),
    "bellows p1 -30 kPa": lambda: run(bellows(), Inflation(pressure=[-30e3]), element="p1"),
    "bellows p1 50 steps": lambda: run(bellows(), Inflation(pressure=ramp(-30e3, 50)), element="p1"),
    "bellows p1 and back": lambda: run(bellows(), Inflation(volume_ratio=BACK), element="p1"),
    **{
        f"sharp {section}{name} to 10": lambda section=section, turns=turns, form=form: run(
            sharp(section, turns), Inflation(volume_ratio=LARGE), invariants=form
        )
        for section, turns in (("triangle", 0.5), ("square", 0.5), ("lens", 0.5), ("cross", 0.25), ("star", 0.0))
        for name, form in (("", None), (" full", "full"))
    },
    **{
        f"{name} {element} {how} and back": lambda robot=robot, element=element, inflation=inflation: run(
            robot(), inflation, element=element
        )
        for name, robot in (("suction", suction), ("folds", folds), ("fingers", fingers))
        for element in ("p1", "p2")
        for how, inflation in (("V 0.1", Inflation(volume_ratio=CLOSED)), ("-30 kPa", Inflation(pressure=SUCKED)))
    },
    **{f"rough facets {steps} steps": lambda steps=steps: facets(steps) for steps in (1, 4)},
    **{
        f"{name} {element} -30 kPa {steps} steps": lambda robot=robot, element=element, steps=steps: run(
            robot(), Inflation(pressure=ramp(-30e3, steps)), element=element
        )
        for name, robot in (("vacuum", block), ("folds", folds), ("suction", suction))
        for element in ("p1", "p2")
        for steps in (1, 50)
    },
}


def there_and_back(result: geosim.Result) -> str:
    """Return how far the states of the way back lie from those of the way there, the first of them the rest shape."""
    frames = np.concatenate([result.robot.vertices[None], result.frames])
    ways = np.linalg.norm(frames - frames[::-1], axis=2).max(axis=1) / result.robot.size
    return " ".join(f"{way:.1e}" for way in ways[: len(ways) // 2])


def report(name: str, queue: Any) -> None:
    """Run one case and put its line into the queue."""
    clock = time.process_time()
    try:
        result = CASES[name]()
        newton = sum("iteration" in r for r in result.trace)
        line = f"{result.status.name:15s} {len(result.frames):3d} frames {newton:4d} Newton {time.process_time() - clock:7.1f} s"
        if len(result.frames):
            ratio = np.array2string(result.volume_ratios[-1], precision=4)
            kpa = np.array2string(result.chamber_pressures[-1] / 1e3, precision=4)
            line += f"  V/V0 {ratio} p {kpa} kPa tip {np.round(1e3 * result.tip[-1], 4)} mm"
            line += f" inverted {int(result.inverted_elements[-1])} crossings {int(result.crossings[-1])}"
            if result.obstacle_forces.shape[1]:
                line += f" force {np.round(result.obstacle_forces[-1, 0], 5)} N"
                line += f" penetration {1e3 * result.max_penetration[-1]:.3f} mm"
            if "and back" in name and len(result.frames) % 2 == 0 and result.converged:
                line += f" apart {there_and_back(result)} of the size, most crossings {int(result.crossings.max())}"
            if "to 10" in name:
                line += f" pressures {np.round(1e-3 * result.chamber_pressures[:, 0], 3)} kPa"
            line += f" stable {result.stable[-1]:g} energy {result.energies[-1]:.3g} J"
        queue.put(line + f"  | {result.message[:160]}")
    except Exception as error:  # noqa: BLE001 (a benchmark shows whatever happens)
        queue.put(f"{type(error).__name__}: {error}")


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=float, default=300.0)
    options = parser.parse_args()
    for name in CASES:
        if options.words and not any(word in name for word in options.words):
            continue
        queue: Any = multiprocessing.Queue()
        child = multiprocessing.Process(target=report, args=(name, queue))
        child.start()
        try:
            line = queue.get(timeout=options.limit)
        except Exception:  # noqa: BLE001 (queue.Empty: it did not end in time)
            line = f"NO ANSWER in {options.limit:g} s"
            child.kill()
        child.join()
        print(f"{name:24s} {line}", flush=True)


if __name__ == "__main__":
    main()
