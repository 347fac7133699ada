"""`geosim reduce` and `geosim export`: reduced models, and files for other tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tqdm import tqdm

import geosim
from geosim.apps.bridges.reduced import ReducedModel
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.files.archive import load_result
from geosim.writing import checked_target


def controls(text: str) -> tuple[str, Floats]:
    """Return what is varied, and its bounds [SI], of "pressure_kpa=0:5" or one range a control, "pressure_kpa=0:5,0:3".

    Raises
    ------
    InputError
        It cannot be read.
    """
    name, _, ranges = text.partition("=")
    # Names of --controls -> `vary` and the factor to SI.
    control_units = {
        "pressure_kpa": ("pressure", 1e3),
        "volume_ratio": ("volume_ratio", 1.0),
        "cable_length_mm": ("cable_length", 1e-3),
        "cable_tension_n": ("cable_tension", 1.0),
    }
    if name not in control_units:
        raise InputError(f"--controls {text!r}: name one of {', '.join(control_units)}, like pressure_kpa=0:5")
    try:
        rows = [[float(number) for number in part.split(":")] for part in ranges.split(",")]
    except ValueError:
        rows = []
    if not rows or any(len(row) != 2 for row in rows):
        raise InputError(
            f"--controls {text!r}: write the least and the largest value, {name}=0:5, or one range a control"
        )
    vary, factor = control_units[name]
    return vary, factor * np.array(rows[0] if len(rows) == 1 else rows)


def reduce(robot: Path, given: str | None, out: Path, accuracy: float, max_solves: int, preview: bool) -> list[str]:
    """Reduce the robot of a file, write the model, and return what is said of it.

    Raises
    ------
    InputError
        As `geosim.reduce`.
    """
    from geosim.cli import running

    out = checked_target(out, ".npz", ".onnx", ".xml")
    chosen = None if given is None else controls(given)
    body, environment, solver = running.problem(robot, preview=preview)
    vary, bounds = chosen or ("pressure" if body.chambers else "cable_tension", None)
    with tqdm(unit="solve", disable=None) as line:  # on a terminal only
        told = lambda count: line.update(count - line.n)  # noqa: E731
        model = geosim.reduce(body, bounds, vary, environment, solver, accuracy, max_solves, progress=told)
    if out.suffix.lower() == ".xml":
        geosim.write_mjcf(body, model, out, environment=environment, solver=solver)
    else:
        model.save(out)
    share = model.bounds["tip"] / model.motion
    said = [
        f"{model.name}: {model.solves} equilibria, {model.rank} shapes, polynomials of degree {model.chaos.degree}",
        f"tip off by at most {1e3 * model.bounds['tip']:.3g} mm in 95 % of the box, {100 * share:.2g} % of its largest way",
        f"wrote {out}",
    ]
    if share > accuracy:
        said.insert(2, f"{100 * accuracy:.3g} % were asked for: allow more --max-solves, or narrow --controls")
    return said


def export(source: Path, out: Path) -> list[str]:
    """Write a result or a reduced model in the format that a suffix names; return what is said of it.

    Raises
    ------
    InputError
        The file is neither, or the format does not go with it.
    """
    suffix = out.suffix.lower()
    if suffix == ".xml":
        raise InputError(
            f"{out.name}: MuJoCo files need the robot: geosim reduce ROBOT.toml --controls ... --out {out.name}"
        )
    if suffix == ".onnx":
        return [f"wrote {ReducedModel.load(source).save(out)}"]
    return [f"wrote {load_result(source).save(out)}"]
