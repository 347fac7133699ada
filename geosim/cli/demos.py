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
        CPU time of the whole process, kernels compiled, about [s].
    ratios
        V/V0 of every step; () where the robot file names its actuation, or it is a case of rods and shells.
    """

    what: str
    seconds: int
    ratios: tuple[float, ...] = ()


FIRST_DEMO = "pneunet"
DEMOS = {
    # robots of data/meshes/; the PneuNet stops before its bellows touch
    "pneunet": Demo("PneuNet finger of ten bellows curls down.", 15, (1.05, 1.1, 1.15, 1.2)),
    "bellows": Demo("Soft finger of five thin bellows, which touch each other.", 22),
    "finger": Demo("Plain finger with one straight chamber, to twice its volume.", 9, (1.2, 1.4, 1.6, 1.8, 2.0)),
    "gripper": Demo("Three PneuNets close on a ball and hold it while it is pulled.", 29),
    "membrane": Demo("A membrane is lifted by four pads that are inflated.", 18),
    "snake": Demo("Soft snake of [Gasoto2019] crawls on passive wheels.", 13),
    "sphere": Demo("Thick sphere, whose pressure is known in closed form.", 16, (1.25, 1.5, 2.0, 2.5, 3.0)),
    "twiner": Demo("A slender cylinder curls when it is inflated, and twines round a rod.", 20),
    "twister": Demo("A slot that winds about a cylinder twists it.", 28, (2.0, 4.0)),
    # cases of [Choi2024] and [Lahoti]
    "cantilever": Demo("Vibration of a cantilever rod in its first mode.", 3),
    "helix": Demo("A hanging helix oscillates under gravity.", 4),
    "spider": Demo("A spider of rods is dropped on an incline.", 21),
    "entanglement": Demo("Actuated rods entangle: frictional contact of a gripper of fingers.", 14),
    "parachute": Demo("A canopy of shells with ropes and a payload falls in air.", 3),
    "pneunet-rod": Demo("A PneuNet as a rod with natural curvature, under loads at its tip.", 2),
    "falling-rods": Demo("A soft and a stiff rod fall on the ground.", 15),
    "manta": Demo("A manta of shells flaps in water.", 6),
    "flapping-plate": Demo("A plate in water, held along one side that heaves.", 9),
    "cantilever-rod": Demo("Cantilever under gravity, as a rod.", 2),
    "cantilever-hinge": Demo("The same as a shell of hinges.", 2),
    "cantilever-mid-edge": Demo("The same as a shell with mid-edge normals.", 3),
    "draped-sheet": Demo("A rubber sheet falls on a sphere and drapes over it.", 17),
}


def demo_list() -> str:
    """Return a line for every demonstration: name, what it shows, about how much CPU time it takes."""
    name = max(map(len, DEMOS))
    what = max(len(d.what) for d in DEMOS.values())
    return "\n".join(f"{key:{name}}  {d.what:{what}}  {d.seconds:4d} s" for key, d in DEMOS.items())
