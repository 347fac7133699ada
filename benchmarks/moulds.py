"""Parts to build every generator's designs with, at random dimensions: whether they close, come apart, and hold the volume.

    python benchmarks/moulds.py [NAME ...] [--count 10] [--out DIR]

A part is watertight if every edge of its STL file has two triangles. `off %`: volume of the cut body against that of the robot
that is solved. `stuck`: parts that collide on their way off, by name; they are named on the page as well. CPU s: of `make` alone.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
import time
from pathlib import Path

import numpy as np
import trimesh

import geosim
from geosim import generate

SPREAD = 0.25  # of every length, about its default


def dimensions(name: str, rng) -> dict:
    """Lengths up to a quarter off their defaults, counts up to one more or less."""
    out = {}
    for key, value in inspect.signature(getattr(generate, name)).parameters.items():
        given = value.default
        if isinstance(given, bool) or given is None:
            continue
        if isinstance(given, int):
            out[key] = max(1, given + int(rng.integers(-1, 2)))
        elif isinstance(given, float):
            out[key] = given * rng.uniform(1 - SPREAD, 1 + SPREAD)
        elif isinstance(given, tuple):
            out[key] = tuple(v * rng.uniform(1 - SPREAD, 1 + SPREAD) for v in given)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(generate.names()))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", type=Path, help="folder to keep the files in")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="geosim-moulds-"))
    print(
        f"{'design':18s}{'parts':>6s}{'open':>5s}{'off %':>9s}{'least wall mm':>14s}{'pours':>6s}{'CPU s':>7s}  stuck"
    )
    for name in given.names or generate.names():
        rng, done = np.random.default_rng(list(generate.names()).index(name)), 0
        while done < given.count:
            try:
                design = getattr(generate, name)(**dimensions(name, rng))
            except geosim.InputError:
                continue  # dimensions that cannot be
            robot = design.robot("dragon-skin-20-fang2022", preview=True)
            clock = time.process_time()
            made = geosim.make(robot, out / f"{name}-{done}")
            spent = time.process_time() - clock
            torn = [p.name for p in made.parts if not trimesh.load(made.folder / f"{p.name}.stl").is_watertight]
            stuck = ", ".join(p.name for p in made.parts if not p.leaves)
            pours = sum(p.kind == "cast" for p in made.parts)
            print(
                f"{f'{name} {done}':18s}{len(made.parts):6d}{len(torn):5d}{100 * made.cavity_error:9.1e}"
                f"{made.walls.least[0] * 1e3:14.2f}{pours:6d}{spent:7.1f}  {stuck}",
                flush=True,
            )
            done += 1


if __name__ == "__main__":
    main()
