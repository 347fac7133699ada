"""Parametric designs: surfaces of bodies, ready to be meshed, and rods with cables, from a few dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from geosim.arguments import guarded
from geosim.arrays import Floats, choice
from geosim.generate.boxes import membrane, pneunet, tendon_finger, vacuum_muscle
from geosim.generate.derivatives import velocities
from geosim.generate.design import Design
from geosim.generate.gripper import gripper
from geosim.generate.rods import RodDesign, entangler, rod_gripper, tendon_arm
from geosim.generate.round import (
    bellows,
    fiber_bender,
    fiber_extender,
    fiber_twister,
    kresling,
    round_finger,
    twiner,
    twister,
)

__all__ = [
    "ALL_GENERATORS",
    "GENERATORS",
    "ROD_GENERATORS",
    "Design",
    "RodDesign",
    "bellows",
    "derivative",
    "entangler",
    "fiber_bender",
    "fiber_extender",
    "fiber_twister",
    "gripper",
    "kresling",
    "make",
    "membrane",
    "names",
    "pneunet",
    "rod_gripper",
    "round_finger",
    "tendon_arm",
    "tendon_finger",
    "twiner",
    "twister",
    "vacuum_muscle",
]

GENERATORS: Mapping[str, Callable[..., Design]] = {
    f.__name__: f
    for f in (
        pneunet,
        round_finger,
        fiber_bender,
        twister,
        bellows,
        membrane,
        tendon_finger,
        gripper,
        fiber_extender,
        fiber_twister,
        kresling,
        vacuum_muscle,
        twiner,
    )
}

ROD_GENERATORS: Mapping[str, Callable[..., RodDesign]] = {f.__name__: f for f in (tendon_arm, rod_gripper, entangler)}
ALL_GENERATORS: Mapping[str, Callable[..., Any]] = {**GENERATORS, **ROD_GENERATORS}


@guarded
def names() -> tuple[str, ...]:
    """Return the names of all generators, those of bodies first."""
    return tuple(ALL_GENERATORS)


@guarded
def make(name: str, **parameters: Any) -> Any:
    """Return the `Design` or `RodDesign` of a generator by its name and its `parameters`, as a robot file holds them.

    Those of a gripper's finger begin with `finger_`; without `finger` it is a pneunet.

    Raises
    ------
    InputError
        The name or a parameter is unknown, or a dimension cannot be.
    """
    finger_prefix = "finger_"  # before the names of the finger's parameters among those of the gripper
    generator = ALL_GENERATORS[choice(name, "design", ALL_GENERATORS)]
    parts = {
        key.removeprefix(finger_prefix): parameters.pop(key)
        for key in list(parameters)
        if key.startswith(finger_prefix)
    }
    finger = parameters.get("finger", pneunet.__name__ if parts else None)
    if isinstance(finger, str):
        choice(finger, "finger", GENERATORS)
        parameters["finger"] = make(finger, **parts)
    return generator(**parameters)


@guarded
def derivative(design: Design, parameter: str) -> tuple[Floats, tuple[Floats, ...]]:
    """Return the derivatives of all vertices by a dimension, of the body (n, 3) and of every chamber [1].

    Parameters
    ----------
    parameter
        A name of `design.parameters`; "channel:0" is the first number of a pair.

    Raises
    ------
    InputError
        The design has no such dimension, or it is a whole number.
    """
    return velocities(design, parameter, make)
