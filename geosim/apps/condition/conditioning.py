"""condition(robot or design, tests, unknowns): the draws that a light test leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from geosim.apps.condition.model import ModelError, TestModel, as_error
from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.response import FittedResponse, PlainResponse
from geosim.apps.condition.rows import read_rows
from geosim.apps.condition.sampling import sample
from geosim.apps.condition.solving import SolvedTest, solved_response
from geosim.apps.condition.unknowns import as_unknowns
from geosim.arguments import guarded
from geosim.arrays import shown, whole
from geosim.errors import InputError
from geosim.generate.design import Design
from geosim.model.environment import Environment
from geosim.model.robot import VolumetricRobot

DRAWS = 1000


@guarded
def condition(
    robot_or_design: Any,
    tests: Any,
    unknowns: Mapping[str, Any],
    *,
    environment: Environment | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    at: Any = None,
    of: Any = (),
    error: ModelError | float | None = None,
    solving: SolvedTest | None = None,
) -> Posterior:
    """Return what a test of a robot says about it.

    Parameters
    ----------
    robot_or_design
        A `VolumetricRobot` or a `Design`, of which finite elements are solved; or a reduced model of it,
        f(unknowns {name: (d,)}, loads (n, 2), measure) -> (d, n).
    tests
        Path of a CSV (load_1, measure, value; robot, load_2, unit, sigma where needed), or rows (load, measure, value).
    unknowns
        {name: (low, high) or a frozen distribution of scipy}. Names for robots are listed in `SolvedTest`.
    environment
        Gravity, obstacles, loads of the test.
    draws
        Of the posterior.
    seed
        Of all random numbers.
    at
        More loads that are solved, to be predicted at.
    of
        More measures that are solved.
    error
        What the model may be off: a `ModelError`, or the median of its share.
    solving
        How finite elements are solved.

    Raises
    ------
    InputError
        A row, an unknown or a measure is not known, or too few samples are in equilibrium.
    """
    rows, known = read_rows(tests), as_unknowns(unknowns)
    whole(draws, "condition: draws", least=100)
    allowed = as_error(error)
    if isinstance(robot_or_design, VolumetricRobot | Design):
        plan = solving or SolvedTest()
        measures = tuple(dict.fromkeys((*rows.names, *((of,) if isinstance(of, str) else tuple(of)))))
        response: Any = solved_response(robot_or_design, (rows, measures, at), known, environment, plan, seed)
    elif isinstance(robot_or_design, FittedResponse | PlainResponse):
        response = robot_or_design
    elif callable(robot_or_design):
        response = PlainResponse(robot_or_design)
    else:
        raise InputError(
            f"condition: {shown(robot_or_design)} is no VolumetricRobot, Design or function of unknowns, loads and a measure"
        )
    model = TestModel(known, response, rows, allowed)
    found = sample(model.likelihood, model.dimensions, draws, np.random.default_rng(seed))
    if not np.isfinite(found.evidence):
        raise InputError(
            "condition: no draw of the unknowns has a finite value at every row of the test; narrow the unknowns"
        )
    return Posterior(model, found.z, found.evidence, found.effective, seed)
