"""States that later versions are compared with: statuses, iterations, tips, limits and meshes, kept in `benchmarks/frozen/`.

    python benchmarks/freeze.py path-study --out study --write    what `path_study.py --one --count 120 --limit 120` left
    python benchmarks/freeze.py knobs --write                     the cases of scripts/knobs.py
    python benchmarks/freeze.py versions --out versions --write   the cases of versions.py, this version alone
    python benchmarks/freeze.py knobs                             compares with what is kept; exit status 1 where something moved

Seconds are not kept: they belong to one machine. Tips [m] and limits [Pa] are equal where they differ by less than 1e-6 of the
size of the robot, or of the limit; all runs take one thread. Cases that a budget of CPU seconds ends keep their status alone.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")  # sums in one order
sys.path.insert(0, str(HERE.parent / "scripts"))
COLUMNS = ("case", "mesh", "tets", "size_m", "status", "iterations", "tip_m", "limit_pa", "crossings", "inverted")
SAME_REL = 1e-6
ENDED = ("INTERRUPTED", "NO ANSWER", "DIED")  # by the budget

Row = dict[str, Any]


def path_study(out: Path) -> Iterator[Row]:
    """Yield the cases that a folder of path_study.py holds."""
    from path_study import kept

    for path in sorted(out.glob("*-1.npz"), key=lambda p: int(p.stem[:-2])):
        found = kept(path)
        assert found is not None
        row = {
            "case": f"{found['seed']} {found['kind']} {found['element']} {found['command']}",
            "status": found["status"],
        }
        row |= {"mesh": found.get("mesh", ""), "tets": found.get("tets", ""), "size_m": found.get("size", math.nan)}
        if found["status"] not in ENDED:
            row |= {
                "iterations": found.get("newton", ""),
                "tip_m": found.get("tip", []),
                "limit_pa": found.get("limit"),
            }
            row |= {"crossings": found.get("crossings", ""), "inverted": found.get("inverted", "")}
        yield row


def knobs(out: Path) -> Iterator[Row]:
    """Yield the cases of scripts/knobs.py."""
    import warnings

    from knobs import CASES

    from geosim import Status
    from geosim.measures.provenance import mesh_hash

    for name, case in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = case()
        robot, count = result.robot, sum("iteration" in record for record in result.trace)
        row = {"case": name, "mesh": mesh_hash(robot), "tets": len(robot.body_tets), "size_m": robot.size}
        row |= {"status": result.status.name, "iterations": count}
        last = result.partial
        if last is not None and result.status is Status.PRESSURE_LIMIT:
            row["tip_m"] = last.tip[-1].tolist()
            row["limit_pa"] = float(last.chamber_pressures[-1, 0]) if robot.chambers else None
        elif len(result.frames):
            row |= {"tip_m": result.tip[-1].tolist(), "crossings": int(result.crossings.max())}
            row |= {"inverted": int(result.inverted_elements.max())}
        yield row


def versions(out: Path) -> Iterator[Row]:
    """Yield the cases of versions.py with the isochoric form of the energy, solved by this version."""
    from versions import CASES, DATA, measured, mesh_of

    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        if case.cold or (case.mesh.startswith("finger") and DATA not in os.environ):
            continue
        mesh = mesh_of(case, out)
        asked = [mesh, list(case.ratios), case.element, case.contact[1], "isochoric"]
        found = measured(HERE.parent, out / "kernels", out, asked)
        tets = "" if mesh == case.mesh else int((np.load(mesh)["region"] == 0).sum())
        row = {"case": name, "mesh": "", "tets": tets, "size_m": found["size"], "status": found["status"]}
        yield {**row, "iterations": found["newton"], "tip_m": found["tip"]}


SOURCES: dict[str, Callable[[Path], Iterator[Row]]] = {"path-study": path_study, "knobs": knobs, "versions": versions}


def text_of(row: Row) -> dict[str, str]:
    """Return a row as it is kept."""
    out = {key: row.get(key) for key in COLUMNS}
    tip = out["tip_m"] or []
    out["tip_m"] = " ".join(f"{x:.9g}" for x in tip)
    for key in ("size_m", "limit_pa"):
        out[key] = "" if out[key] is None else f"{out[key]:.9g}"
    return {key: "" if value is None else str(value) for key, value in out.items()}


def moved(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return the columns that differ."""
    out = [key for key in COLUMNS if key not in ("tip_m", "limit_pa", "size_m") and old[key] != new[key]]
    for key, size in (("tip_m", old["size_m"]), ("limit_pa", old["limit_pa"])):
        a, b = (np.array(row[key].split(), dtype=float) for row in (old, new))
        if a.shape != b.shape or (a.size and np.abs(a - b).max() > SAME_REL * abs(float(size))):
            out.append(key)
    return out


def main() -> int:
    """Write what is found, or compare it with what is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=SOURCES)
    parser.add_argument(
        "--out", type=Path, default=Path("frozen"), help="folder of path_study.py, or of the meshes of versions.py"
    )
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    path = HERE / "frozen" / f"{given.part}.csv"
    rows = [text_of(row) for row in SOURCES[given.part](given.out)]
    if given.write:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{len(rows)} cases in {path.name}")
        return 0
    with path.open(newline="", encoding="utf-8") as file:
        kept = {row["case"]: row for row in csv.DictReader(file)}
    changes = 0
    for row in rows:
        old = kept.get(row["case"])
        columns = ["new"] if old is None else moved(old, row)
        changes += bool(columns)
        for column in columns:
            print(f"{row['case']}: {column} {'' if old is None else old[column]} -> {row.get(column, '')}")
    print(f"{len(rows)} cases compared with {len(kept)} kept, {changes} moved")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
