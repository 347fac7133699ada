"""geosim predicts the shape of soft robots: solve(robot, actuation, environment) -> Result."""

from __future__ import annotations

import importlib
import logging
from typing import Any

__version__ = "0.3.0"

logging.getLogger("geosim").addHandler(logging.NullHandler())  # silent unless the user's program listens

# Public name -> module; loaded when first used, so that `import geosim` stays light.
_PLACES = {
    "solve": "solve",
    "solve_many": "solve",
    "VolumetricRobot": "robot",
    "Select": "select",
    "Actuation": "actuation",
    "Cable": "cable",
    "CableLengths": "actuation",
    "CableTensions": "actuation",
    "EdgeLengths": "actuation",
    "FaceAreas": "actuation",
    "Fibre": "fabric",
    "Inflation": "actuation",
    "NaturalShape": "actuation",
    "Passive": "actuation",
    "Syringe": "actuation",
    "UndulatoryGait": "actuation",
    "ValveCommands": "actuation",
    "Environment": "environment",
    "Fluid": "environment",
    "Load": "environment",
    "Obstacle": "environment",
    "Prescribed": "environment",
    "RigidGroup": "environment",
    "Gent": "material.laws",
    "Layer": "fabric",
    "LinearElastic": "material.materials",
    "MooneyRivlin": "material.laws",
    "NeoHookean": "material.laws",
    "Ogden": "material.laws",
    "Yeoh": "material.laws",
    "Result": "result",
    "Status": "result",
    "Report": "result",
    "GeosimError": "errors",
    "InputError": "errors",
    "SolveError": "errors",
    "EnergyShapeSolver": "shape.energy.solver",
    "ProjectiveShapeSolver": "shape.projective.solver",
    "Limb": "rods.robot",
    "RodShellRobot": "rods.robot",
    "Section": "rods.section",
    "RodShellStepper": "rods.stepper",
    "MultibodyRobot": "snake.model",
    "MultibodyStepper": "snake.stepper",
    "SnakeRobot": "snake.model",
    "MultibodyBuilder": "snake.builder",
    "Valves": "snake.valves",
    "make_snake": "snake.snake",
    "Goal": "inverse.goals",
    "Inverse": "inverse.search",
    "solve_for": "inverse.search",
    "Sensitivity": "derivatives.sensitivity",
    "sensitivity": "derivatives.sensitivity",
    "ErrorBars": "accuracy.bars",
    "Tolerances": "tolerances",
    "adapt": "accuracy.adapting",
    "error_bars": "accuracy.bars",
    "Made": "moulds.making",
    "make": "moulds.making",
    "ReducedModel": "bridges.reduced",
    "reduce": "bridges.reducing",
    "write_mjcf": "bridges.mjcf",
    "load_robot": "files.robot",
    "load_result": "files.archive",
    "sweep": "study.sweeping",
    "optimize": "study.optimizing",
    "Surrogate": "study.surrogate",
    "surrogate": "study.surrogate",
}
# Modules whose every public name is one of geosim: a new actuation, a new law need no line here.
_OPEN = ("actuation", "material.laws")
_MODULES = ("calibrate", "compare", "generate", "materials")

__all__ = ["__version__", *_MODULES, *_PLACES]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name in _PLACES:
        module = importlib.import_module(f"geosim.{_PLACES[name]}")
        value = getattr(module, name)
        globals()[name] = value
        return value
    bridges = ("jax", "torch")  # modules that need an extra: no part of __all__, which would load them
    if name in (*_MODULES, *bridges):
        return importlib.import_module(f"geosim.{name}")
    for place in _OPEN:
        module = importlib.import_module(f"geosim.{place}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'geosim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
