"""Calibration on tests whose truth is known, and on the curves of the reference data with their upper halves held back.

    python benchmarks/materials.py exports [COUNT]    synthetic exports of testing machines
    python benchmarks/materials.py curves [FOLDER]    every curve of GEOSIM_REFERENCE_DATA, shown to half of its strains

An export draws a law, a modulus, a stretch to which it is pulled, slack, noise and drift of the load cell, a specimen that is
not as long as it was stated to be, a machine and how it writes. A file that is refused is read again with the options that the
refusal names. Counted are: intervals of the shear modulus at rest that hold the truth, and stresses of the recommended law at
1.5 times the tested stretch that are within the half-width there.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from geosim.calibrate import fit, nominal_stress, read_test

from geosim import InputError

SEED = 71  # fixed before the first run
COUNT = 200
FAR = 1.5  # times the tested stretch
NEAR = 1.3  # times the tested stretch within which a median is told
SLACK_MM, NOISE, DRIFT, GAUGE = (
    2.0,
    (0.001, 0.01),
    0.005,
    0.01,
)  # most slack; of the largest stress; sd of the length, relative
OPTIONS = {"area=": "area", "gauge_length=": "gauge_length"}


@dataclass(frozen=True)
class Export:
    """One synthetic test."""

    law: str
    constants: list[float]
    modulus: float
    top: float
    slack: float
    text: str
    suffix: str
    sizes: dict[str, float]


def export(seed: int) -> Export:
    """Draw a test and the file of a machine."""
    rng = np.random.default_rng([SEED, seed])
    mu = float(np.exp(rng.uniform(np.log(10e3), np.log(300e3))))
    law = ("neo-hookean", "mooney-rivlin", "yeoh", "gent")[seed % 4]
    share = rng.uniform(0.1, 0.5)
    constants = {
        "neo-hookean": [mu],
        "mooney-rivlin": [0.5 * (1 - share) * mu, 0.5 * share * mu],
        "yeoh": [0.5 * mu, 0.5 * mu * rng.uniform(0.01, 0.08), 0.0],
        "gent": [mu, rng.uniform(20.0, 80.0)],
    }[law]
    top, count = float(rng.uniform(2.0, 3.0)), int(rng.integers(80, 400))
    gauge, area = float(rng.choice([25.0, 33.0, 50.0])), float(rng.choice([18.0, 24.0]))  # mm, mm^2
    length, slack = gauge * (1.0 + GAUGE * rng.standard_normal()), float(rng.uniform(0.0, SLACK_MM))
    displacement = np.linspace(0.0, slack + (top - 1.0) * length, count)
    stretch = 1.0 + np.maximum(displacement - slack, 0.0) / length
    stress = nominal_stress(law, constants, "uniaxial", stretch)
    stress = stress + rng.uniform(*NOISE) * stress.max() * rng.standard_normal(count)
    stress = stress + rng.uniform(-DRIFT, DRIFT) * stress.max() * np.linspace(0.0, 1.0, count)
    time = displacement / 2.0  # s, at 2 mm/s
    text, suffix = _written(seed // 4 % 5, time, displacement, stress, gauge, area, bool(rng.random() < 0.5))
    sizes = {"area": area * 1e-6, "gauge_length": gauge * 1e-3}
    return Export(law, constants, mu, top, slack, text, suffix, sizes)


def _written(
    machine: int, time: Any, displacement: Any, stress: Any, gauge: float, area: float, sizes: bool
) -> tuple[str, str]:
    """Return the text of a file as a machine writes it, with the sizes of the specimen or without."""
    force = stress * area * 1e-6
    rows = list(zip(time, displacement, force))
    if machine == 0:  # Instron
        head = [f"Specimen length;{gauge:g};mm".replace(";", ","), f"Area,{area:g},mm^2"] if sizes else []
        head += ["Time,Extension,Load", "(s),(mm),(N)"]
        return "\n".join([*head, *(f'"{t:.4f}","{d:.5f}","{f:.6f}"' for t, d, f in rows)]), ".csv"
    if machine == 1:  # Zwick
        head = [f"Einspannlänge;{gauge:g};mm", f"Querschnitt;{area:g};mm²"] if sizes else []
        head += ["Prüfzeit;Weg;Standardkraft", "s;mm;N"]
        return "\n".join([*head, *(f"{t:.3f};{d:.5f};{f:.6f}".replace(".", ",") for t, d, f in rows)]), ".csv"
    if machine == 2:  # MTS
        head = [f"Gauge Length\t{gauge:g}\tmm", f"Cross Section Area\t{area:g}\tmm^2"] if sizes else []
        head += ["Crosshead\tLoad\tTime", "mm\tN\ts"]
        return "\n".join([*head, *(f"{d:.5f}\t{f:.6f}\t{t:.4f}" for t, d, f in rows)]), ".txt"
    if machine == 3:  # Shimadzu
        head = [f"Gauge Length(mm),{gauge:g}", f"Area(mm2),{area:g}"] if sizes else []
        head += ["Time,Force,Stroke", "sec,N,mm"]
        return "\n".join([*head, *(f"{t:.3f},{f:.6f},{d:.5f}" for t, d, f in rows)]), ".csv"
    head = "strain (%);stress (kPa)" if sizes else "stretch;stress_MPa"  # by hand
    scale = (100.0, 0.0, 1e3) if sizes else (1.0, 1.0, 1e6)
    table = [f"{scale[0] * d / gauge + scale[1]:.5f};{p / scale[2]:.7f}" for d, p in zip(displacement, stress)]
    return "\n".join([head, *table]), ".txt"


def study(count: int) -> list[dict[str, Any]]:
    """Calibrate every export as a user does, and hold it against its truth."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            made = export(seed)
            path = Path(folder) / f"test{seed}{made.suffix}"
            path.write_text(made.text, encoding="utf-8")
            options: dict[str, Any] = {}
            row: dict[str, Any] = {"seed": seed, "law": made.law, "refused": 0, "read": False}
            out.append(row)
            for _ in range(3):
                try:
                    test = read_test(path, **options)
                    row["read"] = True
                    break
                except InputError as error:
                    row["refused"] += 1
                    row["why"] = str(error)
                    options |= {
                        OPTIONS[o]: made.sizes[OPTIONS[o]] for o in OPTIONS if re.search(re.escape(o), str(error))
                    }
            if row["read"]:
                row |= _judged(made, test)
    return out


def _judged(made: Export, test: Any) -> dict[str, Any]:
    found, before = fit(test, "best", max_stretch=4.0), fit(test, "best", max_stretch=4.0, toe="none", gauge_error=0.0)
    low, high = found.modulus_interval
    old = before.intervals[next(iter(before.intervals))]
    per_modulus = before.shear_modulus / next(iter(before.parameters.values()))
    far = FAR * made.top
    truth = float(nominal_stress(made.law, made.constants, "uniaxial", far)[0])
    value, half = float(found.stress("uniaxial", far)[0]), float(found.half_width("uniaxial", far)[0])
    return {
        "model": found.model, "hit": low <= made.modulus <= high, "off": found.shear_modulus / made.modulus - 1.0,
        "width": 0.5 * (high - low) / found.shear_modulus, "far": abs(value - truth) <= half if np.isfinite(truth) else None,
        "far_off": value / truth - 1.0, "far_width": half / value,
        "hit_before": per_modulus * old[0] <= made.modulus <= per_modulus * old[1],
        "off_before": before.shear_modulus / made.modulus - 1.0,
    }  # fmt: skip


def show(line: str) -> None:
    """Write a line."""
    sys.stdout.write(line + "\n")


def percent(values: Any) -> str:
    """Return the mean of shares as percent."""
    return f"{100 * float(np.mean(values)):.1f} %"


def exports(count: int) -> None:
    """Show the study of synthetic exports."""
    rows = study(count)
    read = [r for r in rows if r["read"]]
    asked = sum(r["refused"] > 0 for r in read)
    show(f"{count} exports: {len(read) - asked} read without options, {asked} with the options that a refusal named")
    for r in rows:
        if not r["read"]:
            show(f"  not read: seed {r['seed']}: {r['why']}")
    for law in ("neo-hookean", "mooney-rivlin", "yeoh", "gent", ""):
        some = [r for r in read if law in ("", r["law"])]
        far = [r for r in some if r["far"] is not None]

        def middle(key: str, rows: list[dict[str, Any]]) -> str:
            return f"{100 * float(np.median([abs(r[key]) for r in rows])):.1f} %"

        inside, before = ([r[key] for r in some] for key in ("hit", "hit_before"))
        name = law or "all"
        show(
            f"{name:14s} truth in the interval of the modulus: {percent(inside)} of {len(some)}; no toe: {percent(before)}"
        )
        show(
            f"{'':14s} half-width {middle('width', some)}, error {middle('off', some)}; no toe: {middle('off_before', some)}"
        )
        show(
            f"{'':14s} at {FAR} x the tested stretch inside: {percent([r['far'] for r in far])} of {len(far)}, half-width "
            f"{middle('far_width', far)}, error {middle('far_off', far)}"
        )


def _half_shown(test: Any, end: float, logs: dict[float, list[float]]) -> tuple[Any, Any]:
    """Fit a curve to a stretch, show what it says beyond; return which samples are inside, and half-widths near the end."""
    found = fit(test, "best", max_stretch=end)
    whole = fit(test, "neo-hookean", max_stretch=float("inf")).tests[0]  # with its toe corrected alike
    last = found.stretch_range[1]
    at, stress = (v[whole.stretch > last * 1.001] for v in (whole.stretch, whole.nominal_stress))
    value, width = found.stress(test.mode, at), found.half_width(test.mode, at)
    inside, near = np.abs(value - stress) <= width, (width / value)[at <= NEAR * last]
    for far, errors in logs.items():
        if at.max() >= far * last:
            there = float(found.stress(test.mode, far * last)[0] / np.interp(far * last, at, stress))
            errors.append((there - 1.0) / np.log(far))
    low, high = found.modulus_interval
    show(
        f"{test.name:18s} {test.mode:12s} shown to {last:.2f} of {test.stretch.max():.2f}: {found.model:13s} mu "
        f"{found.shear_modulus / 1e3:.4g} [{low / 1e3:.4g} .. {high / 1e3:.4g}] kPa"
    )
    show(
        f"{'':18s} held back {len(at)} samples, inside {percent(inside)}, half-width to {NEAR} x {percent(np.median(near))}; "
        f"last one off by {percent(value[-1] / stress[-1] - 1)}, said {percent(width[-1] / value[-1])}"
    )
    return inside, near


def curves(folder: Path) -> None:
    """Show every curve of the reference data, fitted to half of its strains, and to stretch 2."""
    total, near = [], []
    logs: dict[float, list[float]] = {1.3: [], 1.5: [], 2.0: []}
    for path in sorted((folder / "materials").rglob("*.csv")):
        test = read_test(path)
        inside, close = _half_shown(test, 1.0 + 0.5 * (float(test.stretch.max()) - 1.0), logs)
        total.append(inside)
        near.append(close)
        _half_shown(test, 2.0, logs)
    show(
        f"upper halves: inside {percent(np.concatenate(total))} of {sum(map(len, total))} samples, mean over {len(total)} curves "
        f"{percent([t.mean() for t in total])}; median half-width within {NEAR} x {percent(np.median(np.concatenate(near)))}"
    )
    for far, errors in logs.items():
        show(f"error over ln({far}), rms over {len(errors)}: {np.sqrt(np.mean(np.square(errors))):.2f}")


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else "exports"
    if asked == "curves":
        curves(Path(sys.argv[2] if len(sys.argv) > 2 else os.environ["GEOSIM_REFERENCE_DATA"]))
    else:
        exports(int(sys.argv[2]) if len(sys.argv) > 2 else COUNT)
