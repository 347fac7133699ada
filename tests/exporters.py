"""Files as exporters write them, made from known trajectories after their published layouts.

Every writer takes cells of text, so that what is read can be compared to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MARKERS = ("base1", "base2", "base3", "tip")


@dataclass
class Take:
    """Four markers over six frames at 100 Hz, in text of three decimals; the first frame and two others have gaps."""

    names: tuple[str, ...] = MARKERS
    cells: list = field(default_factory=list)
    seed: int = 0

    def __post_init__(self):
        rng = np.random.default_rng([len(self.names), self.seed] if self.seed else len(self.names))
        values = rng.uniform(-400, 400, (6, len(self.names), 3))
        self.cells = [[[f"{v:.3f}" for v in point] for point in row] for row in values]
        for frame, marker in ((0, 0), (2, 3), (3, 0), (3, 1), (3, 2), (3, 3), (5, len(self.names) - 1)):
            self.cells[frame][marker] = ["", "", ""]  # frame 3 is gaps alone

    def positions(self, scale=1e-3):
        """Return what shall be read [m]."""
        return np.array([[[np.nan if c == "" else float(c) for c in p] for p in row] for row in self.cells]) * scale

    def rows(self, gap="", order=(0, 1, 2), extra=0, comma=False):
        """Return the cells of every frame in a row."""
        rows = [
            [gap if c == "" else c for p in row for c in [*(p[i] for i in order), *["0.5"] * extra]]
            for row in self.cells
        ]
        return [[c.replace(".", ",") for c in row] for row in rows] if comma else rows


TAKE = Take()


def _join(rows, delimiter, end="\n"):
    return end.join(delimiter.join(row) for row in rows) + end


def motive(
    version="1.23",
    unit="Millimeters",
    order="XYZ",
    words=True,
    rigid=True,
    quality=False,
    parent=False,
    timecode=False,
    names=None,
    take=TAKE,
):
    """Return the lines of a Motive CSV: markers, and beside them a rigid body with its own marker and errors."""
    names = names or [f"Finger:{name}" for name in MARKERS]
    lead = 3 if timecode else 2
    columns = []
    if rigid:
        columns += [("Rigid Body", "Clamp", "1", "Rotation", a) for a in "XYZW"]
        columns += [("Rigid Body", "Clamp", "1", "Position", a) for a in "XYZ"]
        columns += [("Rigid Body", "Clamp", "1", "Mean Marker Error", "")]
        columns += [("Rigid Body Marker", "Clamp:Marker1", "9", "Position", a) for a in "XYZ"]
    for k, name in enumerate(names):
        columns += [("Marker", name, f"{k + 11}", "Position", a) for a in order]
        columns += [("Marker", name, f"{k + 11}", "Marker Quality", "")] if quality else []
    head = [
        "Format Version",
        version,
        "Take Name",
        "grip, second",
        "Capture Frame Rate",
        "100.000000",
        "Export Frame Rate",
    ]
    head += ["100.000000", "Total Frames in Take", "6", "Total Exported Frames", "6", "Rotation Type", "Quaternion"]
    head += ["Length Units", unit, "Coordinate Space", "Global"]
    head = [f'"{cell}"' if "," in cell else cell for cell in head]
    kinds, titles, ids, what, axes = zip(*columns)
    parents = [(["", "Parent" if words else ""], [""] * len(columns))] if parent else []
    lines = [head, [""]]
    for word, cells in (("Type", kinds), ("Name", titles), ("ID", [f'"{i}"' for i in ids])):
        lines.append(["", word if words else "", *[""] * (lead - 2), *cells])
    lines += [[*start, *[""] * (lead - 2), *cells] for start, cells in parents]
    lines.append(["", "", *[""] * (lead - 2), *what])
    start = ["Frame", "Time (Seconds)"] if words else ["", ""]
    lines.append([*start, *["TimeCode"] * (lead - 2), *axes])
    at = ["XYZ".index(axis) for axis in order]
    for k, row in enumerate(take.rows(order=at, extra=int(quality))):
        body = ["0.1"] * (11 if rigid else 0)
        lines.append([str(k), f"{k / 100:.6f}", *["15:26:46:12.02"] * (lead - 2), *body, *row])
    return lines


def qualisys(lead=True, titles=True, gap="", tab=False, comma=False, more=(), frequency="100", order="XYZ", take=TAKE):
    """Return the lines of a QTM TSV."""
    end = [""] if tab else []
    lines = [["NO_OF_FRAMES", "6"], ["NO_OF_CAMERAS", "8"], ["NO_OF_MARKERS", "4"], ["FREQUENCY", frequency]]
    lines += [["NO_OF_ANALOG", "0"], ["ANALOG_FREQUENCY", "0"], ["DESCRIPTION", "--"]]
    lines += [["TIME_STAMP", "2024-05-01, 12:00:00.000", "12345.678"], ["DATA_INCLUDED", "3D"], *more]
    lines += [["MARKER_NAMES", *MARKERS, *end], ["TRAJECTORY_TYPES", *["Measured"] * 4, *end]]
    if titles:
        lines.append([*(["Frame", "Time"] if lead else []), *(f"{name} {axis}" for name in MARKERS for axis in order)])
    at = ["XYZ".index(axis) for axis in order]
    for k, row in enumerate(take.rows(gap, order=at, comma=comma)):
        time = f"{k / 100:.5f}".replace(".", "," if comma else ".")
        lines.append([*([str(k + 1), time] if lead else []), *row, *end])
    return lines


def vicon(unit="mm", owners=("S",) * 4, velocities=False, order="XYZ", before=(), take=TAKE):
    """Return the lines of a Nexus ASCII export."""
    axes = [*order, *(["X'", "Y'", "Z'"] if velocities else [])]
    units = [unit] * 3 + ([f"{unit}/s"] * 3 if velocities else [])
    names = [c for owner, name in zip(owners, MARKERS) for c in [f"{owner}:{name}", *[""] * (len(axes) - 1)]]
    lines = [
        *before,
        ["Trajectories"],
        ["100"],
        ["", "", *names],
        ["Frame", "Sub Frame", *axes * 4],
        ["", "", *units * 4],
    ]
    at = ["XYZ".index(axis) for axis in order]
    for k, row in enumerate(take.rows(order=at, extra=3 if velocities else 0)):
        lines.append([str(k), "0", *row])
    return lines


def trc(gap="", blank=True, tab=True, unit="mm", names=MARKERS, order="XYZ", take=TAKE):
    """Return the lines of a TRC file."""
    keys = [
        "DataRate",
        "CameraRate",
        "NumFrames",
        "NumMarkers",
        "Units",
        "OrigDataRate",
        "OrigDataStartFrame",
        "OrigNumFrames",
    ]
    end = [""] if tab else []
    lines = [["PathFileType", "4", "(X/Y/Z)", "C:\\data\\walk.trc"], keys]
    lines.append(["100.00", "100.00", "6", str(len(names)), unit, "100.00", "1", "6"])
    lines.append(["Frame#", "Time", *(c for name in names for c in (name, "", "")), *end])
    lines.append(["", "", *(f"{axis}{k + 1}" for k in range(len(names)) for axis in order), *end])
    lines += [[""]] if blank else []
    at = ["XYZ".index(axis) for axis in order]
    lines += [[str(k + 1), f"{k / 100:.5f}", *row, *end] for k, row in enumerate(take.rows(gap, order=at))]
    return lines


def table(form="{}_{}_mm", clock=("frame", "time_s"), gap="", comma=False, axes="xyz", extra=(), take=TAKE):
    """Return the lines of a table that names marker and axis of every column."""
    lines = [[*clock, *(form.format(name, axis) for name in MARKERS for axis in [*axes, *extra])]]
    at = ["xyz".index(axis.lower()) for axis in axes]
    for k, row in enumerate(take.rows(gap, order=at, extra=len(extra), comma=comma)):
        time = f"{k / 100:.2f}".replace(".", "," if comma else ".")
        lines.append([*(str(k) if "f" in c[:1] else time for c in clock), *row])
    return lines


def deeplabcut(individuals=False, take=TAKE):
    """Return the lines of a triangulated DeepLabCut CSV."""
    lines = [["scorer", *["DLC_3D"] * 12]]
    lines += [["individuals", *["one"] * 12]] if individuals else []
    lines += [["bodyparts", *(name for name in MARKERS for _ in range(3))], ["coords", *"xyz" * 4]]
    return lines + [[str(k), *row] for k, row in enumerate(take.rows("NaN"))]


def c3d(path: Path, unit="mm", names=MARKERS, labelled=True, count=4, take=TAKE):
    """Write a C3D file with gaps as negative residuals; return the positions [m] that it holds."""
    import ezc3d

    positions = np.array([[[np.nan if c == "" else float(c) for c in p] for p in row] for row in take.cells])
    positions = np.tile(positions, (1, -(-count // 4), 1))[:, :count]
    file = ezc3d.c3d()
    file["parameters"]["POINT"]["RATE"]["value"] = [100]
    file["parameters"]["POINT"]["UNITS"]["value"] = [unit]
    file["parameters"]["POINT"]["LABELS"]["value"] = list(names) if labelled else []
    points = np.ones((4, count, 6))
    points[:3] = positions.transpose(2, 1, 0)
    points[:, np.isnan(points[:3]).any(axis=0)] = 0.0
    file["data"]["points"] = points
    residuals = np.zeros((1, count, 6))
    residuals[0][np.isnan(positions).any(axis=2).T] = -1.0
    file["data"]["meta_points"] = {"residuals": residuals, "camera_masks": np.zeros((7, count, 6), dtype=bool)}
    file.write(str(path))
    return positions.astype(np.float32).astype(float) * {"mm": 1e-3, "m": 1.0}[unit]


CLOUD = np.random.default_rng(5).uniform(-60, 60, (40, 3)).round(3)


def cloud(form="{0:.3f} {1:.3f} {2:.3f}", head=()):
    """Return the lines of a point cloud; in `form` fields 0, 1, 2 are x, y, z, and 3 the number of the point."""
    return [*head, *(form.format(*point, k) for k, point in enumerate(CLOUD))]
