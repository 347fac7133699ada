"""Derive the presets from published numbers again and compare them with geosim/data/materials.toml.

    python calibration/refit.py [FOLDER]
    python calibration/refit.py alternatives

Constants that were published are taken as they are, a Young's modulus E gives the shear modulus E / 3 of an
incompressible material. Where a publication prints its tests, and FOLDER holds them as CSV files, they are fitted: the
three fits (weightings "stress", "relative", "per-test") show how much the choice of the weighting matters.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from geosim.calibrate import nominal_stress

from geosim import calibrate, materials
from geosim.apps.calibrate.calibration import stiffer_beyond

HERE = Path(__file__).resolve().parent
MAX_MISFIT = 0.02  # rms over the largest stress, as pulls of one laboratory are reproduced
LAWS_WEIGHT = 0.5  # of the laws beside the preset's own together


def derived(entry: dict[str, Any]) -> dict[str, float]:
    """Return the constants that a published entry means."""
    if "youngs_modulus" in entry:
        return {"mu": round(entry["youngs_modulus"] / 3.0, -2)}
    return dict(entry["constants"])


def alternatives(name: str) -> str:
    """Return the line of materials.toml with the laws that fit the curve of a preset as well; "" without a curve."""
    law = next(p.material for p in materials.presets() if p.name == name)
    estimate = next(p.estimate for p in materials.presets() if p.name == name)
    if estimate or law.unsaid_softening == 0.0 or not np.isfinite(law.max_stretch):  # without its curve
        return ""
    reach = (1.02, law.max_stretch)
    at = np.linspace(*reach, 50)

    def stress(mode: str, stretch: np.ndarray) -> np.ndarray:
        return nominal_stress(law.model, law.constants(), mode, stretch)

    test = calibrate.MaterialTest("uniaxial", at, stress("uniaxial", at), name)
    table = calibrate.compare_models(test, max_stretch=law.max_stretch, toe="none")
    close = [c for c in table.calibrations if c.model != law.model and c.rms < MAX_MISFIT]
    close = [c for c in close if c.parameters.get("c2") != 0.0]  # neo-Hookean, by another name
    close = [c for c in close if np.isfinite(c.stress("equibiaxial", 2.0 * law.max_stretch)).all()]
    laws = [(LAWS_WEIGHT / len(close), c.material) for c in close] + [(1.0, stiffer_beyond(stress, reach, "uniaxial"))]
    return "alternatives = [" + ", ".join(_inline(weight, m) for weight, m in laws) + "]"


def _inline(weight: float, law: Any) -> str:
    constants = {k: v for k, v in law.to_dict().items() if k not in ("bulk_modulus", "density", "model")}
    shown = [
        f"{k} = [{', '.join(f'{x:.5g}' for x in np.ravel(v))}]" if np.ndim(v) else f"{k} = {v:.5g}"
        for k, v in constants.items()
    ]
    return f'{{ weight = {weight:.3g}, model = "{law.model}", {", ".join(shown)} }}'


def main(folder: str | None = None) -> int:
    """Print every preset beside what its source gives; return the number of presets that differ."""
    if folder == "alternatives":
        sys.stdout.write("".join(f"{name}: {line}\n" for name in materials.names() if (line := alternatives(name))))
        return 0
    with (HERE / "published.toml").open("rb") as file:
        published = tomllib.load(file)
    wrong = 0
    for name, entry in published.items():
        sys.stdout.write(f"{name}: {entry['source']}\n")
        constants = derived(entry)
        if name in materials.names():
            preset = materials.get(name)
            same = all(abs(getattr(preset, k) / v - 1) < 1e-3 for k, v in constants.items())
            wrong += not same
            _, statement = calibrate.stability_statement(preset.model, constants)
            sys.stdout.write(f"  {constants} {'as shipped' if same else 'DIFFERS from materials.toml'}; {statement}\n")
        if folder is not None and "tests" in entry:
            paths = [next(Path(folder).rglob(test), None) for test in entry["tests"]]
            if all(paths):
                for weights in ("stress", "relative", "per-test"):
                    found = calibrate.fit(paths, max_stretch=entry["max_stretch"], weights=weights)
                    sys.stdout.write("".join(f"  {line}\n" for line in found.lines()))
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:2]) else 0)
