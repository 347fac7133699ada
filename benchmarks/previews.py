"""What previews lack and cost, and how the time of a solve grows with the mesh.

    OMP_NUM_THREADS=1 python benchmarks/previews.py preview --out FOLDER [finger pneunet bellows round]
    OMP_NUM_THREADS=1 python benchmarks/previews.py growth --out FOLDER [--most 60000]
    OMP_NUM_THREADS=1 python benchmarks/previews.py million --out FOLDER

`preview`: how far the tip is from that of isochoric P2 on the fine mesh of `elements.py`, over the way of the tip, and CPU
seconds of the solve, for a preview and for the default mesh; the mesher's seconds stand beside them. `growth`: CPU seconds of a
Newton iteration of the plain finger on its way to V/V0 = 1.2, from 6k to `most` body tets, the exponent between a mesh and the
one before, and the largest memory until then. `million`: the same with a million tets. Kernels are warm. What is done stands in
FOLDER and is not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
from elements import ELEMENTS, LIMIT, ROBOTS, _finger, measured

from geosim import Select, VolumetricRobot, generate
from geosim.resources import resource


def finger(preview: bool, **options: Any) -> VolumetricRobot:
    """Return the plain finger that ships."""
    options = {"max_edge": 4.3e-3, **options}
    folder = resource("meshes") / "finger"
    return VolumetricRobot.from_surfaces(
        folder / "body.stl", [folder / "chamber.stl"], units="mm", material="ecoflex-00-30-fang2022", preview=preview,
        **options, fixed=Select.plane("x", below=1e-4), tip=Select.plane("x", above=99.9e-3))  # fmt: skip


MAKE: dict[str, Callable[[bool], VolumetricRobot]] = {
    "finger": finger,
    "pneunet": lambda preview: generate.pneunet(chambers=3).robot("ecoflex-00-30-fang2022", preview=preview),
    "bellows": lambda preview: generate.bellows(convolutions=2).robot("ecoflex-00-30-fang2022", preview=preview),
    "round": lambda preview: generate.round_finger().robot("ecoflex-00-30-fang2022", preview=preview),
}
EDGES = (
    4.5e-3,
    3.4e-3,
    2.6e-3,
    2.0e-3,
    1.55e-3,
    1.2e-3,
    1.0e-3,
    0.67e-3,
)  # of the finger [m], each of about twice as many tets


class Kept:
    """Solves whose numbers are kept in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def solved(self, name: str, make: Callable[[], VolumetricRobot], ratio: float, element: str) -> dict[str, Any]:
        """Return CPU seconds of meshing and solving and what was found, of now or of before."""
        if name not in self.known:
            began = time.process_time()
            robot = make()
            meshing = time.process_time() - began
            found = measured(robot, ratio, ELEMENTS[element])
            peak = getrusage(RUSAGE_SELF).ru_maxrss / 2**20  # GB, of the process until now
            self.known[name] = {**found, "meshing": meshing, "memory": peak}
            self.file.write_text(json.dumps(self.known, indent=1))
        return self.known[name]


def preview(names: list[str], kept: Kept) -> None:
    """Print a row for the default mesh and one for the preview of every robot."""
    print("robot     mesh      tets  Newton  CPU s  of default  meshing  tip %")
    for name in names:
        fine, ratio, edges = ROBOTS[name]
        goal = np.array(kept.solved(f"{name}/limit", lambda f=fine, e=edges[-1]: f(e), ratio, LIMIT)["tip"])
        first = None
        for mesh in ("default", "preview"):
            make = MAKE[name]
            one = kept.solved(f"{name}/{mesh}", lambda m=make, p=mesh == "preview": m(p), ratio, LIMIT)
            first = first or one
            miss = 100.0 * np.linalg.norm(np.array(one["tip"]) - goal) / np.linalg.norm(goal)
            print(
                f"{name:9s} {mesh:8s} {one['tets']:5d} {one['newton']:7d} {one['seconds']:6.2f} "
                f"{one['seconds'] / first['seconds']:11.2f} {one['meshing']:8.2f} {miss:6.2f}",
                flush=True,
            )


def growth(most: int, kept: Kept) -> None:
    """Print CPU seconds of an iteration, and their exponents, of one element after the other."""
    print("element          tets  Newton  CPU s an iteration  exponent  peak GB")
    for element in ("P2 isochoric", "P1 smoothed"):
        before = None
        for edge in EDGES:
            if before is not None and 2 * before["tets"] > most:
                break
            one = kept.solved(f"finger/{edge * 1e3:g}/{element}", lambda e=edge: _finger(e), 1.2, element)
            each = one["seconds"] / one["newton"]
            exponent = ""
            if before is not None:
                ratio = each * before["newton"] / before["seconds"]
                exponent = f"{np.log(ratio) / np.log(one['tets'] / before['tets']):.2f}"
            print(
                f"{element:13s} {one['tets']:7d} {one['newton']:7d} {each:19.2f}  {exponent:>8s} {one['memory']:8.1f}",
                flush=True,
            )
            before = one


def million(kept: Kept) -> None:
    """Print what the plain finger of a million quadratic tets costs on its way to V/V0 = 1.2."""
    one = kept.solved("million", lambda: finger(False, max_edge=0.8e-3, remesh=False, time_limit=1500.0), 1.2, LIMIT)
    print(
        f"{one['tets']} tets: {one['newton']} iterations, {one['seconds']:.0f} CPU s, meshed in {one['meshing']:.0f}, "
        f"{one['memory']:.1f} GB"
    )


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["preview", "growth", "million"])
    parser.add_argument("robots", nargs="*", help=f"of {list(MAKE)}; default: all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=int, default=60000, help="body tets of the largest mesh, at most")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for options in ELEMENTS.values():
        measured(_finger(20e-3), 1.1, options)  # kernels are compiled, or read, by the first solve
    kept = Kept(given.out / f"{given.what}.json")
    if given.what == "preview":
        preview(given.robots or list(MAKE), kept)
    elif given.what == "million":
        million(kept)
    else:
        growth(given.most, kept)


if __name__ == "__main__":
    main()
