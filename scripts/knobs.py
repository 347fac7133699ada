"""Double and halve every constant of Newton's method and of the continuation, and print the first case that moves.

    python scripts/knobs.py                     all constants
    python scripts/knobs.py continuation        those whose file or name contains a word

A case is a small robot and a command; it moves where its Status, its Newton iterations or its last shape (by more than 1e-6 of
its size) are others than before. A constant that moves no case has no reason to be a number of its own: it goes, or a case comes.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from pinned import ECOFLEX_00_30
from shapes import block, shell

import geosim
from geosim import (
    CableTensions,
    EnergyShapeSolver,
    Environment,
    Inflation,
    Load,
    Obstacle,
    Passive,
    Prescribed,
    generate,
)

HERE = Path(__file__).resolve().parents[1]
FOLDERS = ("newton", "path")
ALONE = Environment(self_contact=False)
MOVED_REL = 1e-6  # of the size of a robot: what the tolerance of forces leaves open in a stiff one


def beam(size: tuple[float, float, float], cells: tuple[int, int, int], rise: float = 0.0) -> geosim.VolumetricRobot:
    """Return a bar [m] along x that is clamped at x = 0 and rises towards its end."""
    vertices, tets = block(size, cells)
    end = vertices[:, 0] > size[0] - 1e-9
    vertices[:, 2] += rise * np.sin(0.5 * np.pi * vertices[:, 0] / size[0]) ** 2
    return geosim.VolumetricRobot.from_tets(
        vertices, tets, material=geosim.NeoHookean(mu=50e3), fixed=vertices[:, 0] < 1e-9, tip=end
    )


def sphere(material: Any) -> geosim.VolumetricRobot:
    """Return a thick sphere that nothing holds."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    return geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=None)


def hollow() -> geosim.VolumetricRobot:
    """Return a hollow block that stands on one end, whose walls vacuum closes."""
    size, inner = (28e-3, 17.9e-3, 17.8e-3), (19.6e-3, 11.6e-3, 11.5e-3)
    body, chamber = (trimesh.creation.box(extents=extents) for extents in (size, inner))
    held = geosim.Select.plane("x", below=1e-5 - 0.5 * size[0])
    return geosim.VolumetricRobot.from_surfaces(
        body, [chamber], material=ECOFLEX_00_30, max_edge=9e-3, fixed=held, remesh=False
    )


def arch(**options: Any) -> geosim.Result:
    """Press half of a shallow arch beyond the largest load that it bears."""
    robot = beam((0.05, 0.01, 0.003), (8, 1, 1), rise=0.012)
    crown = Prescribed(robot.tip, (0.0, np.nan, np.nan))
    around = Environment(loads=Load.force(robot.tip, (0.0, 0.0, -0.014)), prescribed=crown, self_contact=False)
    return solved(robot, Passive(), around, **options)


def dragged(way: float, friction: float = 0.4) -> geosim.Result:
    """Lay a heavy bar on a rough ball and move its end aside [m]."""
    robot = beam((0.04, 0.01, 0.01), (4, 1, 1))
    ball = Obstacle.sphere((0.035, 0.005, -0.0112), 0.01, friction=friction)
    aside = Prescribed(robot.tip, (np.nan, way, np.nan))
    return solved(
        robot,
        Passive(),
        Environment(gravity=(0.0, 0.0, -40.0), obstacles=ball, prescribed=aside, self_contact=False),
        element="p1",
    )


def tendon(tension: float) -> geosim.Result:
    """Pull the cable of a finger with deep notches."""
    design = generate.tendon_finger(joints=2, height=0.02, notch=(0.006, 0.0185), cable_height=0.0105)
    return solved(design.robot(ECOFLEX_00_30, max_edge=30e-3), CableTensions([tension]), element="p1")


def solved(robot: Any, actuation: Any, environment: Any = None, **options: Any) -> geosim.Result:
    """Solve without raising."""
    return geosim.solve(robot, actuation, environment, solver=EnergyShapeSolver(**options), throw=False)


def bent(*obstacles: Obstacle, steps: int = 1) -> geosim.Result:
    """Bend a slender bar by more than its length under a dead load, perhaps onto something."""
    robot = beam((0.1, 0.01, 0.01), (10, 1, 1))
    load = Load.force(robot.tip, np.outer(np.arange(1, steps + 1) / steps, (0.0, 0.0, -0.06)))
    return solved(robot, Passive(), Environment(loads=load, obstacles=obstacles, self_contact=False))


def twisted() -> geosim.Result:
    """Turn the end of a bar by 100 degrees in one command."""
    robot = beam((0.06, 0.01, 0.01), (6, 1, 1))
    end = geosim.RigidGroup(robot.tip, displacement=(0.0, 0.0, 0.0), rotation=(1.75, 0.0, 0.0))
    return solved(robot, Passive(), Environment(rigid_groups=end, self_contact=False))


CASES: dict[str, Callable[[], geosim.Result]] = {  # the fastest first
    "arch": arch,
    "arch, dynamic": lambda: arch(follow="dynamic"),
    "rough ball": lambda: dragged(2e-3),
    "rough ball, far": lambda: dragged(6e-3, 0.8),
    "bar": bent,
    "twisted bar": twisted,
    "sphere, thrice": lambda: solved(
        sphere(geosim.NeoHookean(mu=50e3)), Inflation(volume_ratio=[1.05, 1.1, 1.9]), ALONE
    ),
    "sphere": lambda: solved(sphere(geosim.MooneyRivlin()), Inflation(volume_ratio=[2.0, 6.0]), ALONE),
    "vacuum": lambda: solved(hollow(), Inflation(pressure=[-30e3]), element="p1"),
    "balloon": lambda: solved(sphere(geosim.NeoHookean(mu=50e3)), Inflation(pressure=[47.5e3]), ALONE),
    "tendon": lambda: tendon(0.1),
    "bar over a ball": lambda: bent(Obstacle.sphere((0.07, 0.005, -0.015), 0.005), steps=10),
    "tendon, far": lambda: tendon(0.5),
}


def outcome(case: Callable[[], geosim.Result]) -> tuple[str, int, np.ndarray]:
    """Return Status, Newton iterations, and the last shape over the size of the robot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = case()
    shape = result.frames[-1] / result.robot.size if len(result.frames) else np.zeros((1, 3))
    return result.status.name, sum("iteration" in record for record in result.trace), shape


def constants() -> Iterator[tuple[str, str, float]]:
    """Yield file, name and value of the options of the continuation and of the numbers at module level."""
    for option in fields(EnergyShapeSolver.continuation):
        yield "continuation", option.name, option.default
    for folder in FOLDERS:
        for path in sorted((HERE / "geosim" / "shape" / "energy" / folder).glob("*.py")):
            module = importlib.import_module(f"geosim.shape.energy.{folder}.{path.stem}")
            text = path.read_text()
            for name, value in vars(module).items():
                own = f"\n{name} = " in text or f"\n{name}, " in text or f", {name} = " in text or f", {name}, " in text
                if name.isupper() and own and isinstance(value, (int, float)) and f"import {name}" not in text:
                    yield path.name, name, value


def turned(name: str, old: float, new: float) -> None:
    """Give a constant another value wherever it is known by its name."""
    if hasattr(EnergyShapeSolver.continuation, name):
        EnergyShapeSolver.continuation = replace(EnergyShapeSolver.continuation, **{name: new})
    for key, module in list(sys.modules.items()):
        if key.startswith("geosim.shape.energy") and vars(module).get(name) == old:
            setattr(module, name, new)


def movers(before: dict[str, tuple[str, int, np.ndarray]]) -> Iterator[str]:
    """Yield the cases that end otherwise than before, and how."""
    for name, (status, newton, shape) in before.items():
        now, count, found = outcome(CASES[name])
        if (now, count) != (status, newton) or found.shape != shape.shape or np.abs(found - shape).max() > MOVED_REL:
            yield f"{name} {newton} -> {count}{'' if now == status else f' {now}'}"


def main() -> None:
    """Print a line for every constant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="files or names that contain one of them")
    words = parser.parse_args().words
    before = {name: outcome(case) for name, case in CASES.items()}
    print(", ".join(f"{name}: {status} {newton}" for name, (status, newton, _) in before.items()), flush=True)
    still, chosen = [], [c for c in constants() if not words or any(word in f"{c[0]} {c[1]}" for word in words)]
    for file, name, value in chosen:
        moved = []
        for label, other in (("x 2", 2 * value), ("/ 2", (value + 1) // 2 if isinstance(value, int) else 0.5 * value)):
            turned(name, value, other)
            moved += [f"{label}: {first}" for first in [next(movers(before), None)] if first is not None]
            turned(name, other, value)
        still += [name] * (not moved)
        print(f"{file:20s} {name:38s} {value:8g}  {'; '.join(moved) or '-'}", flush=True)
    print(f"{len(chosen)} constants, {len(still)} move nothing: {', '.join(still)}")


if __name__ == "__main__":
    main()
