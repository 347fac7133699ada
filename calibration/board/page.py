"""Draws the board: a picture of every frozen prediction, small enough for the documentation.

python calibration/board/page.py FOLDER
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from frozen import HERE, Row, entry, read

LOADS = {
    "ribbed": "pressure [kPa]", "pleated": "pressure [kPa]", "arm": "pressure [mbar]", "tentacle": "hold",
    "tentacle_rods": "hold", "metacylinder": "pose", "membrane": "height [mm]", "membrane_batch": "height [mm]",
    "beam": "force [N]", "tensile": "stretch", "tensile_batch": "stretch", "springy": "V/V0",
    "tentacle_folds": "hold", "tentacle_rubber": "hold", "metacylinder_folds": "pose", "arm_holds": "pressure [mbar]",
    "cylindrical": "pressure [kPa]", "cylindrical_fitted": "pressure [kPa]",
    "metacylinder_lattice": "pose", "ribbed_conditioned": "pressure [kPa]", "pleated_conditioned": "pressure [kPa]",
    "tentacle_conditioned": "hold",
}  # fmt: skip
COLOUR = "#2a6f97"


def panels(rows: list[Row]) -> dict[str, list[Row]]:
    """Return rows by what shares a panel: the measure, its number or axis left out; products apart."""
    out: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        name = row.measure.split("_")[0] if row.robot == "metacylinder" else row.measure
        name = f"marker {row.measure[1]}" if row.robot == "tentacle" else name
        name = f"{name}, product {row.load_2:g}" if row.robot == "tensile" else name
        out[f"{name.replace('_', ' ')} [{row.unit}]"].append(row)
    return out


def draw(name: str, folder: Path) -> Path:
    """Draw the predictions of a name; the log must know them as they are."""
    entry(name)
    found = panels(read(HERE / "predictions" / f"{name}.csv"))
    figure, axes = plt.subplots(1, len(found), figsize=(2.7 * len(found), 2.3), squeeze=False, constrained_layout=True)
    for axis, (title, rows) in zip(axes[0], found.items()):
        value, low, high = (np.array([getattr(r, k) for r in rows]) for k in ("value", "low", "high"))
        if rows[0].robot in ("tentacle", "metacylinder"):
            x = np.arange(len(rows))
            axis.errorbar(x, value, [value - low, high - value], fmt=".", ms=3, lw=0.8, color=COLOUR)
            axis.set_xticks([])
        elif len(rows) > 20:
            x = np.array([r.load_1 for r in rows])
            axis.fill_between(x, low, high, color=COLOUR, alpha=0.25, lw=0)
            axis.plot(x, value, color=COLOUR, lw=1.2)
        else:
            x = np.array([r.load_1 for r in rows])
            axis.errorbar(x, value, [value - low, high - value], fmt="o", ms=3, lw=1, capsize=2, color=COLOUR)
        axis.set_title(title, fontsize=8)
        axis.set_xlabel(LOADS[name] + (", x y z of each" if name.startswith("tentacle") else ""), fontsize=7)
        axis.tick_params(labelsize=7)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=80)
    plt.close(figure)
    return path


def main() -> int:
    """Draw all; name what was written."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((HERE / "predictions").glob("*.csv")):
        sys.stdout.write(f"{draw(path.stem, folder)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
