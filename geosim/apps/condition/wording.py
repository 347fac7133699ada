"""A posterior as lines of text and as rows of a table."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.rows import COLUMNS
from geosim.writing import replacing


def lines(posterior: Posterior, of: str | None = None, at: Any = None) -> list[str]:
    """Return five lines: verdict, draws, the narrowest and the widest unknown, and the prediction that was asked for."""
    worst = sorted(posterior.names, key=lambda n: -float(np.var(posterior.z[:, posterior.names.index(n)])))
    told = [
        posterior.verdict,
        f"{posterior.effective:.0f} effective draws of {len(posterior.z)}, ln evidence {posterior.evidence:.2f}",
    ]
    for word, name in (("least known", worst[0]), ("best known", worst[-1])):
        low, middle, high = posterior.interval(name)
        told.append(f"{word}: {name} {middle:.4g} [{low:.4g}, {high:.4g}]")
    if of is not None:
        found = posterior.predict(of, at)
        terms = ", ".join(f"{name} {float(v[-1]):.3g}" for name, v in found.terms.items())
        told.append(
            f"{of} at {found.loads[-1, 0]:g}: {found.value[-1]:.4g} [{found.low[-1]:.4g}, {found.high[-1]:.4g}]; {terms}"
        )
    return told


def rows(posterior: Posterior, measure: str, at: Any) -> list[dict[str, Any]]:
    """Return predictions as rows of a table: robot, load_1, load_2, measure, unit, value, low, high."""
    found = posterior.predict(measure, at)
    plane = bool(found.loads[:, 1].any())
    names, robot = (*COLUMNS, "low", "high"), posterior.model.rows.robot
    numbers = zip(found.loads.tolist(), found.value.tolist(), found.low.tolist(), found.high.tolist())
    return [dict(zip(names, (robot, a, b if plane else "", measure, "", *bar))) for (a, b), *bar in numbers]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of predictions as a CSV."""
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, [*COLUMNS, "low", "high"], lineterminator="\n")
        out.writeheader()
        out.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
