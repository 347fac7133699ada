"""The command `geosim condition`: a robot file and a test in, a posterior, predictions and lines of text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.condition.conditioning import DRAWS, condition
from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.prediction import as_loads
from geosim.apps.condition.rows import TestRows, read_rows
from geosim.apps.condition.solving import SolvedTest
from geosim.apps.condition.unknowns import read_unknowns
from geosim.apps.condition.wording import lines, write_rows
from geosim.apps.condition.wording import rows as rows_of
from geosim.arguments import guarded
from geosim.errors import InputError
from geosim.files.robot import load_problem
from geosim.model.contract import taken
from geosim.model.robot import VolumetricRobot
from geosim.shape.energy.solver import EnergyShapeSolver

CANDIDATES = 5  # of the next test: as many lines as a terminal shows at a glance


@guarded
def run(
    robot: str | Path,
    test: str | Path,
    unknowns: str,
    folder: str | Path,
    *,
    of: str | None = None,
    at: Sequence[float] = (),
    solving: SolvedTest | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    preview: bool = False,
) -> list[str]:
    """Condition a robot on a test, and write posterior.npz, predictions.csv and pairs.png.

    Parameters
    ----------
    robot, test
        robot.toml and the CSV of the test.
    unknowns
        "wall_mm=1.5:2.2,modulus=0.7:1.4".
    folder
        That files are written to.
    of
        Wanted measure; default the first of the test.
    at
        Loads that are predicted; default those of the test and three times the largest.
    solving, draws, seed
        As in `condition`.
    preview
        Take the coarsest mesh that keeps the geometry.

    Returns
    -------
    list of str
        Verdict, draws, unknowns, the prediction, and the next test.

    Raises
    ------
    InputError
        As `condition`.
    """
    rows, ranges = read_rows(test), read_unknowns(unknowns)
    body, environment, solver = load_problem(robot, preview=preview)
    body = taken(body, VolumetricRobot, "geosim condition")
    plan = solving or SolvedTest()
    if plan.solver is None and solver is not None:
        plan = replace(plan, solver=taken(solver, EnergyShapeSolver, "geosim condition"))
    wanted = of or rows.names[0]
    plane = rows.loads[:, 1].any()
    if plane and at:
        raise InputError("geosim condition: --at takes loads of one actuator; this test has load_2")
    size = float(np.abs(rows.loads).max())
    asked = list(at) or ([] if plane else [size, 2.0 * size, 3.0 * size])
    found = condition(
        body,
        rows,
        ranges,
        environment=environment,
        draws=draws,
        seed=seed,
        at=asked or None,
        of=(wanted,),
        solving=plan,
    )
    folder = Path(folder)
    found.save(folder / "posterior.npz")
    found.plot(folder / "pairs.png")
    loads: Any = asked if asked else np.unique(rows.loads, axis=0)
    names = dict.fromkeys((wanted, *rows.names))
    write_rows(folder / "predictions.csv", [row for name in names for row in rows_of(found, name, loads)])
    return [*lines(found, wanted, loads), *next_lines(found, rows, wanted, loads)]


def next_lines(found: Posterior, rows: TestRows, wanted: str, loads: Any) -> list[str]:
    """Return which light tests would narrow the wanted measure at its last load, in at most five lines."""
    sizes = np.linalg.norm(rows.loads, axis=1)
    light = np.unique(rows.loads[sizes >= 0.5 * sizes.max()], axis=0)
    candidates = [(name, load[None]) for name in rows.names for load in light]
    tests = found.next_test(candidates, of=(wanted, as_loads(loads)[-1:]))
    return [
        f"next test: {t.measure} at {t.load[0]:g}{f', {t.load[1]:g}' if t.load[1] else ''}: {wanted} +-{t.half_width[0]:.3g} "
        f"becomes +-{t.half_width[1]:.3g}"
        for t in tests[:CANDIDATES]
    ]
