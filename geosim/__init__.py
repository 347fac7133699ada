"""geosim predicts the shape of soft robots: solve(robot, actuation, environment) -> Result."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import logging
import sys
from types import ModuleType
from typing import Any, cast

__version__ = "0.3.0"

logging.getLogger("geosim").addHandler(logging.NullHandler())  # silent unless the user's program listens

# Public name -> module; loaded when first used, so that `import geosim` stays light.
_PLACES = {
    "solve": "solve",
    "solve_many": "solve",
    "VolumetricRobot": "model.robot",
    "Select": "model.select",
    "Actuation": "model.actuation",
    "Cable": "model.cable",
    "CableLengths": "model.actuation",
    "CableTensions": "model.actuation",
    "EdgeLengths": "model.actuation",
    "FaceAreas": "model.actuation",
    "Fibre": "model.fabric",
    "Inflation": "model.actuation",
    "NaturalShape": "model.actuation",
    "Passive": "model.actuation",
    "SupplyLine": "model.actuation",
    "Syringe": "model.actuation",
    "UndulatoryGait": "model.actuation",
    "ValveCommands": "model.actuation",
    "Environment": "model.environment",
    "Fluid": "model.environment",
    "Load": "model.environment",
    "Obstacle": "model.environment",
    "Prescribed": "model.environment",
    "RigidGroup": "model.environment",
    "Gent": "material.laws",
    "Layer": "model.fabric",
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
    "EnergyShapeStepper": "shape.energy.motion.stepper",
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
    "Goal": "response.inverse.goals",
    "Inverse": "response.inverse.search",
    "solve_for": "response.inverse.search",
    "time_to_pressure": "response.rise",
    "Sensitivity": "response.derivatives.sensitivity",
    "sensitivity": "response.derivatives.sensitivity",
    "RodMotion": "response.derivatives.motion",
    "ErrorBars": "response.accuracy.bars",
    "Tolerances": "model.tolerances",
    "adapt": "response.accuracy.adapting",
    "error_bars": "response.accuracy.bars",
    "Made": "apps.moulds.making",
    "make": "apps.moulds.making",
    "ReducedModel": "apps.bridges.reduced",
    "reduce": "apps.bridges.reducing",
    "write_mjcf": "apps.bridges.mjcf",
    "load_case": "files.robot",
    "load_robot": "files.robot",
    "load_result": "files.archive",
    "Posterior": "apps.condition.posterior",
    "condition": "apps.condition.conditioning",
    "sweep": "apps.study.sweeping",
    "optimize": "apps.study.optimizing",
    "Surrogate": "apps.study.surrogate",
    "surrogate": "apps.study.surrogate",
}
# Modules whose every public name is one of geosim: a new law needs no line here, nor does a command beside its constraint.
_OPEN = ("model.actuation", "material.laws")
_MODULES = ("calibrate", "compare", "generate", "materials")
# Import path that stays -> where the module is: `import geosim.calibrate`, and what lies below it, find it there.
MOVED = {
    **{name: f"apps.{name}" for name in ("bridges", "calibrate", "compare", "learning", "moulds", "studio", "study")},
    **{name: f"apps.bridges.{name}" for name in ("jax", "torch")},
    **{name: f"response.{name}" for name in ("accuracy", "derivatives", "inverse")},
    **{name: f"model.{name}" for name in ("actuation", "cable", "contract", "environment", "fabric", "materials")},
    **{name: f"model.{name}" for name in ("robot", "select", "tolerances")},
}

__all__ = ["__version__", *_MODULES, *_PLACES]


class _Moved:
    """Finds a module under the import path that stays: the one module, by two names."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        name, dot, below = rest.partition(".")
        if package != "geosim" or name not in MOVED:
            return None
        return importlib.machinery.ModuleSpec(fullname, cast(Any, self), origin=f"geosim.{MOVED[name]}{dot}{below}")

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        moved = module.__spec__
        module.__spec__ = None if moved is None else moved.loader_state  # its own again: it has run where it is


sys.meta_path.insert(0, _Moved())


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name in _PLACES:
        value = getattr(_imported(_PLACES[name]), name)
        globals()[name] = value
        return value
    bridges = ("jax", "torch")  # modules that need an extra: no part of __all__, which would load them
    if name in (*_MODULES, *bridges):
        return _imported(MOVED.get(name, name))
    for place in _OPEN:
        module = _imported(place)
        if name in module.__all__:
            return getattr(module, name)
    places = _places_of(name)
    constraints = "shape.energy.constraints."
    if f"geosim.{constraints}scalars" in sys.modules or any(place.startswith(constraints) for place in places):
        found = _imported(f"{constraints}scalars").known_actuations().get(name)
        if found is not None:
            return found
    from geosim.arguments import suggestion

    hint = f"; it is in geosim.{places[0]}" if places else suggestion(name, __all__)
    raise AttributeError(f"module 'geosim' has no attribute {name!r}{hint}")


def _places_of(name: str) -> list[str]:
    """Return the modules that define a public class or function; they are read as text, since imports take seconds."""
    import re
    from pathlib import Path

    root, definition = Path(__file__).parent, re.compile(rf"^(?:class|def) {re.escape(name)}\b", re.MULTILINE)
    files = [] if name.startswith("_") else sorted(root.rglob("*.py"))
    found = (path.relative_to(root).with_suffix("") for path in files if definition.search(path.read_text("utf-8")))
    return [".".join(path.parts).removesuffix(".__init__") for path in found]


def _imported(place: str) -> ModuleType:
    """Import a module without the collector of garbage, which finds none among classes and functions: a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(f"geosim.{place}")
    finally:
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
