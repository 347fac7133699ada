"""Posteriors in files: arrays and JSON, no pickles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from geosim.apps.bridges.chaos import PolynomialChaos
from geosim.apps.condition.model import ModelError, TestModel
from geosim.apps.condition.response import Curve, FittedResponse
from geosim.apps.condition.rows import TestRows
from geosim.apps.condition.unknowns import Unknowns
from geosim.arrays import Floats
from geosim.errors import InputError


def kept(model: TestModel, z: Floats, numbers: Sequence[float]) -> dict[str, Any]:
    """Return the arrays of a posterior: its model, its draws, and numbers about it.

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
    rows = {"loads": model.rows.loads, "values": model.rows.values, "sigma": model.rows.sigma}
    curves = {
        f"curve/{i}/{key}": value
        for i, c in enumerate(response.curves.values())
        for key, value in (
            ("loads", c.loads), ("exponents", c.chaos.exponents), ("weights", c.chaos.weights), ("left", c.left),
        )
    }  # fmt: skip
    return {"about": np.array(json.dumps(about)), "z": z, **{f"rows/{k}": v for k, v in rows.items()}, **curves}


def _prior(name: str, prior: Any) -> list[Any]:
    try:
        return [prior.dist.name, [float(a) for a in prior.args], {k: float(v) for k, v in prior.kwds.items()}]
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            f"Posterior.save: the prior of {name} is no frozen distribution of scipy.stats by name"
        ) from None


def read(path: Path) -> tuple[TestModel, Floats, list[float]]:
    """Read what `kept` has returned from a file.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist; Posterior.save and geosim condition write one")
    try:
        with np.load(path, allow_pickle=False) as given:
            about = json.loads(str(given["about"]))
            curves = {}
            for i, (measure, logarithmic, sign) in enumerate(about["curves"]):
                own = {key: given[f"curve/{i}/{key}"] for key in ("loads", "exponents", "weights", "left")}
                chaos = PolynomialChaos(own["exponents"], own["weights"])
                curves[measure] = Curve(own["loads"], chaos, logarithmic, sign, own["left"])
            z = given["z"]
            values = (given["rows/loads"], tuple(about["measures"]), given["rows/values"], given["rows/sigma"])
            rows = TestRows(*values, about["robot"])
        shifts = {name: (of, kind) for name, (of, kind) in about["shifts"].items()}
        response = FittedResponse(curves, about["meshes"], shifts, tuple(about["fitted"]))
        priors = tuple(getattr(stats, kind)(*args, **named) for kind, args, named in about["priors"])
        model = TestModel(Unknowns(tuple(about["names"]), priors), response, rows, ModelError(**about["error"]))
        numbers = [float(number) for number in about["numbers"]]
    except (OSError, KeyError, ValueError, EOFError, AttributeError, TypeError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}); run geosim condition again") from None
    return model, z, numbers
