"""Public functions and methods with arguments that they accept, of which nonsense replaces some.

A function that is public and not here is called with nonsense alone.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from archives import small_reduced_model, small_surrogate
from hypothesis import strategies as st

import geosim
from geosim import calibrate, compare, generate, materials
from geosim.cli.ahead import block
from geosim.snake.builder import MultibodyBuilder

from .judging import Input, scratch
from .readers import CORNERS, TETS, bent
from .strategy import NONSENSE

Call = tuple[Callable[..., object], dict[str, Any]]
LINE = [[0.01 * i, 0.0, 0.0] for i in range(6)]
ENDS = [[i, i + 1] for i in range(5)]
TESTS = {
    "stretch": [1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0],
    "nominal_stress": [5e3, 1e4, 1.4e4, 1.8e4, 2.1e4, 2.4e4, 3e4, 3.6e4],
}


@cache
def public_calls() -> dict[str, Call]:
    """Name -> function, and arguments that it accepts."""
    folder = scratch()
    made = {
        **_plain(),
        **_nouns(),
        **_solved(folder),
        **_measured(folder),
        **_designed(folder),
        **_built(),
        **_learned(folder),
    }
    return {**_bare(made), **made}


def _bare(made: dict[str, Call]) -> dict[str, Call]:
    """What is public and has no arguments here: it is called with nonsense in the place of all that it needs."""
    out: dict[str, Call] = {}
    functions = {id(getattr(function, "__func__", function)) for function, _ in made.values()}
    for module in (geosim, calibrate, compare, generate, materials):
        for name in module.__all__:
            public = getattr(module, name)
            if (
                not callable(public)
                or id(public) in functions
                or (inspect.isclass(public) and issubclass(public, BaseException))
            ):
                continue
            parts = [(name, public)]
            if inspect.isclass(public):
                kept = [(n, m) for n, m in vars(public).items() if isinstance(m, (staticmethod, classmethod))]
                parts += [(f"{name}.{n}", getattr(public, n)) for n, _ in kept if not n.startswith("_")]
            for title, function in parts:
                if title in made or title in UNCALLED:
                    continue
                needed = [
                    k for k, p in inspect.signature(function).parameters.items() if p.default is p.empty and p.kind < 2
                ]
                out[f"{title} (nothing sound)"] = (function, dict.fromkeys(needed))
    return out


# What talks to a network or to the user, or replaces a type: not for arguments.
UNCALLED = ("Status", "sweep", "optimize", "run", "GENERATORS", "ROD_GENERATORS", "ALL_GENERATORS")


@st.composite
def calls(draw: Any) -> Input:
    """Draw a call of a public function, with none, one or two of its arguments replaced by nonsense."""
    known = public_calls()
    name = draw(st.sampled_from(sorted(known)))
    function, given = known[name]
    bare = name.endswith("(nothing sound)")
    changes = {key: draw(st.integers(0, len(NONSENSE) - 1)) for key in given} if bare else {}
    if not bare and given and draw(st.integers(0, 5)):
        keys = draw(st.lists(st.sampled_from(sorted(given)), min_size=1, max_size=2, unique=True))
        changes = {key: draw(st.integers(0, len(NONSENSE) - 1)) for key in keys}
    # What a user's own function raises goes on as it is.
    changes = {key: i for key, i in changes.items() if not (key == "progress" and callable(NONSENSE[i]))}
    told = ", ".join(f"{key}={repr(NONSENSE[i])[:40]}" for key, i in changes.items())
    arguments = {**given, **{key: NONSENSE[i] for key, i in changes.items()}}
    return Input(f"{name}({told})", not changes and not bare, lambda: function(**arguments))


def _plain() -> dict[str, Call]:
    """Nouns, and functions of a small result."""
    rng = random.Random(0)
    u, vector = rng.uniform, lambda: [rng.uniform(-1, 1) for _ in range(3)]
    line = [[0.01 * i, 0.0, 0.0] for i in range(6)]
    rubber = geosim.LinearElastic(youngs_modulus=1e6, poisson_ratio=0.4)
    there = bent()
    tests = [calibrate.MaterialTest("uniaxial", [1.1, 1.3, 1.6, 2.0], [2e4, 5e4, 9e4, 1.3e5])]
    return {
        "Inflation": (geosim.Inflation, {"volume_ratio": [u(0.5, 3), u(0.5, 3)]}),
        "Inflation of pressures": (geosim.Inflation, {"pressure": [[u(-5e4, 5e4)]]}),
        "Passive": (geosim.Passive, {"duration": u(0, 1), "steps": rng.randint(1, 9)}),
        "CableLengths": (geosim.CableLengths, {"length": [u(0.01, 1)]}),
        "CableTensions": (geosim.CableTensions, {"tension": [u(0, 9)]}),
        "NaturalShape": (geosim.NaturalShape, {"times": [0.0, 1.0], "curvature": [0.0, u(0, 9)]}),
        "UndulatoryGait": (
            geosim.UndulatoryGait,
            {"amplitude": u(0, 5e4), "frequency": u(0.1, 3), "phase_lag": u(0, 3)},
        ),
        "Environment": (geosim.Environment, {"gravity": vector(), "self_friction": u(0, 1), "exclude_pairs": [(0, 1)]}),
        "Obstacle.sphere": (geosim.Obstacle.sphere, {"center": vector(), "radius": u(0.01, 1), "friction": u(0, 1)}),
        "Obstacle.box": (geosim.Obstacle.box, {"lower": [0, 0, 0], "upper": [1, u(1, 2), 1], "motion": [vector()]}),
        "Obstacle.plane": (geosim.Obstacle.plane, {"point": vector(), "normal": [0, u(0.1, 1), 1]}),
        "Obstacle.cylinder": (geosim.Obstacle.cylinder, {"start": [0, 0, 0], "end": [0, 0, u(0.1, 1)], "radius": 0.1}),
        "Load.force": (geosim.Load.force, {"vertices": [0, 1], "total_force": vector()}),
        "Load.traction": (geosim.Load.traction, {"faces": [[0, 1, 2]], "t": vector()}),
        "Load.pressure": (geosim.Load.pressure, {"faces": [[0, 1, 2]], "p": 5.0}),
        "Prescribed": (geosim.Prescribed, {"vertices": [3], "displacement": vector()}),
        "Fluid": (geosim.Fluid, {"density": u(0, 1000), "viscosity": u(0, 1)}),
        "Cable": (geosim.Cable, {"points": [vector(), vector()], "name": "c"}),
        "MooneyRivlin": (geosim.MooneyRivlin, {"c1": u(1e3, 1e5), "c2": u(0, 1e4), "density": u(900, 1200)}),
        "Ogden": (geosim.Ogden, {"mu": (u(1e3, 1e5),), "alpha": (u(2, 4),)}),
        "Gent": (geosim.Gent, {"mu": u(1e3, 1e5), "jm": u(5, 99)}),
        "LinearElastic": (geosim.LinearElastic, {"youngs_modulus": u(1e3, 1e6), "poisson_ratio": u(0, 0.5)}),
        "Select.plane": (lambda **k: geosim.Select.plane(**k)(CORNERS), {"axis": "x", "below": u(0, 9)}),
        "Select.box": (lambda **k: geosim.Select.box(**k)(CORNERS), {"lower": [0, 0, 0], "upper": [1, 1, u(1, 9)]}),
        "Select.nearest": (lambda **k: geosim.Select.nearest(**k)(CORNERS), {"point": vector(), "count": 2}),
        "EnergyShapeSolver": (geosim.EnergyShapeSolver, {"tolerance": u(1e-8, 1e-4), "max_seconds": u(1, 9)}),
        "ProjectiveShapeSolver": (
            geosim.ProjectiveShapeSolver,
            {"window": rng.randint(1, 20), "max_growth": u(0.1, 2)},
        ),
        "RodShellStepper": (geosim.RodShellStepper, {"dt": u(1e-3, 1e-1), "damping": u(0, 1), "integrator": "verlet"}),
        "MultibodyStepper": (geosim.MultibodyStepper, {"dt": u(1e-3, 1e-1), "substeps": 2, "route": "dual"}),
        "from_tets": (
            geosim.VolumetricRobot.from_tets,
            {"vertices": u(1, 5) * 1e-3 * CORNERS, "tets": TETS, "regions": np.zeros(6, int), "material": "rtv615"}
            | {"fixed": [0, 1, 2], "tip": [4]},
        ),
        "RodShellRobot": (
            geosim.RodShellRobot,
            {"vertices": line, "edges": [[i, i + 1] for i in range(5)], "radius": u(1e-3, 5e-3), "rod_material": rubber}
            | {"fixed_vertices": [0], "planar": False},
        ),
        "Limb": (
            geosim.Limb,
            {"start": [0, 0, 0], "end": [u(0.1, 1), 0, 0], "nodes": 5, "radius": 1e-3, "material": rubber},
        ),
        "make_snake": (geosim.make_snake, {"links": rng.randint(1, 2), "friction": u(0, 1), "spacing": u(0.3, 0.5)}),
        "MaterialTest": (
            calibrate.MaterialTest,
            {"mode": "uniaxial", "stretch": [1.1, u(1.2, 2), 2.5], "nominal_stress": [1e3, 2e3, 3e3]},
        ),
        "fit": (calibrate.fit, {"tests": tests, "model": "neo-hookean", "max_stretch": u(1.8, 3)}),
        "to_markers": (
            compare.to_markers,
            {"result": there, "markers": there.frames[-1][[0, 1, 4, 7]], "vertices": [0, 1, 4, 7], "frame": -1},
        ),
        "to_scan": (
            compare.to_scan,
            {"result": there, "points": there.surface(-1, subdivide=4).vertices, "register": "none", "frame": 0},
        ),
        "pneunet": (generate.pneunet, {"chambers": 1, "wall": u(1e-3, 3e-3), "width": u(15e-3, 30e-3)}),
        "tendon_finger": (generate.tendon_finger, {"joints": rng.randint(1, 3), "length": u(0.1, 0.2)}),
        "solve": (
            lambda **k: geosim.solve(throw=False, **k),
            {
                "robot": there.robot,
                "actuation": geosim.Passive(),
                "environment": geosim.Environment(gravity=(0, 0, -u(1, 9))),
            }
            | {"solver": geosim.EnergyShapeSolver(element="p1")},
        ),
    }


def _nouns() -> dict[str, Call]:
    """What robots, actuations and environments are made of, beyond `_plain`."""
    rubber = geosim.LinearElastic(youngs_modulus=1e6, poisson_ratio=0.4)
    box = trimesh.creation.box((0.02, 0.01, 0.01))
    inner = trimesh.creation.box((0.01, 0.004, 0.004))
    return {
        "Syringe": (geosim.Syringe, {"volumes": [1e-7, 2e-7]}),
        "Inflation of a gas": (
            geosim.Inflation,
            {"gas": [True, True], "connected": [(0, 1)], "ambient": 1e5, "exponent": 1.0, "extra_volume": 1e-6}
            | {"temperature_ratio": [1.1]},
        ),
        "EdgeLengths": (geosim.EdgeLengths, {"edges": [[0, 1]], "ratio": [0.9, 0.8]}),
        "FaceAreas": (geosim.FaceAreas, {"faces": [[0, 1, 2]], "ratio": [0.9]}),
        "ValveCommands": (geosim.ValveCommands, {"times": [0.0, 1.0], "pressures": [[1e3], [2e3]]}),
        "NaturalShape": (
            geosim.NaturalShape,
            {"times": [0.0, 1.0], "twist": [0.0, 1.0], "hinge_angle": [0.0, 0.1], "stretch": [1.0, 1.1]},
        ),
        "Combined": (
            geosim.model.actuation.Combined,
            {"members": (geosim.Inflation([1.1]), geosim.CableLengths([0.1]))},
        ),
        "Command": (geosim.model.actuation.Command, {"index": 0, "time": 1.0, "parts": (geosim.Passive(),)}),
        "Inflation.targets": (geosim.Inflation([1.1]).targets, {"index": 0, "chambers": 1}),
        "Passive.lasting": (geosim.Passive().lasting, {"count": 3}),
        "Fibre": (geosim.Fibre, {"points": LINE, "radius": 1e-4, "material": rubber, "tension_only": True}),
        "Fibre.helix": (
            geosim.Fibre.helix,
            {
                "start": [0, 0, 0],
                "end": [0.1, 0, 0],
                "helix_radius": 0.01,
                "turns": 2.0,
                "radius": 1e-4,
                "material": rubber,
            }
            | {"phase": 0.1},
        ),
        "Layer": (geosim.Layer, {"faces": [[0, 1, 2]], "thickness": 1e-4, "material": rubber, "of": "skin"}),
        "Cable": (geosim.Cable, {"points": LINE, "friction": 0.1, "pulled": "last", "name": "c"}),
        "RigidGroup": (
            geosim.RigidGroup,
            {"vertices": [0, 1, 2], "displacement": [0, 0, 0.1], "rotation": [0, 0, 0], "force": [0, 0, 1]}
            | {"moment": [0, 0, 0], "point": [0, 0, 0]},
        ),
        "Load.torque": (geosim.Load.torque, {"edges": [0, 1], "torque": [0.1]}),
        "Load.moment": (geosim.Load.moment, {"edges": [0], "moment": [0, 0, 0.1]}),
        "Load.at": (geosim.Load.force([0], [0, 0, 1.0]).at, {"index": 0}),
        "Obstacle": (geosim.Obstacle, {"shape": "sphere", "parameters": {"center": [0, 0, 0], "radius": 1.0}}),
        "Obstacle.mesh": (geosim.Obstacle.mesh, {"path_or_trimesh": box, "units": None, "free": True, "mass": 0.1}),
        "Obstacle.pose": (geosim.Obstacle.sphere([0, 0, 0], 1.0).pose, {"index": 0}),
        "Environment": (
            geosim.Environment,
            {"obstacles": [], "loads": [], "prescribed": [], "fluid": None, "rigid_groups": [], "self_contact": True},
        ),
        "Environment.poses": (geosim.Environment().poses, {"index": 0, "share": 0.5}),
        "NeoHookean": (geosim.NeoHookean, {"mu": 2e4, "bulk_modulus": 1e6, "density": 1e3}),
        "Yeoh": (geosim.Yeoh, {"c1": 2e4, "c2": 10.0, "c3": 1.0, "bulk_modulus": 1e6}),
        "Ogden": (geosim.Ogden, {"mu": (2e4, 1e3), "alpha": (2.0, 4.0), "bulk_modulus": 1e6, "density": 1e3}),
        "stiffened": (geosim.Yeoh(2e4, 10.0, 1.0).stiffened, {"factor": 2.0}),
        "constants": (geosim.Yeoh(2e4, 10.0, 1.0).constants, {"stress_unit": 1.0}),
        "Section.circle": (geosim.Section.circle, {"radius": 1e-3}),
        "Section.tube": (geosim.Section.tube, {"outer": 2e-3, "inner": 1e-3}),
        "Section.rectangle": (geosim.Section.rectangle, {"width": 2e-3, "height": 1e-3, "torsion": None}),
        "Select.sphere": (lambda **k: geosim.Select.sphere(**k)(np.zeros((2, 3))), {"center": [0, 0, 0], "radius": 1}),
        "Select": (geosim.Select.plane("x", below=1.0), {"vertices": np.zeros((4, 3))}),
        "RodShellRobot": (
            geosim.RodShellRobot,
            {
                "vertices": LINE,
                "edges": ENDS,
                "radius": 1e-3,
                "rod_material": rubber,
                "triangles": None,
                "thickness": None,
            }
            | {"shell_material": None, "fixed_vertices": [0], "fixed_edges": [0], "name": "a"},
        ),
        "from_limbs": (
            geosim.RodShellRobot.from_limbs,
            {"limbs": [geosim.Limb([0, 0, 0], [0.1, 0, 0], 5, 1e-3, rubber)], "joints": "auto"},
        ),
        "from_surfaces": (
            geosim.VolumetricRobot.from_surfaces,
            {"body": box, "chambers": [inner], "material": "rtv615", "fixed": [0, 1, 2], "tip": [4], "max_edge": 0.02}
            | {"units": None, "name": "a", "simplify": 0.0, "preview": False, "symmetry": None, "rescue": False},
        ),
        "EnergyShapeSolver": (
            geosim.EnergyShapeSolver,
            {f: getattr(geosim.EnergyShapeSolver(), f) for f in geosim.EnergyShapeSolver.__dataclass_fields__},
        ),
        "ProjectiveShapeSolver": (
            geosim.ProjectiveShapeSolver,
            {f: getattr(geosim.ProjectiveShapeSolver(), f) for f in geosim.ProjectiveShapeSolver.__dataclass_fields__},
        ),
        "RodShellStepper": (
            geosim.RodShellStepper,
            {f: getattr(geosim.RodShellStepper(), f) for f in geosim.RodShellStepper.__dataclass_fields__},
        ),
        "MultibodyStepper": (
            geosim.MultibodyStepper,
            {f: getattr(geosim.MultibodyStepper(), f) for f in geosim.MultibodyStepper.__dataclass_fields__},
        ),
        "Valves": (geosim.Valves, {f: getattr(geosim.Valves(), f) for f in geosim.Valves.__dataclass_fields__}),
    }


def _solved(folder: Path) -> dict[str, Call]:
    """Solves, results, and what is asked of them."""
    robot, solver = block(), geosim.EnergyShapeSolver(element="p1")
    act = geosim.Inflation(volume_ratio=[1.02])
    result = geosim.solve(robot, act, solver=solver)
    problem = {"robot": robot, "actuation": act, "environment": None, "solver": solver}
    goal = geosim.Goal.tip(result.tip[-1])
    fields = {"status": result.status, "message": "", "converged": True, "times": result.times}
    rod = geosim.RodShellRobot(
        LINE, edges=ENDS, radius=1e-3, rod_material=geosim.LinearElastic(1e6, 0.5), fixed_vertices=[0, 1]
    )
    path = result.save(folder / "there.npz")
    made = folder / "made"
    made.mkdir()
    return {
        "solve": (geosim.solve, {**problem, "initial": None, "throw": False, "progress": False}),
        "solve of rods": (
            geosim.solve,
            {"robot": rod, "actuation": geosim.Passive(duration=0.01), "solver": geosim.RodShellStepper(dt=1e-2)}
            | {"environment": None, "initial": None},
        ),
        "solve_many": (geosim.solve_many, {"problems": [problem], "workers": 1}),
        "solver.start": (solver.start, {"robot": robot, "environment": geosim.Environment(), "initial": None}),
        "solver.commands": (solver.commands, {"robot": robot, "actuation": act}),
        "solver.step": (
            solver.step,
            {"state": solver.start(robot, geosim.Environment()), "command": act.command(0), "progress": None},
        ),
        "solve_for": (
            geosim.solve_for,
            {"robot": robot, "goals": goal, "vary": "volume_ratio", "bounds": (0.9, 1.2), "environment": None}
            | {"solver": solver},
        ),
        "sensitivity": (geosim.sensitivity, {"result": result, "of": "tip", "to": "volume_ratio", "frame": -1}),
        "error_bars": (geosim.error_bars, {"result": result, "of": "tip", "material": None, "frame": -1}),
        "Goal.tip": (geosim.Goal.tip, {"position": [0, 0, 0], "weight": 1.0}),
        "Goal.bend_angle": (geosim.Goal.bend_angle, {"radians": 1.0, "weight": 1.0}),
        "Goal.force": (geosim.Goal.force, {"obstacle": 0, "newtons": 1.0, "weight": 1.0}),
        "Goal.pressure": (geosim.Goal.pressure, {"chamber": 0, "pascals": 1e3, "weight": 1.0}),
        "Goal.miss": (goal.miss, {"result": result}),
        "Result": (geosim.Result, {**fields, "frames": result.frames, "robot": robot, "tip": None, "trace": ()}),
        "nodes": (result.nodes, {"i": -1}),
        "surface": (result.surface, {"i": -1, "subdivide": 1}),
        "curved_surface": (result.curved_surface, {"faces": robot.skin[:2], "i": -1, "subdivide": 1}),
        "stress": (result.stress, {"frame": -1, "kind": "von-mises"}),
        "center_line": (result.center_line, {"frame": -1, "points": 5}),
        "tip_stiffness": (result.tip_stiffness, {"frame": -1}),
        "checked_frame": (result.checked_frame, {"frame": 0}),
        "save": (result.save, {"path": made / "a.stl", "units": "mm"}),
        "save csv": (result.save, {"path": made / "a.csv"}),
        "plot": (result.plot, {"path": made / "a.png", "frame": -1, "color": "displacement"}),
        "plot_measure": (result.plot_measure, {"y": "tip_x_mm", "x": "volume_ratio_1", "path": made / "b.png"}),
        "film": (result.film, {"path": made / "a.gif", "fps": 12.0}),
        "html": (result.html, {"path": made / "a.html"}),
        "load_result": (geosim.load_result, {"path": path}),
        "load_robot": (geosim.load_robot, {"path": _robot_file(folder)}),
        "with_materials": (robot.with_materials, {"material": geosim.NeoHookean(2e4)}),
        "VolumetricRobot": (
            geosim.VolumetricRobot,
            {f.name: getattr(robot, f.name) for f in robot.__dataclass_fields__.values() if f.init},
        ),
        "get": (materials.get, {"name": "rtv615"}),
        "as_material": (materials.as_material, {"given": "rtv615"}),
        "source_of": (materials.source_of, {"material": geosim.NeoHookean(2e4)}),
    }


def _robot_file(folder: Path) -> Path:
    path = folder / "rods.toml"
    path.write_text(
        'kind = "rod-shell"\nunits = "mm"\n[[limbs]]\nstart = [0, 0, 0]\nend = [100, 0, 0]\nnodes = 8\nradius = 2.0\n'
        'material = { model = "linear-elastic", youngs_modulus = 1e6 }\n[fixed]\nids = [0, 1]\n'
    )
    return path


def _measured(folder: Path) -> dict[str, Call]:
    """Tests, scans and markers."""
    test = calibrate.MaterialTest("uniaxial", **TESTS)
    pull = folder / "pull.csv"
    pull.write_text("stretch,stress [kPa]\n" + "".join(f"{1 + 0.1 * i},{20 * i}\n" for i in range(1, 12)))
    made = calibrate.fit([test], "neo-hookean")
    robot = block()
    result = geosim.solve(robot, geosim.Inflation([1.02]), solver=geosim.EnergyShapeSolver(element="p1"))
    points = result.frames[-1][[0, 3, 12, 15, 48, 63]]
    cloud = folder / "cloud.xyz"
    cloud.write_text("\n".join(f"{x} {y} {z}" for x, y, z in result.surface(-1, 2).vertices))
    table = folder / "markers.csv"
    table.write_text("name,x_m,y_m,z_m\n" + "".join(f"m{i},{x},{y},{z}\n" for i, (x, y, z) in enumerate(points)))
    ids = [0, 3, 12, 15, 48, 63]
    parameter = calibrate.Parameter.material("mu", 2e4)
    soft = robot.with_materials(geosim.NeoHookean(2e4))
    seen = calibrate.Measurement.tip(geosim.Inflation([1.02]), result.tip[-1])
    return {
        "MaterialTest": (
            calibrate.MaterialTest,
            {"mode": "uniaxial", **TESTS, "name": "a", "notes": (), "warnings": ()},
        ),
        "fit": (calibrate.fit, {"tests": [test], "model": "neo-hookean", "max_stretch": 2.0, "stable": True}),
        "compare_models": (calibrate.compare_models, {"tests": [test]}),
        "nominal_stress": (
            calibrate.nominal_stress,
            {"model": "neo-hookean", "parameters": [2e4], "mode": "uniaxial", "stretch": [1.1, 1.2]},
        ),
        "stability_statement": (calibrate.stability_statement, {"model": "yeoh", "parameters": [2e4, -1e3, 0.0]}),
        "toe_offset": (calibrate.toe_offset, {"test": test}),
        "read_test": (
            calibrate.read_test,
            {"path": pull, "mode": "uniaxial", "delimiter": ",", "decimal": ".", "strain_column": 0}
            | {"stress_column": 1, "strain_unit": None, "stress_unit": "kPa", "area": 1e-4, "gauge_length": 0.1},
        ),
        "calibrate.run": (calibrate.run, {"tests": [pull], "model": "neo-hookean", "out": None, "reading": None}),
        "Calibration.save": (made.save, {"path": folder / "m.toml", "source": "a"}),
        "Parameter": (
            calibrate.Parameter,
            {"name": "a", "initial": 1.0, "change": lambda p, v: p, "lower": 0.0, "upper": 2.0, "step": 0.1},
        ),
        "Parameter.material": (calibrate.Parameter.material, {"constant": "mu", "initial": 1.0, "upper": 2.0}),
        "Measurement": (
            calibrate.Measurement,
            {
                "actuation": geosim.Passive(),
                "observe": lambda r: r.tip,
                "values": [[0, 0, 0]],
                "sigma": 1.0,
                "name": "a",
            },
        ),
        "Measurement.tip": (
            calibrate.Measurement.tip,
            {"actuation": geosim.Passive(), "positions": [0, 0, 0], "sigma": 1e-3},
        ),
        "Measurement.record": (
            calibrate.Measurement.record,
            {"actuation": geosim.Passive(), "positions": np.random.default_rng(0).random((9, 2, 3))}
            | {"rest": slice(0, 4), "hold": slice(5, 9)},
        ),
        "fit_robot": (
            calibrate.fit_robot,
            {"robot": soft, "measurements": [seen], "parameters": [parameter], "confidence": 0.9, "tolerance": 1e-2}
            | {"solver": geosim.EnergyShapeSolver(element="p1"), "max_iterations": 1},
        ),
        "Markers": (compare.Markers, {"positions": points, "names": list("abcdef"), "times": [0.0], "source": "a"}),
        "Markers.index": (compare.Markers(points, tuple("abcdef")).index, {"chosen": "a"}),
        "kabsch": (compare.kabsch, {"source": points, "target": points + 0.01}),
        "match_unordered": (compare.match_unordered, {"measured": points, "targets": points}),
        "to_markers": (
            compare.to_markers,
            {"result": result, "markers": points, "frame": -1, "vertices": ids, "base": [0, 1, 2], "units": "m"},
        ),
        "over_time": (
            compare.over_time,
            {
                "result": result,
                "markers": points,
                "frames": [0],
                "marker_frames": [0],
                "vertices": ids,
                "base": [0, 1, 2],
            },
        ),
        "to_scan": (
            compare.to_scan,
            {"result": result, "points": result.surface(-1, 2).vertices, "frame": -1, "register": "none", "base": None}
            | {"base_extent": 0.25},
        ),
        "read_scan": (compare.read_scan, {"path": cloud, "units": "m"}),
        "read_markers": (compare.read_markers, {"path": table, "units": "m"}),
    }


def _designed(folder: Path) -> dict[str, Call]:
    """Designs, with every dimension that they have."""
    import inspect

    design = generate.round_finger(length=60e-3)
    found: dict[str, Call] = {
        name: (maker, {k: p.default for k, p in inspect.signature(maker).parameters.items()})
        for name, maker in generate.ALL_GENERATORS.items()
        if name != "gripper"
    }
    return found | {
        "make": (generate.make, {"name": "twister", "radius": 8e-3}),
        "derivative": (generate.derivative, {"design": design, "parameter": "length"}),
        "RodDesign.robot": (generate.tendon_arm().robot, {"material": "rtv615"}),
        "RodDesign.actuation": (generate.entangler().actuation, {"material": "rtv615"}),
        "RodDesign.save": (
            generate.rod_gripper().save,
            {"folder": folder / "rods", "units": "mm", "material": "rtv615"},
        ),
        "Design.save": (design.save, {"folder": folder / "design", "units": "mm", "material": "rtv615"}),
    }


def _built() -> dict[str, Call]:
    """Parts of a multibody; each call has a builder of its own."""
    rubber = geosim.LinearElastic(1e5, 0.3)
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])

    def part(name: str) -> Callable[..., object]:
        def call(**given: Any) -> object:
            builder = MultibodyBuilder("a")
            builder.add_tets(corners, [[0, 1, 2, 3]], rubber)
            builder.add_body(1.0, [1.0, 1.0, 1.0], [0, 0, 0])
            builder.add_body(1.0, [1.0, 1.0, 1.0], [1, 0, 0])
            builder.add_chamber()
            getattr(builder, name)(**given)
            return builder.build()

        return call

    parts: dict[str, dict[str, Any]] = {
        "add_particles": {"positions": corners, "mass": 0.1, "velocity": (0, 0, 0)},
        "add_tets": {"vertices": corners, "tets": [[0, 1, 2, 3]], "material": rubber},
        "add_body": {"mass": 1.0, "inertia": [1.0, 1.0, 1.0], "position": [0, 0, 0], "orientation": [1, 0, 0, 0]}
        | {"velocity": [0, 0, 0], "spin": [0, 0, 0], "size": None, "friction": 1.0, "disc": None},
        "add_ball": {"body": 0, "center": [0, 0, 0], "radius": 0.1, "friction": 1.0},
        "add_wheel": {"body": 0, "radius": 0.1, "friction": 1.0, "axis": [0, 1, 0]},
        "add_particle_contact": {"particles": [0], "friction": 1.0, "radius": 0.1},
        "attach": {"particles": [0], "body": 0, "stiffness": 1e5},
        "add_ball_joint": {"body_a": 0, "body_b": 1, "point": [0, 0, 0], "stiffness": 1e5},
        "add_distances": {"ends": [[0, 1]], "stiffness": 1e3},
        "add_line": {"particles": [0, 1], "chamber": 0, "stiffness": 1e3, "modulus": 1e3},
        "fix_particles": {"particles": [0]},
        "fix_body": {"body": 0},
    }
    snake = {"links": 1, "count": 1, "friction": 0.5, "spacing": 0.4}
    return {name: (part(name), given) for name, given in parts.items()} | {"make_snake": (geosim.make_snake, snake)}


def _learned(folder: Path) -> dict[str, Call]:
    """Surrogates and reduced models, and what is asked of them."""
    model, found = small_reduced_model(), small_surrogate()
    goal = geosim.Goal.tip([0.02, 0.005, 0.005])
    return {
        "ReducedModel": (model, {"controls": [0.5, 2.5]}),
        "ReducedModel.outputs": (model.outputs, {"controls": [[0.5, 2.5]]}),
        "ReducedModel.tips": (model.tips, {"controls": [0.5, 2.5]}),
        "ReducedModel.positions": (model.positions, {"coefficients": [0.0, 1e-3]}),
        "ReducedModel.jacobian": (model.jacobian, {"of": "tip", "controls": [0.5, 2.5]}),
        "ReducedModel.actuation": (model.actuation, {"controls": [0.5, 2.5]}),
        "ReducedModel.solve_for": (model.solve_for, {"goals": goal, "start": [0.5, 2.5]}),
        "ReducedModel.estimate": (
            model.estimate,
            {"markers": [[0.02, 0.01, 0.01]], "vertices": [7], "noise": 1e-4, "before": [0.5, 2.5], "drift": 0.1},
        ),
        "ReducedModel.live": (model.live, {"lag": 0.1}),
        "ReducedModel.save": (model.save, {"path": folder / "kept.npz"}),
        "ReducedModel.load": (geosim.ReducedModel.load, {"path": model.save(folder / "model.npz")}),
        "Surrogate": (found, {"design": {"wall": 1.5, "rubber": "a"}, "measure": "bend"}),
        "Surrogate.gradient": (found.gradient, {"design": {"wall": 1.5, "rubber": "a"}, "measure": "bend"}),
        "Surrogate.effects": (found.effects, {"measure": "bend"}),
        "fit_relaxation": (
            calibrate.fit_relaxation,
            {"time": np.linspace(0.1, 9, 30), "stress": 2.0 - 0.1 * np.log(np.linspace(0.1, 9, 30))},
        ),
        "materials.knowledge": (materials.knowledge, {"product": "rtv615", "without": "x"}),
    }
