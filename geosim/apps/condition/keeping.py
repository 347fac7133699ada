"""Posteriors in files: arrays and JSON, no pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat, StrictBool
from scipy import stats

from geosim.apps.bridges.chaos import PolynomialChaos
from geosim.apps.condition.model import ModelError, TestModel
from geosim.apps.condition.response import HIGHEST_DEGREE, Curve, FittedResponse
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import as_unknowns
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.files.npz import Layout, Numbers, read_npz

MAX_DEVIATIONS = 40.0  # of a draw from the middle of its prior: beyond 38 a double has no probability


class PosteriorTable(BaseModel):
    """What a file says beside its arrays."""

    names: list[str] = Field(min_length=1)
    priors: list[tuple[str, list[float], dict[str, float]]]
    measures: list[str]
    robot: str
    error: ModelError
    curves: list[tuple[str, StrictBool, Literal[-1, 0, 1]]]
    meshes: dict[str, float]
    shifts: dict[str, tuple[str, Literal["offset", "factor"]]]
    fitted: list[int]
    # evidence, effective draws, seed, limit of a model's error
    numbers: tuple[FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat]


def _held(about: PosteriorTable) -> dict[str, Numbers]:
    """What the arrays of a file are."""
    if not len(set(about.names)) == len(about.names) == len(about.priors):
        raise InputError(f"{len(set(about.names))} names of unknowns, {len(about.priors)} priors")
    count = len(about.measures)
    out = {"z": Numbers(("draws", "z"), least=-MAX_DEVIATIONS, most=MAX_DEVIATIONS), "rows/loads": Numbers((count, 2))}
    out |= {"rows/values": Numbers((count,)), "rows/sigma": Numbers((count,), gaps=True)}
    for i in range(len(about.curves)):
        loads, terms = f"loads of {i}", f"terms of {i}"
        out[f"curve/{i}/loads"] = Numbers((loads, 2))
        out[f"curve/{i}/exponents"] = Numbers((terms, len(about.fitted)), whole=True, least=0, most=HIGHEST_DEGREE)
        out[f"curve/{i}/weights"] = Numbers((terms, loads))
        out[f"curve/{i}/left"] = Numbers((loads,), least=0.0)
    return out


POSTERIOR = Layout("posterior", "run geosim condition again", "about", PosteriorTable, _held)


def kept(
    model: TestModel, z: Floats, numbers: tuple[float, float, int, float]
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return what a file holds of a posterior: its header, with numbers about it, and its arrays.

    Raises
    ------
    InputError
        The response is a function, or a prior is no distribution of scipy.stats by name.
    """
    response = model.response
    if not isinstance(response, FittedResponse):
        raise InputError(
            "Posterior.save: the response is a function, which no file holds; save its predictions instead"
        )
    about = {
        "names": model.unknowns.names,
        "priors": [_prior(name, prior) for name, prior in zip(model.unknowns.names, model.unknowns.priors)],
        "measures": model.rows.measures,
        "robot": model.rows.robot,
        "error": asdict(model.error),
        "curves": [[m, c.logarithmic, c.sign] for m, c in response.curves.items()],
        "meshes": dict(response.meshes),
        "shifts": dict(response.shifts),
        "fitted": response.fitted,
        "numbers": list(numbers),
    }
    arrays = {"z": z, **{f"rows/{key}": getattr(model.rows, key) for key in ("loads", "values", "sigma")}}
    for i, c in enumerate(response.curves.values()):
        own = {"loads": c.loads, "exponents": c.chaos.exponents, "weights": c.chaos.weights, "left": c.left}
        arrays |= {f"curve/{i}/{key}": value for key, value in own.items()}
    return about, arrays


def _prior(name: str, prior: Any) -> list[Any]:
    try:
        return [prior.dist.name, [float(a) for a in prior.args], {k: float(v) for k, v in prior.kwds.items()}]
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"Posterior.save: the prior of {name} is no frozen distribution of scipy.stats by name"
        ) from None


def read(path: Path) -> tuple[TestModel, Floats, tuple[float, float, int, float]]:
    """Read what `kept` has returned from a file: the model, its draws, and evidence, effective draws, seed and limit.

    Raises
    ------
    InputError
        The file is missing, damaged or changed.
    """
    about, arrays, sealed = read_npz(path, POSTERIOR)
    if not sealed:
        raise InputError(f"{path}: it has no digest, which every posterior is written with; {POSTERIOR.remedy}")
    try:
        model = _built(about, arrays)
        if arrays["z"].shape[1] != model.dimensions:
            raise InputError(f"z has {arrays['z'].shape[1]} columns; {model.dimensions} are needed")
    except InputError as error:
        raise InputError(f"{path}: {error}; {POSTERIOR.remedy}") from None
    return model, arrays["z"], about.numbers


def _built(about: PosteriorTable, arrays: Mapping[str, Any]) -> TestModel:
    curves = {}
    for i, (measure, logarithmic, sign) in enumerate(about.curves):
        loads, exponents, weights, left = (
            arrays[f"curve/{i}/{key}"] for key in ("loads", "exponents", "weights", "left")
        )
        curves[measure] = Curve(loads, PolynomialChaos(exponents, weights), logarithmic, sign, left)
    response = FittedResponse(curves, about.meshes, about.shifts, tuple(about.fitted))
    unsolved = [
        measure for measure in (*about.measures, *(of for of, _ in about.shifts.values())) if measure not in curves
    ]
    if unsolved or not set(about.shifts) <= set(about.names) or not set(about.fitted) <= set(range(len(about.names))):
        raise InputError(
            f"{(unsolved or ['an unknown'])[0]} is none of its {len(curves)} curves and {len(about.names)} unknowns"
        )
    rows = TestRows(
        arrays["rows/loads"], tuple(about.measures), arrays["rows/values"], arrays["rows/sigma"], about.robot
    )
    priors = {name: _distribution(name, *prior) for name, prior in zip(about.names, about.priors, strict=True)}
    return TestModel(as_unknowns(priors), response, rows, about.error)


def _distribution(name: str, kind: str, arguments: list[float], named: dict[str, float]) -> Any:
    family = getattr(stats, kind, None)
    if not isinstance(family, stats.rv_continuous):
        raise InputError(f"the prior of {name} is {kind!r}, no distribution of scipy.stats")
    try:
        return family(*arguments, **named)
    except TypeError as error:
        raise InputError(f"the prior of {name}: {error}") from None
