"""Every field of a surrounding against every solver: does it change the answer, or is it refused?

python tests/fields.py        # writes docs/fields.md
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from shapes import block

import geosim
from geosim import Environment, Fluid, InputError, Load, Obstacle, Prescribed, RigidGroup, Status

PAGE = Path(__file__).resolve().parents[1] / "docs" / "fields.md"
LEAST_CHANGE = 1e-9  # m or N: solves repeat to 1e-12, what acts here moves by 1e-6 and more


@dataclass(frozen=True)
class Bench:
    """A robot in busy surroundings, and how to solve it.

    Parameters
    ----------
    robot, actuation, solver
        What is solved.
    scene
        Arguments of the environment that all cases begin with.
    parts
        What cases need of the robot: vertices that move, a face, an edge, vertices of a rigid group.
    known
        Answers of the scenes that cases begin with.
    """

    robot: Any
    actuation: Any
    solver: Any
    scene: dict[str, Any]
    parts: dict[str, Any]
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def answer(self, **changes: Any) -> np.ndarray:
        """Return positions and forces of the last frame in a changed scene."""
        result = geosim.solve(
            self.robot, self.actuation, Environment(**{**self.scene, **changes}), solver=self.solver, throw=False
        )
        reached = result.converged or result.status is Status.CROSSED  # what is excluded from contact may cross
        assert reached, f"{type(self.solver).__name__}: {result.message}"
        forces = np.nan_to_num(np.asarray(result.contact_forces[-1], dtype=float))
        return np.concatenate([result.frames[-1].ravel(), forces.ravel()])

    def before(self, key: str) -> np.ndarray:
        """Return the answer of a scene that a case begins with."""
        if key not in self.known:
            self.known[key] = self.answer(**BEFORE[key](self) if key in BEFORE else {})
        return self.known[key]


def fingers() -> tuple[Any, dict[str, Any]]:
    """Two soft blocks side by side, 1 mm apart, held below; a load presses one onto the other and onto a wall."""
    points, tets = block((0.01, 0.01, 0.03), (1, 1, 3))
    vertices = np.vstack([points, points + [0.011, 0, 0]])
    robot = geosim.VolumetricRobot.from_tets(
        vertices,
        np.vstack([tets, tets + len(points)]),
        np.zeros(2 * len(tets), dtype=int),
        material=geosim.NeoHookean(30e3, density=1000.0),
        fixed=geosim.Select.plane("z", below=1e-6),
        tip=geosim.Select.plane("z", above=0.0299),
    )
    top = np.flatnonzero(vertices[:, 2] > 0.0299)
    one, other = top[top < len(points)], top[top >= len(points)]
    side = robot.skin[(vertices[robot.skin][..., 0] < 1e-9).all(axis=1)][-2:]
    scene = {
        "gravity": (0.0, 0.0, -9.81),
        "obstacles": [Obstacle.plane((0, -2e-4, 0), (0, 1, 0))],
        "loads": [Load.force(one, (0.03, -0.01, 0.0))],
    }
    sides = tuple(np.flatnonzero((vertices[:, 0] > 0.0105) == right) for right in (False, True))
    return robot, {"scene": scene, "move": other, "faces": side, "edges": [0], "group": other, "pair": sides}


def rods() -> tuple[Any, dict[str, Any]]:
    """Two rods one above the other, held at one end, that fall."""
    x = np.linspace(0, 0.1, 6)
    lines = [np.column_stack([x, 0 * x, 0 * x + z]) for z in (0.0, 4.2e-3)]
    robot = geosim.RodShellRobot(
        np.vstack(lines),
        edges=[(i, i + 1) for k in (0, 6) for i in range(k, k + 5)],
        radius=2e-3,
        rod_material=geosim.LinearElastic(2e5, 0.45, 1000.0),
        fixed_vertices=[0, 1, 6, 7],
    )
    scene = {
        "gravity": (0.0, 0.0, -9.81),
        "obstacles": [Obstacle.plane((0, 0, -2.5e-3), (0, 0, 1))],
        "loads": [Load.force([11], (0.003, 0.001, -0.02))],
    }
    parts = {"move": np.array([5]), "faces": np.array([[3, 4, 5]]), "edges": [4], "group": np.array([3, 4, 5])}
    return robot, {"scene": scene, "pair": (np.arange(6), np.arange(6, 12)), **parts}


def sheet() -> tuple[Any, dict[str, Any]]:
    """Two strips of sheet one above the other, held at one end, that fall; the upper one is pressed down."""
    x, y = np.meshgrid(np.linspace(0, 0.06, 5), np.linspace(0, 0.02, 3), indexing="ij")
    strips = [np.column_stack([x.ravel(), y.ravel(), 0 * x.ravel() + z]) for z in (0.0, 1.3e-3)]
    triangles = []
    for i in range(4):
        for j in range(2):
            a, b, c, d = 3 * i + j, 3 * i + 3 + j, 3 * i + 4 + j, 3 * i + 1 + j
            triangles += [(a, b, c), (a, c, d)]
    robot = geosim.RodShellRobot(
        np.vstack(strips),
        triangles=np.vstack([triangles, np.add(triangles, 15)]),
        thickness=1e-3,
        shell_bending="hinge",
        shell_material=geosim.LinearElastic(2e5, 0.3, 1000.0),
        fixed_vertices=[*range(6), *range(15, 21)],
    )
    scene = {
        "gravity": (0.0, 0.0, -9.81),
        "obstacles": [Obstacle.plane((0, 0, -2e-3), (0, 0, 1))],
        "loads": [Load.force([28], (0.003, 0.001, -0.02))],
    }
    parts = {"move": np.array([14]), "faces": np.array([[9, 12, 13]]), "edges": [0], "group": np.array([12, 13, 14])}
    return robot, {"scene": scene, "pair": (np.arange(15), np.arange(15, 30)), **parts}


def snake() -> tuple[Any, dict[str, Any]]:
    """A snake of one link on a floor, pushed along."""
    robot = geosim.make_snake(links=1, sections=4)
    faces = robot.skin[(robot.skin < len(robot.particles)).all(axis=1)]
    scene = {
        "gravity": (0.5, 0.3, -9.81),
        "obstacles": [Obstacle.plane((0, 0, robot.vertices[:, 2].min() - 1e-5), (0, 0, 1))],
        "loads": [Load.force(np.unique(faces[:4]), (0.1, 0.1, 0.0))],
    }
    parts = {"move": np.unique(faces[:2]), "faces": faces[:2], "edges": [0], "group": np.unique(faces[:4])}
    return robot, {"scene": scene, "pair": (np.unique(faces[:2]), np.unique(faces[-2:])), **parts}


def bench(make: Callable[[], tuple[Any, dict[str, Any]]], actuation: Any, solver: Any) -> Bench:
    """Return a bench of what a function makes."""
    robot, parts = make()
    return Bench(robot, actuation, solver, parts.pop("scene"), parts)


SOLVERS: dict[str, Callable[[], Bench]] = {
    "EnergyShapeSolver": lambda: bench(fingers, geosim.Passive(), geosim.EnergyShapeSolver(element="p1")),
    "ProjectiveShapeSolver": lambda: bench(fingers, geosim.Passive(), geosim.ProjectiveShapeSolver()),
    "RodShellStepper, rods": lambda: bench(rods, geosim.Passive(0.06), geosim.RodShellStepper(dt=2e-3)),
    "RodShellStepper, shells": lambda: bench(sheet, geosim.Passive(0.06), geosim.RodShellStepper(dt=2e-3)),
    "MultibodyStepper": lambda: bench(snake, geosim.Passive(0.06), geosim.MultibodyStepper(dt=5e-3)),
}


def _wall(b: Bench, **changes: Any) -> dict[str, Any]:
    """Return the scene with its obstacle changed."""
    return {"obstacles": [dataclasses.replace(b.scene["obstacles"][0], **changes)]}


def _loaded(b: Bench, load: Load) -> dict[str, Any]:
    return {"loads": [*b.scene["loads"], load]}


def _grouped(b: Bench, **options: Any) -> dict[str, Any]:
    return {"rigid_groups": [RigidGroup(b.parts["group"], **options)]}


def _thing(**options: Any) -> Callable[[Bench], dict[str, Any]]:
    """Return the scene with an object on top of the robot, and no load that would push the robot aside."""

    def scene(b: Bench) -> dict[str, Any]:
        high = b.robot.vertices.max(axis=0)
        centre = b.robot.vertices.mean(axis=0) * [1, 1, 0] + [0, 0, high[2] + 1e-5]
        lower, upper = centre - [0.02, 0.02, 0.0], centre + [0.02, 0.02, 0.01]
        thing = Obstacle.box(lower, upper, **{"friction": 0.5, **options})
        return {"obstacles": [thing], "loads": []}

    return scene


# What a case begins with, where it is not the scene alone.
BEFORE: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "group": _grouped,
    "held object": _thing(),
    "object": _thing(free=True, mass=0.01, released=0),
}
# Field -> what the case begins with, and what it changes.
CASES: dict[str, tuple[str, Callable[[Bench], dict[str, Any]]]] = {
    "gravity": ("", lambda b: {"gravity": (1.0, 0.5, -4.0)}),
    "obstacles": ("", lambda b: {"obstacles": []}),
    "Obstacle.friction": ("", lambda b: _wall(b, friction=0.5)),
    "Obstacle.motion": ("", lambda b: _wall(b, motion=[(0.0, 1e-4, 1e-4)])),
    "Obstacle.free": ("held object", _thing(free=True, mass=0.01, released=0)),
    "Obstacle.mass": ("object", _thing(free=True, mass=0.02, released=0)),
    "Obstacle.released": ("object", _thing(free=True, mass=0.01, released=1)),
    "Load.force": ("", lambda b: _loaded(b, Load.force(b.parts["move"], (0.0, 2e-3, 1e-3)))),
    "Load.traction": ("", lambda b: _loaded(b, Load.traction(b.parts["faces"], (0.0, 50.0, 50.0)))),
    "Load.torque": ("", lambda b: _loaded(b, Load.torque(b.parts["edges"], 1e-4))),
    "Load.moment": ("", lambda b: _loaded(b, Load.moment(b.parts["edges"], (1e-5, 1e-5, 1e-5)))),
    "prescribed": ("", lambda b: {"prescribed": [Prescribed(b.parts["move"], (0.0, 1e-3, 1e-3))]}),
    "Fluid.density": ("", lambda b: {"fluid": Fluid(500.0)}),
    "Fluid.viscosity": ("", lambda b: {"fluid": Fluid(0.0, viscosity=1.0)}),
    "Fluid.drag_coefficient": ("", lambda b: {"fluid": Fluid(500.0, drag_coefficient=1.0)}),
    "self_contact": ("", lambda b: {"self_contact": False}),
    "self_friction": ("", lambda b: {"self_friction": 0.5}),
    "exclude_pairs": ("", lambda b: {"exclude_pairs": [b.parts["pair"]]}),
    "rigid_groups": ("", _grouped),
    "RigidGroup.displacement": ("group", lambda b: _grouped(b, displacement=(1e-3, 1e-3, 0.0))),
    "RigidGroup.rotation": ("group", lambda b: _grouped(b, rotation=(0.0, 0.0, 0.1))),
    "RigidGroup.force": ("group", lambda b: _grouped(b, force=(0.01, 0.0, 0.0))),
    "RigidGroup.moment": ("group", lambda b: _grouped(b, moment=(0.0, 0.0, 1e-5))),
    "RigidGroup.point": ("group", lambda b: _grouped(b, point=(0.1, 0.0, 0.0), force=(0.0, 0.01, 0.0))),
}
SILENT = "no effect"


def outcome(b: Bench, name: str) -> str:
    """Return "acts", "refused: ..." or `SILENT`."""
    key, change = CASES[name]
    try:
        changed = b.answer(**change(b))
    except InputError as error:
        return f"refused: {error}"
    return "acts" if np.abs(changed - b.before(key)).max() > LEAST_CHANGE else SILENT


def table() -> dict[str, dict[str, str]]:
    """Return the outcome of every field with every solver."""
    benches = {name: make() for name, make in SOLVERS.items()}
    return {case: {name: outcome(b, case) for name, b in benches.items()} for case in CASES}


def page(found: dict[str, dict[str, str]]) -> str:
    """Return the page of a table."""
    lines = [
        "# Fields and solvers",
        "",
        "Every field of the surroundings changes the answer of a solver, or the solver refuses it in one line.",
        "`tests/fields.py` wrote this page: it solves a small robot twice for every field, with and without it.",
        "Rods have no drag coefficient of the fluid, but `RodShellStepper(rod_drag=)`.",
        "",
        f"| field | {' | '.join(SOLVERS)} |",
        f"|---|{'---|' * len(SOLVERS)}",
    ]
    for name, row in found.items():
        lines.append(f"| `{name}` | {' | '.join('acts' if one == 'acts' else 'refused' for one in row.values())} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(table()), encoding="utf-8")
