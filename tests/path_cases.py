"""Small cases of the energy solver in which constants of Newton's method and of the path earn themselves."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from shapes import block, half_arch, shell

import geosim
from geosim import (
    Cable,
    CableTensions,
    EnergyShapeSolver,
    Environment,
    Inflation,
    Load,
    MooneyRivlin,
    NeoHookean,
    Obstacle,
    Passive,
    Prescribed,
    RigidGroup,
    Select,
    VolumetricRobot,
    generate,
)
from geosim.shape.energy.newton.equations import Equations

ENERGY = Path(__file__).resolve().parents[1] / "geosim" / "shape" / "energy"
FOLDERS = ("newton", "path")
ALONE = Environment(self_contact=False)
SILICONE = MooneyRivlin(c1=41.8e3, c2=10.6e3, density=1070.0)  # Ecoflex 00-30 [Fang2022]
RUBBER = NeoHookean(mu=50e3)


def solved(robot: VolumetricRobot, actuation: Any, environment: Any = None, **options: Any) -> geosim.Result:
    """Solve without raising."""
    return geosim.solve(robot, actuation, environment, solver=EnergyShapeSolver(**options), throw=False)


@cache
def bar(size: tuple[float, float, float], cells: tuple[int, int, int]) -> VolumetricRobot:
    """Return a bar [m] along x that is clamped at x = 0."""
    vertices, tets = block(size, cells)
    x = vertices[:, 0]
    return VolumetricRobot.from_tets(vertices, tets, material=RUBBER, fixed=x < 1e-9, tip=x > size[0] - 1e-9)


@cache
def sphere(material: Any) -> VolumetricRobot:
    """Return a thick sphere that nothing holds."""
    vertices, tets, regions = shell(0.01, 0.02, 1, 2)
    return VolumetricRobot.from_tets(vertices, tets, regions, material=material, fixed=None)


@cache
def hollow() -> VolumetricRobot:
    """Return a hollow block that stands on one end, whose walls vacuum closes."""
    size, inner = (28e-3, 17.9e-3, 17.8e-3), (19.6e-3, 11.6e-3, 11.5e-3)
    body, chamber = (trimesh.creation.box(extents=extents) for extents in (size, inner))
    held = Select.plane("x", below=1e-5 - 0.5 * size[0])
    return VolumetricRobot.from_surfaces(body, [chamber], material=SILICONE, max_edge=9e-3, fixed=held, remesh=False)


@cache
def bellows(folds: int, wall: float) -> VolumetricRobot:
    """Return bellows of eight sides, whose walls are so thick [m], that stand on one end."""
    pitch, cap, turns = 8e-3, 3e-3, np.arange(2 * folds + 1)
    z, r = cap + 0.5 * pitch * turns, np.where(turns % 2, 12e-3, 8e-3)
    length = 2.0 * cap + folds * pitch
    outer = np.column_stack([[0.0, r[0], *r, r[-1], 0.0], [0.0, 0.0, *z, length, length]])
    inner = np.column_stack([[0.0, *(r - wall), 0.0], [z[0], *z, z[-1]]])
    body, chamber = (trimesh.creation.revolve(profile, sections=8) for profile in (outer, inner))
    return VolumetricRobot.from_surfaces(
        body, [chamber], material=SILICONE, max_edge=7e-3, remesh=False, fixed=Select.plane("z", below=1e-5)
    )


@cache
def notched() -> VolumetricRobot:
    """Return a finger with a cable, whose deep notches leave slender webs."""
    design = generate.tendon_finger(joints=2, height=0.02, notch=(0.006, 0.0185), cable_height=0.0105)
    return design.robot(SILICONE, max_edge=30e-3)


@cache
def twins() -> VolumetricRobot:
    """Return two hollow boxes that bulge into each other."""

    def box(size: tuple[float, float, float], x: float) -> trimesh.Trimesh:
        out = trimesh.creation.box(extents=size)
        out.apply_translation([x, 0.0, 0.0])
        return out

    body = trimesh.util.concatenate([box((12e-3, 20e-3, 20e-3), side * 6.5e-3) for side in (-1, 1)])
    chambers = [box((8e-3, 16e-3, 16e-3), side * 6.5e-3) for side in (-1, 1)]
    held = Select.plane("z", below=-9.99e-3)
    return VolumetricRobot.from_surfaces(body, chambers, material=SILICONE, max_edge=9e-3, fixed=held, remesh=False)


def arch(self_friction: float = 0.0, **options: Any) -> geosim.Result:
    """Press half of a shallow arch beyond the largest load that it bears; with friction it has no potential."""
    robot = half_arch()
    crown = Prescribed(robot.tip, (0.0, np.nan, np.nan))
    load = Load.force(robot.tip, (0.0, 0.0, -0.014))
    around = Environment(loads=load, prescribed=crown, self_contact=self_friction > 0.0, self_friction=self_friction)
    return solved(robot, Passive(), around, **options)


def dragged(way: float, friction: float = 0.4) -> geosim.Result:
    """Lay a heavy bar on a rough ball and move its end aside [m]."""
    robot = bar((0.04, 0.01, 0.01), (4, 1, 1))
    ball = Obstacle.sphere((0.035, 0.005, -0.0112), 0.01, friction=friction)
    aside = Prescribed(robot.tip, (np.nan, way, np.nan))
    around = Environment(gravity=(0.0, 0.0, -40.0), obstacles=ball, prescribed=aside, self_contact=False)
    return solved(robot, Passive(), around, element="p1")


def bent(*obstacles: Obstacle) -> geosim.Result:
    """Bend a slender bar by more than its length under a dead load, perhaps onto something."""
    robot = bar((0.1, 0.01, 0.01), (10, 1, 1))
    load = Load.force(robot.tip, (0.0, 0.0, -0.06))
    return solved(robot, Passive(), Environment(loads=load, obstacles=obstacles, self_contact=False))


def twisted(turn: float) -> geosim.Result:
    """Turn the end of a bar by so much [rad] in one command."""
    robot = bar((0.06, 0.01, 0.01), (6, 1, 1))
    end = RigidGroup(robot.tip, displacement=(0.0, 0.0, 0.0), rotation=(turn, 0.0, 0.0))
    return solved(robot, Passive(), Environment(rigid_groups=end, self_contact=False))


def rough_cable() -> geosim.Result:
    """Pull a rough cable in a slender bar, and let it go."""
    vertices, tets = block((0.1, 0.01, 0.01), (10, 1, 1))
    cable = Cable([(x, 0.005, 0.008) for x in np.linspace(0.0, 0.1, 11)], friction=0.5)
    robot = VolumetricRobot.from_tets(
        vertices, tets, material=RUBBER, fixed=Select.plane("x", below=1e-6), cables=[cable]
    )
    return solved(robot, CableTensions([0.1, 0.3, 0.29, 0.1, 0.0]))


def rod_in_a_bowl() -> geosim.Result:
    """Let a steep rod go above a soft bowl: it turns, and falls out."""
    vertices, tets = block((0.03, 0.03, 0.015), (3, 3, 1))
    top = vertices[:, 2] > 0.0149
    vertices[top, 2] += 5e-3 * (((vertices[top, :2] - 0.015) / 0.015) ** 2).sum(axis=1)
    held = Select.plane("z", below=1e-6)
    robot = VolumetricRobot.from_tets(
        vertices, tets, np.zeros(len(tets), int), material=NeoHookean(mu=20e3), fixed=held
    )
    rod = Obstacle.cylinder((0.006, 0.015, 0.026), (0.022, 0.015, 0.040), 0.005, free=True, mass=0.03, released=0)
    return solved(robot, Passive(), Environment(gravity=(0.0, 0.0, -9.81), obstacles=rod, self_contact=False))


CASES: dict[str, Callable[[], geosim.Result]] = {
    "arch": arch,
    "arch, dynamic": lambda: arch(follow="dynamic"),
    "arch, creeping": lambda: arch(0.2, follow="dynamic"),
    "rough ball": lambda: dragged(2e-3),
    "rough ball, far": lambda: dragged(12e-3, 0.8),
    "bar": bent,
    "bar onto a ball": lambda: bent(Obstacle.sphere((0.07, 0.005, -0.015), 0.005)),
    "twisted bar": lambda: twisted(4.0),
    "rough cable": rough_cable,
    "rod in a bowl": rod_in_a_bowl,
    "sphere": lambda: solved(sphere(MooneyRivlin()), Inflation(volume_ratio=[6.0]), ALONE),
    "sphere, twice": lambda: solved(sphere(MooneyRivlin()), Inflation(volume_ratio=[2.0, 6.0]), ALONE),
    "balloon": lambda: solved(sphere(RUBBER), Inflation(pressure=[47.5e3]), ALONE),
    "balloon, dynamic": lambda: solved(sphere(RUBBER), Inflation(pressure=[47.5e3]), ALONE, follow="dynamic"),
    "vacuum": lambda: solved(hollow(), Inflation(pressure=[-30e3]), element="p1"),
    "shut": lambda: solved(hollow(), Inflation(volume_ratio=[0.3])),
    "shut, far": lambda: solved(hollow(), Inflation(volume_ratio=[0.18]), element="p1"),
    "bellows": lambda: solved(bellows(1, 2.4e-3), Inflation(pressure=[-15e3]), element="p1"),
    "twins": lambda: solved(twins(), Inflation(volume_ratio=[[1.3, 1.3]])),
    "two levels": lambda: solved(hollow(), Inflation(volume_ratio=[1.8]), ALONE, factoriser="multilevel"),
    "tendon": lambda: solved(notched(), CableTensions([0.1]), element="p1"),
}


@dataclass(frozen=True)
class Outcome:
    """How a case ended and what it cost.

    `iterations` are those of Newton's method, `krylov` of linear solves; `indefinite` are those that found an indefinite tangent
    on the path. `shape` (n, 3) is the last one over the size of the robot.
    """

    status: str
    iterations: int
    factorisations: int
    krylov: int
    indefinite: int
    shape: np.ndarray


def outcome(name: str) -> Outcome:
    """Solve a case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CASES[name]()
    steps = [record for record in result.trace if "iteration" in record and not record.get("nested", False)]
    shape = result.frames[-1] / result.robot.size if len(result.frames) else np.zeros((1, 3))
    factorisations, krylov = (sum(step[key] for step in steps) for key in ("factorisations", "krylov"))
    indefinite = sum("indefinite" in step for step in steps)
    return Outcome(result.status.name, len(steps), factorisations, krylov, indefinite, shape)


def constants() -> Iterator[tuple[str, str, Any]]:
    """Yield file, name and value of the constants: of modules, of `Equations`, and the options of the continuation."""
    for option in fields(EnergyShapeSolver.continuation):
        yield "options.py", option.name, option.default
    for name in vars(Equations)["__annotations__"]:
        if name in vars(Equations):
            yield "equations.py", name, getattr(Equations, name)
    for folder in FOLDERS:
        for path in sorted((ENERGY / folder).glob("*.py")):
            module = importlib.import_module(f"geosim.shape.energy.{folder}.{path.stem}")
            body = ast.parse(path.read_text(encoding="utf-8")).body
            targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
            for name in (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)):
                if not isinstance(value := getattr(module, name), str):
                    yield path.name, name, value


@contextmanager
def other_values(**values: Any) -> Iterator[None]:
    """Give constants other values wherever they are read."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            if hasattr(options := EnergyShapeSolver.continuation, name):
                patch.setattr(EnergyShapeSolver, "continuation", replace(options, **{name: value}))
            elif hasattr(Equations, name):
                patch.setattr(Equations, name, value)
            else:
                for key, module in list(sys.modules.items()):
                    if key.startswith("geosim.shape.energy") and name in vars(module):
                        patch.setattr(module, name, value)
        yield
