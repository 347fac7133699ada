"""Derive the presets from published numbers again and compare them with geosim/data/materials.toml.

    python calibration/refit.py [FOLDER]

Constants that were published are taken as they are, a Young's modulus E gives the shear modulus E / 3 of an
incompressible material. Where a publication prints its tests, and FOLDER holds them as CSV files, they are fitted: the
three fits (weightings "stress", "relative", "per-test") show how much the choice of the weighting matters.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

from geosim import calibrate, materials

HERE = Path(__file__).resolve().parent


def derived(entry: dict[str, Any]) -> dict[str, float]:
    """Return the constants that a published entry means."""
    if "youngs_modulus" in entry:
        return {"mu": round(entry["youngs_modulus"] / 3.0, -2)}
    return dict(entry["constants"])


def main(folder: str | None = None) -> int:
    """Print every preset beside what its source gives; return the number of presets that differ."""
    with (HERE / "published.toml").open("rb") as file:
        published = tomllib.load(file)
    wrong = 0
    for name, entry in published.items():
        sys.stdout.write(f"{name}: {entry['source']}\n")
        constants = derived(entry)
        if name in materials.names():
            preset = materials.preset(name)
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
