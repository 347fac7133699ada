"""The demonstrations of `geosim demo`, each in a line with its duration."""

from __future__ import annotations

from typing import NamedTuple


class Demo(NamedTuple):
    """A demonstration.

    Attributes
    ----------
    what
        One line.
    seconds
        Whole process on two cores, kernels compiled, about [s].
    ratios
        V/V0 of every step; () where the folder of the robot brings its own actuation, or it is a case of rods and shells.
    """

    what: str
    seconds: int
    ratios: tuple[float, ...] = ()


# Seconds of bellows and entanglement are estimates: they take several minutes.
FIRST_DEMO = "pneunet"
DEMOS = {
    # robots of data/meshes/; the PneuNet stops before its bellows touch
    "pneunet": Demo("PneuNet finger of ten bellows curls down.", 50, (1.05, 1.1, 1.15, 1.2)),
    "bellows": Demo("Soft finger of eleven thin bellows, which touch each other.", 300, (1.1, 1.2)),
    "finger": Demo("Plain finger with one straight chamber, to twice its volume.", 25, (1.2, 1.4, 1.6, 1.8, 2.0)),
    "gripper": Demo("Three PneuNets close on a ball and let it be pulled.", 200),
    "membrane": Demo("A membrane is lifted by four pads that are inflated.", 290, (1.1, 1.2)),
    "snake": Demo("Soft snake of [Gasoto2019] crawls on passive wheels.", 60),
    "sphere": Demo("Thick sphere, whose pressure is known in closed form.", 65, (1.25, 1.5, 2.0, 2.5, 3.0)),
    "twister": Demo("A slot that winds about a cylinder twists it.", 75, (1.1, 1.2)),
    # cases of [Choi2024] and [Lahoti]
    "cantilever": Demo("Vibration of a cantilever rod in its first mode.", 12),
    "helix": Demo("A hanging helix oscillates under gravity.", 19),
    "spider": Demo("A spider of rods is dropped on an incline.", 20),
    "entanglement": Demo("Actuated rods entangle: frictional contact of a gripper of fingers.", 210),
    "parachute": Demo("A canopy of shells with ropes and a payload falls in air.", 20),
    "pneunet-rod": Demo("A PneuNet as a rod with natural curvature, under loads at its tip.", 6),
    "falling-rods": Demo("A soft and a stiff rod fall on the ground.", 14),
    "manta": Demo("A manta of shells flaps in water.", 45),
    "flapping-plate": Demo("A plate in water, held along one side that heaves.", 50),
    "cantilever-rod": Demo("Cantilever under gravity, as a rod.", 8),
    "cantilever-hinge": Demo("The same as a shell of hinges.", 10),
    "cantilever-mid-edge": Demo("The same as a shell with mid-edge normals.", 11),
    "draped-sheet": Demo("A rubber sheet falls on a sphere and drapes over it.", 100),
}


def demo_list() -> str:
    """Return a line for every demonstration: name, what it shows, about how long it takes."""
    name = max(map(len, DEMOS))
    what = max(len(d.what) for d in DEMOS.values())
    return "\n".join(f"{key:{name}}  {d.what:{what}}  {d.seconds:4d} s" for key, d in DEMOS.items())
