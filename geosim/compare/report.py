"""Files of a comparison: coloured VTP, PNG and HTML maps, a table and a one-page report."""

from __future__ import annotations

import base64
import csv
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.errors import InputError
from geosim.writing import write_vtp

if TYPE_CHECKING:
    from geosim.compare.comparison import Comparison

__all__ = ["write"]

SHOWN = 20000  # points drawn in pictures
BARS = 30  # markers of which each gets a bar


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write all files of a comparison into a folder, which is made if needed."""
    if not folder.parent.is_dir():
        raise InputError(f"{folder}: the folder {folder.parent} does not exist; create it first")
    folder.mkdir(exist_ok=True)
    seen = np.isfinite(comparison.points).all(axis=1)
    marks = {"distance_m": comparison.distances, "outlier": comparison.outliers.astype(float)}
    cloud = {name: values[seen] for name, values in marks.items()}
    paths = [write_vtp(folder / "points.vtp", comparison.points[seen], None, cloud)]
    if comparison.surface is not None:
        values = {} if comparison.surface_values is None else {"distance_m": comparison.surface_values}
        paths.append(write_vtp(folder / "map.vtp", comparison.surface.vertices, comparison.surface.faces, values))
    with (folder / "regions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["region", "count", "mean_mm", "rms_mm", "max_mm"])
        table.writerows([n, c, *(f"{1e3 * v:.6g}" for v in rest)] for n, c, *rest in comparison.regions)
    picture = _picture(comparison, folder / "map.png")
    paths += [
        folder / "regions.csv",
        picture,
        _page(comparison, folder / "map.html"),
        _report(comparison, picture, folder),
    ]
    return paths


def _limits(c: Comparison) -> tuple[float, float]:
    values = np.abs(c.distances[~c.outliers]) * 1e3
    top = float(np.nanquantile(values, 0.98)) if len(values) else 1.0
    return (-top, top) if c.kind == "scan" else (0.0, max(top, 1e-9))


def _drawn(c: Comparison) -> Any:
    """Points to draw: of a scan those that count, thinned out; of markers all that were seen."""
    known = np.flatnonzero(np.isfinite(c.distances) & (~c.outliers | (c.predicted is not None)))
    return known[:: max(len(known) // SHOWN, 1)]


def _picture(c: Comparison, path: Path) -> Path:
    """Draw the points, coloured by distance, seen from two sides, and the distances."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    low, high = _limits(c)
    show = _drawn(c)
    points = c.points[show] * 1e3
    for place, (elevation, azimuth) in enumerate(((20, -60), (20, 30))):
        axis: Any = figure.add_subplot(1, 3, place + 1, projection="3d", computed_zorder=False)
        if c.surface is not None:
            axis.plot_trisurf(
                *(c.surface.vertices.T * 1e3), triangles=c.surface.faces, color="0.8", alpha=0.25, linewidth=0
            )
        if c.predicted is not None:
            axis.scatter(*(c.predicted[show] * 1e3).T, s=40, facecolors="none", edgecolors="black", label="model")
            for one, two in zip(points, c.predicted[show] * 1e3):
                axis.plot(*np.stack([one, two]).T, color="black", linewidth=0.8)
        drawn = axis.scatter(
            *points.T,
            c=c.distances[show] * 1e3,
            cmap="coolwarm" if low < 0 else "viridis",
            vmin=low,
            vmax=high,
            s=2 if len(show) > 500 else 20,
            label="measured",
        )
        axis.view_init(elevation, azimuth)
        axis.set_aspect("equal")
        axis.locator_params(nbins=4)
        axis.tick_params(labelsize=7)
        axis.set(xlabel="x [mm]", ylabel="y [mm]", zlabel="z [mm]")
    if c.predicted is not None:
        axis.legend(fontsize=7, loc="upper left")
    figure.colorbar(drawn, ax=axis, label="distance [mm]", shrink=0.7)
    last = figure.add_subplot(1, 3, 3)
    title = f"rms {1e3 * c.rms:.3f} mm ({c.percent['rms']:.2f} % of size)"
    if c.predicted is not None and len(show) <= BARS:
        last.barh(
            [c.names[i] for i in show], c.distances[show] * 1e3, color=["0.7" if c.outliers[i] else "C0" for i in show]
        )
        last.invert_yaxis()
        last.set(xlabel="distance [mm] (grey: not counted)", title=title)
    else:
        last.hist(c.distances[np.isfinite(c.distances) & ~c.outliers] * 1e3, bins=60)
        last.set(xlabel="distance [mm]", ylabel="points", title=title)
    figure.savefig(path, dpi=130)
    return path


def _page(c: Comparison, path: Path) -> Path:
    """Write a self-contained interactive map."""
    import plotly.graph_objects as go

    low, high = _limits(c)
    show = _drawn(c)
    x, y, z = c.points[show].T * 1e3
    parts: list[Any] = [
        go.Scatter3d(
            x=x,
            y=y,
            z=z,
            mode="markers",
            name="measured",
            text=[c.names[i] for i in show] if c.names else None,
            marker=dict(
                size=2 if len(show) > 500 else 6,
                color=c.distances[show] * 1e3,
                cmin=low,
                cmax=high,
                colorscale="RdBu_r",
                colorbar=dict(title="mm"),
            ),
        )
    ]
    if c.predicted is not None:
        x, y, z = c.predicted[show].T * 1e3
        parts.append(
            go.Scatter3d(
                x=x, y=y, z=z, mode="markers", name="model", marker=dict(size=6, color="black", symbol="circle-open")
            )
        )
    if c.surface is not None:
        vx, vy, vz = c.surface.vertices.T * 1e3
        i, j, k = c.surface.faces.T
        look = (
            dict(color="lightgrey", opacity=0.3)
            if c.surface_values is None
            else dict(
                intensity=np.nan_to_num(c.surface_values) * 1e3,
                cmin=low,
                cmax=high,
                colorscale="RdBu_r",
                showscale=False,
                opacity=0.6,
            )
        )
        parts.append(go.Mesh3d(x=vx, y=vy, z=vz, i=i, j=j, k=k, name="model", **look))
    figure = go.Figure(parts)
    figure.update_layout(
        scene=dict(aspectmode="data"), legend=dict(x=0.0, y=1.0), title=f"{c.kind}: rms {1e3 * c.rms:.3f} mm"
    )
    figure.write_html(path, include_plotlyjs=True)
    return path


def _report(c: Comparison, picture: Path, folder: Path) -> Path:
    """Write the one-page report with the picture inside."""
    image = base64.b64encode(picture.read_bytes()).decode()
    text = html.escape("\n".join(c.lines()))
    path = folder / "report.html"
    path.write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Comparison</title>
<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto}}img{{width:100%}}pre{{font-size:90%}}</style></head>
<body><h1>Model against {html.escape(c.kind)}</h1><img src="data:image/png;base64,{image}" alt="map of distances">
<pre>{text}</pre></body></html>
""",
        encoding="utf-8",
    )
    return path
