"""Every field of surroundings, actuations and solvers against every solver: does it change the answer, or is it refused?

python tests/fields.py        # writes docs/fields.md
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from shapes import block

import geosim
from geosim import Cable, Environment, Fluid, InputError, Load, Obstacle, Prescribed, RigidGroup, Status
from geosim.files.actuation import load_actuation

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
        Answers of the scenes and files that cases begin with.
    """

    robot: Any
    actuation: Any
    solver: Any
    scene: dict[str, Any]
    parts: dict[str, Any]
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def answer(self, **changes: Any) -> np.ndarray:
        """Return positions and forces of the last frame in a changed scene; of the first where an object is held in it."""
        scene = {**self.scene, **changes}
        steps = 1 + max((thing.released for thing in scene["obstacles"] if thing.free), default=0)
        actuation = self.actuation if steps == 1 else geosim.Passive(steps=steps)
        result = geosim.solve(self.robot, actuation, Environment(**scene), solver=self.solver, throw=False)
        return self.ended(result, -1 if steps == 1 else 0)

    def told(self, text: str) -> np.ndarray:
        """Return the last positions and how many frames end when, of the actuation in a file with this text."""
        if text not in self.known:
            self.known[text] = self._told(text)
        return self.known[text]

    def _told(self, text: str) -> np.ndarray:
        text = text.replace("EDGES", str(self.parts.get("mesh edges", [[0, 1]])))
        text = text.replace("FACES", str(self.parts.get("mesh faces", [[0, 1, 2]])))
        if self.solver is MOVING and "duration" not in text:
            text = f"{_NOTHING}\n{text}"
        if not hasattr(self.solver, "dt"):
            text = text.replace(_NOTHING, "[passive]")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "actuation.toml"
            path.write_text(text, encoding="utf-8")
            actuation = load_actuation(path, self.robot)
        load = self.scene["loads"][0]
        rows = [step * load.value[0] for step in range(len(actuation))] if "steps" in text else load.value
        scene = {**self.scene, "loads": [dataclasses.replace(load, value=np.array(rows))]}
        result = geosim.solve(self.robot, actuation, Environment(**scene), solver=self.solver, throw=False)
        return np.append(self.ended(result), [len(result.frames), result.times[-1]])

    def ended(self, result: Any, frame: int = -1) -> np.ndarray:
        """Return positions and forces of a frame of a result that got there."""
        reached = result.converged or result.status is Status.CROSSED  # what is excluded from contact may cross
        assert reached, f"{type(self.solver).__name__}: {result.message}"
        forces = np.nan_to_num(np.asarray(result.contact_forces[frame], dtype=float))
        return np.concatenate([result.frames[frame].ravel(), forces.ravel()])

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


def snake(links: int = 1) -> tuple[Any, dict[str, Any]]:
    """A snake on a floor, pushed along."""
    robot = geosim.make_snake(links=links, sections=4)
    faces = robot.skin[(robot.skin < len(robot.particles)).all(axis=1)]
    scene = {
        "gravity": (0.5, 0.3, -9.81),
        "obstacles": [Obstacle.plane((0, 0, robot.vertices[:, 2].min() - 1e-5), (0, 0, 1))],
        "loads": [Load.force(np.unique(faces[:4]), (0.1, 0.1, 0.0))],
    }
    parts = {"move": np.unique(faces[:2]), "faces": faces[:2], "edges": [0], "group": np.unique(faces[:4])}
    return robot, {"scene": scene, "pair": (np.unique(faces[:2]), np.unique(faces[-2:])), **parts}


def bar() -> tuple[Any, dict[str, Any]]:
    """A bar with two chambers and a cable along it, held at one end, that a load presses."""
    points, tets = block((0.05, 0.03, 0.03), (5, 3, 3))
    middles = points[tets].mean(axis=1)
    inner = (np.abs(middles[:, 1:] - 0.015) < 5e-3).all(axis=1)
    regions = np.where(inner & (middles[:, 0] // 0.01 == 1), 1, np.where(inner & (middles[:, 0] // 0.01 == 3), 2, 0))
    line = np.array([[0.05, 0.02, 0.03], [0.03, 0.02, 0.03], [0.0, 0.02, 0.03]])
    robot = geosim.VolumetricRobot.from_tets(
        points,
        tets,
        regions,
        material=geosim.NeoHookean(30e3, density=1000.0),
        fixed=geosim.Select.plane("x", below=1e-6),
        tip=geosim.Select.plane("x", above=0.0499),
        cables=[Cable(line)],
    )
    end = np.flatnonzero(points[:, 0] > 0.0499)
    free = (points[robot.skin][..., 2] > 0.0299) & (points[robot.skin][..., 0] > 0.015)
    faces = robot.skin[free.all(axis=1)]
    edges = np.array([face[:2] for face in faces])
    chosen = {"mesh edges": edges[:2].tolist(), "mesh faces": faces[:2].tolist()}
    return robot, {"scene": {"loads": [Load.force(end, (-0.2, 0.1, 0.0))]}, **chosen}


def bench(make: Callable[[], tuple[Any, dict[str, Any]]], actuation: Any, solver: Any) -> Bench:
    """Return a bench of what a function makes."""
    robot, parts = make()
    return Bench(robot, actuation, solver, parts.pop("scene"), parts)


MOVING = geosim.EnergyShapeStepper(dt=0.02, integrator="implicit-euler", element="p1")
SOLVERS: dict[str, Callable[[], Bench]] = {
    "EnergyShapeSolver": lambda: bench(fingers, geosim.Passive(), geosim.EnergyShapeSolver(element="p1")),
    "EnergyShapeStepper": lambda: bench(fingers, geosim.Passive(0.06), MOVING),
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
    "Load.pressure": ("", lambda b: _loaded(b, Load.pressure(b.parts["faces"], 50.0))),
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
# Benches for actuations: those of the surroundings, but volumetric robots have chambers and a cable.
DRIVEN: dict[str, Callable[[], Bench]] = {
    **SOLVERS,
    "EnergyShapeSolver": lambda: bench(bar, geosim.Passive(), geosim.EnergyShapeSolver(element="p1")),
    "EnergyShapeStepper": lambda: bench(bar, geosim.Passive(0.06), MOVING),
    "ProjectiveShapeSolver": lambda: bench(bar, geosim.Passive(), geosim.ProjectiveShapeSolver()),
    "MultibodyStepper": lambda: bench(lambda: snake(2), geosim.Passive(0.06), geosim.MultibodyStepper(dt=5e-3)),
}
_NOTHING = "[passive]\nduration = 0.06"
_PRESSED = "[inflation]\npressure_kpa = 1\n"
_PUSHED = "[syringe]\nvolumes_mm3 = 100\n[inflation]\ngas = true\n"
_ONE_PUSHED = "[syringe]\nvolumes_mm3 = [[200, 0]]\n[inflation]\ngas = true\n"
_SHAPE = "[natural_shape]\ntimes = [0.02, 0.06]\n"
_CURVED = "curvature = [0, 2]\n"
_VALVES = "[valve_commands]\ntimes = [0.0, 0.05]\npressures_kpa = [[0, 0], [20, 20]]\n"
_GAIT = "[undulatory_gait]\namplitude_kpa = 20\nfrequency = 2\nphase_lag = 1\nduration = 0.06\n"
# Field -> the actuation file that a case begins with, and the changed one. EDGES and FACES are of the robot.
ACTUATIONS: dict[str, tuple[str, str]] = {
    "Inflation.volume_ratio": (_NOTHING, "[inflation]\nvolume_ratio = 1.2"),
    "Inflation.pressure": (_NOTHING, "[inflation]\npressure_kpa = 1"),
    "Inflation.gas": ("[inflation]\npressure_kpa = 0", "[inflation]\ngas = true"),
    "Inflation.connected": (_ONE_PUSHED, _ONE_PUSHED + "connected = [[0, 1]]"),
    "Inflation.ambient": (_PUSHED, _PUSHED + "ambient_kpa = 50"),
    "Inflation.exponent": (_PUSHED, _PUSHED + "exponent = 1.4"),
    "Inflation.extra_volume": (_PUSHED, _PUSHED + "extra_volume_mm3 = 500"),
    "Inflation.temperature_ratio": (_PUSHED, _PUSHED + "temperature_ratio = 1.1"),
    "Syringe.volumes": ("[inflation]\ngas = true", _PUSHED),
    "SupplyLine.conductance": (_PRESSED, _PRESSED + "[supply_line]\nconductance = 1e-9"),
    "SupplyLine.dead_volume": (_PRESSED, _PRESSED + "[supply_line]\nconductance = 1e-9\ndead_volume_mm3 = 500"),
    "CableLengths.length": (_NOTHING, "[cable_lengths]\nlength = 0.048"),
    "CableTensions.tension": (_NOTHING, "[cable_tensions]\ntension = 0.2"),
    "EdgeLengths.edges": (_NOTHING, "[edge_lengths]\nedges = EDGES\nratio = 0.95"),
    "EdgeLengths.ratio": ("[edge_lengths]\nedges = EDGES\nratio = 1.0", "[edge_lengths]\nedges = EDGES\nratio = 0.95"),
    "FaceAreas.faces": (_NOTHING, "[face_areas]\nfaces = FACES\nratio = 0.95"),
    "FaceAreas.ratio": ("[face_areas]\nfaces = FACES\nratio = 1.0", "[face_areas]\nfaces = FACES\nratio = 0.95"),
    "Passive.duration": ("[passive]\nduration = 0.055", "[passive]\nduration = 0.06 # s"),
    "Passive.steps": (_NOTHING, _NOTHING + "\nsteps = 2"),  # the load has a row for every step
    "NaturalShape.times": (_SHAPE + _CURVED, _SHAPE.replace("0.02", "0.05") + _CURVED),
    "NaturalShape.curvature": (_NOTHING, _SHAPE + _CURVED),
    "NaturalShape.twist": (_NOTHING, _SHAPE + "twist = [0, 2]"),
    "NaturalShape.hinge_angle": (_NOTHING, _SHAPE + "hinge_angle = [0, 0.1]"),
    "NaturalShape.stretch": (_NOTHING, _SHAPE + "stretch = [1, 1.05]"),
    "ValveCommands.times": (_VALVES, _VALVES.replace("0.05]", "0.02]")),
    "ValveCommands.pressures": (_VALVES, _VALVES.replace("[0, 0]", "[20, 0]")),
    "UndulatoryGait.amplitude": (_GAIT, _GAIT.replace("20", "30")),
    "UndulatoryGait.frequency": (_GAIT, _GAIT.replace("frequency = 2", "frequency = 4")),
    "UndulatoryGait.phase_lag": (_GAIT, _GAIT.replace("phase_lag = 1", "phase_lag = 2")),
    "UndulatoryGait.offset": (_GAIT, _GAIT + "offset = 0.5"),
    "UndulatoryGait.duration": (_GAIT, _GAIT.replace("0.06", "0.1")),
}
SILENT = "no effect"


def driven(b: Bench, name: str) -> str:
    """Return the outcome of a field of an actuation."""
    try:
        before, after = map(b.told, ACTUATIONS[name])
    except InputError as error:
        return f"refused: {error}"
    return "acts" if np.abs(after - before).max() > LEAST_CHANGE else SILENT


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
    found = {case: {name: outcome(b, case) for name, b in benches.items()} for case in CASES}
    benches = {name: make() for name, make in DRIVEN.items()}
    return found | {case: {name: driven(b, case) for name, b in benches.items()} for case in ACTUATIONS}


def page(found: dict[str, dict[str, str]]) -> str:
    """Return the page of a table."""
    lines = [
        "# Fields and solvers",
        "",
        "Every field of the surroundings and of actuations changes the answer of a solver, or the solver refuses it in one line.",
        "`tests/fields.py` wrote this page: it solves a small robot twice for every field, with and without it.",
        "Actuations are read from actuation files.",
        "`Passive.steps` acts through loads with one row for every step.",
        "The rods of this table have no cables; `RodShellStepper` takes `CableTensions` and `CableLengths` on rods with cables.",
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
