"""The guard of public functions: a wrong kind is an `InputError` with the argument's name, a fault of geosim stays what it is."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from bending import bent_result

import geosim
from geosim import InputError
from geosim.arguments import guarded
from geosim.model.contract import Solver

UNGUARDED = {
    "Status",
    "GeosimError",
    "InputError",
    "SolveError",
    "GENERATORS",
    "cable_targets",
    "open_only",
    "timeless",
}
UNGUARDED |= {
    "Actuation",
    "known_preset",
    "stretch_law",
    "invariant_law",
}  # a root without fields; what solvers and kernels call


def test_everything_public_is_guarded():
    """What a user can call: a new public name without the guard is noticed here."""
    modules = [geosim, *(importlib.import_module(f"geosim.{name}") for name in geosim._MODULES)]
    modules += [importlib.import_module(f"geosim.{name}") for name in geosim._OPEN]
    bare = []
    for module in modules:
        for name in module.__all__:
            found = getattr(module, name)
            call = vars(found).get("__init__") if inspect.isclass(found) else found
            if name not in UNGUARDED and callable(found) and not getattr(call, "guarded", False):
                bare.append(f"{module.__name__}.{name}")
    assert not bare


@guarded
def example(
    a: int = 0,
    b: float | None = None,
    c: Sequence[str] = (),
    d: Mapping[str, int] | None = None,
    e: Literal["x", "y"] = "x",
    f: tuple[float, float] = (0.0, 1.0),
    g: Callable[[], Any] | None = None,
    h: Solver[Any] | None = None,
    i: Any = None,
) -> None:
    """Fail like a function that found a value of another kind."""
    raise TypeError("inside")


SOUND = {
    **dict(a=np.int64(3), b=np.float32(1.0), c=["x"], d={"a": 1}, e="y", f=[1, 2], g=len, h=geosim.EnergyShapeSolver()),
    "i": np.zeros((2, 3)),
}
WRONG = {**dict(a=1.5, b="x", c="text", d={"a": "b"}, e="z", f=[1.0], g=3, h=geosim.EnergyShapeSolver, i=object())}


@pytest.mark.parametrize("name", WRONG)
def test_the_argument_of_another_kind_is_named(name):
    with pytest.raises(InputError, match=rf"^example: {name} = .* must be .* \(TypeError: inside\)"):
        example(**{**SOUND, name: WRONG[name]})


@pytest.mark.parametrize("wrong", [bytearray(b"x"), range(3)])
def test_numbers_in_a_row_are_no_sequence_of_texts(wrong):
    with pytest.raises(InputError, match=r"^example: c = .* must be"):
        example(**{**SOUND, "c": wrong})


def test_a_fault_with_sound_arguments_is_not_hidden():
    with pytest.raises(TypeError, match="inside"):
        example(**SOUND)
    with pytest.raises(TypeError, match="there is no argument"):
        example(nothing=1)


def test_impossible_arguments_of_results_and_materials(tmp_path):
    result = bent_result(1)
    for call, words in (
        (lambda: geosim.error_bars({}), "error_bars: result = {} must be a Result"),
        (lambda: result.nodes(np.zeros(3)), "frame array"),
        (lambda: result.nodes(7), "frame 7 does not exist"),
        (lambda: result.save([1]), r"Result.save: path = \[1\] must be a text or a path"),
        (lambda: geosim.Ogden(mu=(1e4,), alpha=(2.0,), bulk_modulus=np.ones(3)), "Ogden: bulk_modulus = array"),
        (lambda: geosim.Inflation(volume_ratio=np.broadcast_to(1.1, (10**8, 1))), "100000000 values"),
        (lambda: geosim.solve_many([3]), r"problems\[0\] = 3 must be"),
        (lambda: geosim.solve_many(np.array(None)), "solve_many: problems = .* must be"),
        (lambda: geosim.Select.plane("x", below=0.0)(np.zeros((1, 0))), "Select: vertices"),
        (
            lambda: geosim.calibrate.nominal_stress("neo-hookean", np.zeros((1, 2)), "uniaxial", [1.1]),
            "nominal_stress: parameters",
        ),
        (
            lambda: geosim.calibrate.Parameter("E", -(2**63) - 1, lambda problem, value: problem, 0.0, 1.0),
            "must lie in",
        ),
        (lambda: geosim.generate.fiber_twister(turns=1j), "turns = 1j must be a finite number"),
        (lambda: geosim.generate.twister(radius=1e308), "radius"),
        (lambda: geosim.generate.pneunet(chambers=100_000), "at most 200"),
    ):
        with pytest.raises(InputError, match=words):
            call()
