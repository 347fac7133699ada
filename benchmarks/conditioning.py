"""How well bars hold after one light test: synthetic robots, most of them beams, some by finite elements.

    python benchmarks/conditioning.py beams wrong elements --out DIR      # about 15 minutes on one core
    python benchmarks/conditioning.py table --out DIR
    python benchmarks/conditioning.py readings settings --seed 5 --out TRIAL   # what each setting does, on other robots

Every robot draws its constants, walls and offsets from the priors, and a model error of a kind that the model does not have: a
taper, a bubble, softening. Its test ends at a third of the largest load, readings are 1 % off. Scored are readings at the other
two thirds. Robots of a wrong topology have a blocked canal, a clamp that holds a third of the finger, a layer that peels off, or
a chamber on either side. DIR/PART_readings.jsonl keeps the robots, DIR/PART.jsonl their scores; neither is computed again. The
seed was fixed before the first run. Trials of a method take another: `--seed`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from conditioning_beams import MEASURES, UNKNOWNS, Truth, beam, drawn_truth, reduced

import geosim
from geosim import generate
from geosim.apps.condition.model import ModelError
from geosim.apps.condition.posterior import Posterior
from geosim.apps.condition.rows import read_rows
from geosim.apps.condition.solving import SolvedTest, solved_response
from geosim.apps.condition.unknowns import as_unknowns
from geosim.apps.study.measures import measured

SEED = 20261128
ROBOTS = {"beams": 300, "wrong": 100, "elements": 20}
TOPOLOGIES = ("canal", "clamp", "peel", "sides")
SHOWN, ASKED = np.array([1.25, 2.5, 3.75, 5.0]), np.array([7.5, 10.0, 12.5, 15.0])  # [kPa]
READING = 0.01  # standard deviation of a reading, over the change
DRAWS = 400
PENALTY = 2.0 / 0.05  # of the interval score at 95 %
# What is expected of models and readings, one changed at a time; the first is the default.
SETTINGS = {"as it is": {}, "bend 1": {"bend": 1.0}, "size 1.5 %": {"size": 0.015}, "size 1 %": {"size": 0.01}}
TRIED = {"beams": 60, "wrong": 20, "elements": 20}  # robots of every part with every setting

# By finite elements: a short finger, coarse, since its mesh is the truth's as well.
FE_MEASURES = ("bend_angle_deg", "tip_z_mm", "blocked_force")
FE_SHOWN, FE_ASKED = np.array([4.0, 7.0, 10.0]), np.array([17.0, 24.0, 30.0])
FE_UNKNOWNS = {
    "modulus": UNKNOWNS["modulus"],
    "wall_mm": (1.8, 2.2),
    "factor.blocked_force": UNKNOWNS["seating"],
    "offset.tip_z_mm": UNKNOWNS["offset_mm"],
}
FE_SOLVER = geosim.EnergyShapeSolver(element="p1", check_stability=False)


def loads_of(values: np.ndarray) -> np.ndarray:
    """Return loads (n, 2) of one actuator."""
    return np.column_stack([values, np.zeros(len(values))])


@cache
def beam_model() -> Any:
    """Return the reduced model of the beams."""
    return reduced(loads_of(np.r_[0.0, SHOWN, ASKED]))


@cache
def fe_model() -> Any:
    """Return the reduced model of the finger by finite elements."""
    robot = generate.pneunet(chambers=3).robot("dragon-skin-20-fang2022", max_edge=6e-3)
    rows = read_rows([(p, m, 0.0) for p in FE_SHOWN for m in FE_MEASURES])
    plan = SolvedTest(solves=16, solver=FE_SOLVER, mesh=False)
    return solved_response(robot, (rows, FE_MEASURES, FE_ASKED), as_unknowns(FE_UNKNOWNS), None, plan, SEED)


def fe_truth(rng: np.random.Generator) -> Callable[[np.ndarray, str], np.ndarray]:
    """Return a robot by finite elements: drawn constants, and a taper, a dent or softening."""
    q = {name: float(d.rvs(random_state=rng)) for name, d in zip(FE_UNKNOWNS, as_unknowns(FE_UNKNOWNS).priors)}
    robot = generate.pneunet(chambers=3, wall=1e-3 * q["wall_mm"]).robot("dragon-skin-20-fang2022", max_edge=6e-3)
    law = next(iter(robot.materials.values())).stiffened(q["modulus"])
    kind, size = rng.integers(3), rng.uniform(0.3, 1.0)
    if kind == 2:
        law = (
            geosim.Ogden(mu=(2.0 * law.shear_modulus / 1.4,), alpha=(1.4,))
            if size > 0.6
            else geosim.NeoHookean(law.shear_modulus)
        )
    else:
        x = robot.vertices[:, 0] / robot.vertices[:, 0].max()
        middle = 0.5 * (robot.vertices.min(axis=0) + robot.vertices.max(axis=0))
        sign = rng.choice([-1, 1])
        share = (
            sign * 0.1 * size * (x - 0.5)
            if kind == 0
            else -0.15 * size * np.exp(-(((x - rng.uniform(0.2, 0.8)) / 0.1) ** 2))
        )
        moved = robot.vertices.copy()
        moved[:, 1] += share * (moved[:, 1] - middle[1])
        moved[:, 2] *= 1.0 + share
        robot = robot.moved(moved, design=None, remesh=None)
    robot = replace(robot, materials=dict.fromkeys(robot.materials, law))
    loads = np.r_[0.0, FE_SHOWN, FE_ASKED]
    held = geosim.Environment(prescribed=[geosim.Prescribed(robot.tip, (0.0, 0.0, 0.0))])
    act = geosim.Inflation(pressure=1e3 * loads)
    free, blocked = (geosim.solve(robot, act, e, solver=FE_SOLVER, throw=False) for e in (None, held))
    rows = measured(free)["frames"]
    known = {m: np.array([row[m] for row in rows]) for m in FE_MEASURES if m != "blocked_force"}
    force = np.linalg.norm(blocked.blocked_force, axis=1)
    known["blocked_force"] = q["factor.blocked_force"] * np.where(loads[: len(force)] == 0.0, 0.0, force)
    known["tip_z_mm"] = known["tip_z_mm"] + q["offset.tip_z_mm"]
    return lambda asked, measure: known[measure][np.searchsorted(loads, asked)]


def beam_truth(rng: np.random.Generator, topology: str) -> Callable[[np.ndarray, str], np.ndarray]:
    """Return a robot as a beam."""
    truth = Truth(topology=topology) if topology else drawn_truth(rng)
    q = {name: np.array([d.rvs(random_state=rng)]) for name, d in UNKNOWNS.items()}
    return lambda asked, measure: beam(q, loads_of(asked), measure, truth)[0]


def asked_of(part: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return the measures, the loads that are shown, and the loads that are scored."""
    return (FE_MEASURES, FE_SHOWN, FE_ASKED) if part == "elements" else (MEASURES, SHOWN, ASKED)


def readings(part: str, number: int, seed: int) -> dict[str, Any]:
    """Return the true values of one robot at rest and at all loads, and its readings with their errors."""
    rng = np.random.default_rng([seed, sorted(ROBOTS).index(part), number])
    topology = TOPOLOGIES[number % len(TOPOLOGIES)] if part == "wrong" else ""
    truth = fe_truth(rng) if part == "elements" else beam_truth(rng, topology)
    measures, shown, asked = asked_of(part)
    out: dict[str, Any] = {"number": number, "topology": topology, "true": {}, "shown": {}, "asked": {}}

    def read(at: np.ndarray, measure: str) -> list[float]:
        true = truth(at, measure)
        largest = np.abs(true - truth(np.zeros(1), measure)).max()
        return (true + READING * largest * rng.standard_normal(len(true))).tolist()

    for m in measures:
        out["shown"][m] = read(shown if m == "blocked_force" else np.r_[0.0, shown], m)
    for m in measures:
        out["asked"][m], out["true"][m] = read(asked, m), truth(np.r_[0.0, asked], m).tolist()
    return out


def one(part: str, robot: dict[str, Any], error: ModelError | None = None) -> dict[str, Any]:
    """Return the scores of one robot: interval scores over the change of the measure from rest."""
    measures, shown, asked = asked_of(part)
    rows = [
        (float(p), m, v)
        for m in measures
        for p, v in zip(shown if m == "blocked_force" else np.r_[0.0, shown], robot["shown"][m])
    ]
    model, unknowns = (fe_model(), FE_UNKNOWNS) if part == "elements" else (beam_model(), UNKNOWNS)
    found: Posterior = geosim.condition(model, rows, unknowns, draws=DRAWS, seed=robot["number"], error=error)
    inside, width, score = [], [], []
    for m in measures:
        value, bar, true = np.array(robot["asked"][m]), found.predict(m, asked), np.array(robot["true"][m])
        inside += ((bar.low <= value) & (value <= bar.high)).tolist()
        width += (bar.half_width / np.abs(true[1:] - true[0])).tolist()
        missed = np.maximum(bar.low - value, 0.0) + np.maximum(value - bar.high, 0.0)
        score += ((2.0 * bar.half_width + PENALTY * missed) / np.abs(true[1:] - true[0])).tolist()
    worst = found.trends[0]
    return {
        "number": robot["number"], "topology": robot["topology"], "coverage": float(np.mean(inside)),
        "half_width": float(np.median(width)), "score": float(np.mean(score)), "in_class": found.in_class,
        "trend": worst.share, "measure": worst.measure, "effective": found.effective,
    }  # fmt: skip


def done(path: Path) -> list[dict[str, Any]]:
    """Return the robots of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def append(path: Path, row: dict[str, Any]) -> None:
    """Write one more robot to a file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def table(folder: Path) -> Iterator[str]:
    """Say what all parts have shown."""
    for part in ROBOTS:
        rows = done(folder / f"{part}.jsonl")
        if not rows:
            continue
        sound = [r for r in rows if r["in_class"]]
        yield (
            f"{part}: {len(rows)} robots; {100 * np.mean([r['coverage'] for r in rows]):.1f} % of unshown points inside; median "
            f"half-width {100 * np.median([r['half_width'] for r in rows]):.1f} %; not in the class "
            f"{100 * (1 - len(sound) / len(rows)):.1f} %"
        )


def settings(folder: Path) -> Iterator[str]:
    """Score every setting on robots of which `folder` has readings, and say what each does; then the limit of the class."""
    shares: dict[str, list[float]] = {}
    for name, changes in SETTINGS.items():
        told = []
        for part, count in TRIED.items():
            path = folder / f"{part}_{name.replace(' ', '_')}.jsonl"
            known = {r["number"]: r for r in done(path)}
            for robot in done(folder / f"{part}_readings.jsonl")[:count]:
                if robot["number"] not in known:
                    known[robot["number"]] = one(part, robot, ModelError(**changes))
                    append(path, known[robot["number"]])
            if not known:
                continue
            inside, half, score = (np.mean([r[k] for r in known.values()]) for k in ("coverage", "half_width", "score"))
            out = 100 * np.mean([not r["in_class"] for r in known.values()])
            told.append(
                f"{part} {100 * inside:.1f} % inside, {100 * half:.1f} % wide, score {score:.3f}, out {out:.0f} %"
            )
            if not changes:
                shares[part] = [r["trend"] for r in known.values()]
        yield f"{name:14s} {'; '.join(told)}"
    for limit in (0.04, 0.08, 0.12, 0.16, 0.24):
        beyond = ", ".join(f"{100 * np.mean(np.array(v) > limit):.0f} % of {part}" for part, v in shares.items())
        yield f"limit {100 * limit:.0f} %: {beyond} not in the class"


def main() -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=(*ROBOTS, "readings", "settings", "table"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=SEED, help="of the robots; trials of a method take another one")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for part in ROBOTS if "readings" in asked.parts else [p for p in asked.parts if p in ROBOTS]:
        robots = {r["number"]: r for r in done(asked.out / f"{part}_readings.jsonl")}
        known = {r["number"] for r in done(asked.out / f"{part}.jsonl")}
        for number in range(ROBOTS[part]):
            if number not in robots:
                robots[number] = readings(part, number, asked.seed)
                append(asked.out / f"{part}_readings.jsonl", robots[number])
            if number not in known and part in asked.parts:
                append(asked.out / f"{part}.jsonl", one(part, robots[number]))
    sys.stdout.write("\n".join((settings if "settings" in asked.parts else table)(asked.out)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
