"""Draws the figures of docs/theory.md: `python scripts/theory_figures.py` writes docs/pictures/theory/*.svg.

Curves are computed from the laws of the package, not sketched.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from geosim.shape.energy.contact.laws import barrier_law, soft_law

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "theory"
INK, BLUE, RED, GREY = "#1d232b", "#1f6f9f", "#b3541e", "#b8c0c9"


def save(figure: Figure, name: str) -> None:
    """Write a figure as SVG, the same bytes each time."""
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(OUT / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def problem() -> None:
    """Body, chamber, clamp, load, obstacle."""
    figure = Figure(figsize=(7.0, 2.6))
    axes = figure.subplots()
    s = np.linspace(0, 1, 80)
    angle = 1.1 * s
    line = np.cumsum(np.stack([np.cos(angle), -np.sin(angle)], axis=1), axis=0) / 12.0
    normal = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    for thick, color in ((1.0, "#cfe0ec"), (0.5, "#f3d3b5")):
        part = slice(None) if thick == 1.0 else slice(6, 74)
        edge = np.vstack([line[part] + 0.8 * thick * normal[part], (line[part] - 0.8 * thick * normal[part])[::-1]])
        axes.add_patch(Polygon(edge, facecolor=color, edgecolor=INK, lw=1.2))
    for y in np.linspace(-0.9, 0.7, 6):
        axes.plot([-0.35, 0.0], [y - 0.25, y], color=INK, lw=1)
    axes.plot([0, 0], [-1.1, 1.1], color=INK, lw=2.5)
    tip = line[-1] - 0.8 * normal[-1] * np.array([1, 1])
    axes.add_patch(Circle(tip + np.array([-0.62, -0.85]), 0.95, facecolor="#e8e4dc", edgecolor=INK))
    arrow = dict(arrowstyle="-|>", color=RED, lw=1.0, mutation_scale=6, shrinkA=0, shrinkB=0)
    for i in (18, 34, 50):
        axes.annotate("", line[i] + 0.4 * normal[i], line[i], arrowprops=arrow)
        axes.annotate("", line[i] - 0.4 * normal[i], line[i], arrowprops=arrow)
    for text, at, place in (
        ("held: x = X", (0, 0.7), (-0.7, 1.7)),
        ("chamber c: volume $V_c$, pressure $\\lambda_c$", line[34], (2.9, 1.75)),
        ("body B: energy W(F), pressure p", line[66] + 0.66 * normal[66], (5.6, 0.9)),
        ("obstacle: signed distance d(x)", tip + np.array([-0.7, -1.2]), (5.4, -4.6)),
    ):
        axes.annotate(text, at, place, fontsize=10, arrowprops=dict(arrowstyle="-", color=INK, lw=0.8))
    axes.set(xlim=(-0.8, 9.0), ylim=(-6.2, 2.3), aspect="equal")
    axes.axis("off")
    save(figure, "problem")


def elements() -> None:
    """A face of a P2 tet with its nodes, of the pressure, and flat."""
    figure = Figure(figsize=(7.0, 2.4))
    corners = np.array([[0, 0], [2.0, 0.2], [0.9, 1.7]])
    for axes, title, bulge in zip(
        figure.subplots(1, 2), ("P2: curved, Taylor-Hood", "P1: flat, smoothed"), (0.22, 0.0)
    ):
        outline, mids = [], []
        for a, b in ((0, 1), (1, 2), (2, 0)):
            way = corners[b] - corners[a]
            mid = 0.5 * (corners[a] + corners[b]) + bulge * np.array([way[1], -way[0]])
            t = np.linspace(0, 1, 30)[:, None]
            outline.append((1 - t) * (1 - 2 * t) * corners[a] + 4 * t * (1 - t) * mid + t * (2 * t - 1) * corners[b])
            mids.append(mid)
        axes.add_patch(Polygon(np.vstack(outline), facecolor="#cfe0ec", edgecolor=INK, lw=1.2))
        axes.plot(*corners.T, "o", color=INK, ms=7, label="position x")
        if bulge:
            axes.plot(*np.array(mids).T, "o", color=INK, ms=7)
            axes.plot(*corners.T, "o", mfc="none", color=RED, ms=13, mew=1.6, label="pressure p")
        else:
            axes.plot(*corners.mean(axis=0), "s", mfc="none", color=RED, ms=9, mew=1.6, label="pressure p")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        axes.set(xlim=(-0.4, 2.5), ylim=(-0.5, 2.1), aspect="equal", title=title)
        axes.axis("off")
    save(figure, "elements")


def contact() -> None:
    """The two laws of contact and that of friction, as the solver evaluates them."""
    figure = Figure(figsize=(9.0, 2.7), layout="constrained")
    one, two, three = figure.subplots(1, 3)
    u = np.linspace(0, 1.6, 200)
    one.plot(1 - u, [10 * soft_law(v)[0] for v in u], color=BLUE)
    one.set(title="obstacle", xlabel="distance / thickness [-]", ylabel="pressure / shear modulus [-]")
    v = np.linspace(0, 0.985, 300)
    two.plot(1 - v, [0.3 * barrier_law(w)[0] for w in v], color=BLUE)
    two.set(title="two parts of the robot", xlabel="distance / reach [-]", ylim=(0, 8))
    slip = np.linspace(-3, 3, 200)
    three.plot(slip, slip / np.maximum(np.abs(slip), 1.0), color=RED)
    three.set(title="friction", xlabel="slip / elastic slip [-]", ylabel="traction / ($\\mu$ p) [-]")
    for axes in (one, two):
        axes.axvline(0, color=GREY, lw=1)
    save(figure, "contact")


def path() -> None:
    """A balloon has a maximum of its pressure: closed forms of a thin sphere, and what is prescribed."""
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots()
    stretch = np.linspace(1.0, 2.9, 200)
    c1, c2, wall = 1.0, 0.08, 0.05  # Mooney-Rivlin over c1, and the wall over the radius
    pressure = 4 * wall * (c1 + c2 * stretch**2) * (1 / stretch - 1 / stretch**7)
    axes.plot(stretch**3, pressure, color=BLUE)
    top = int(np.argmax(pressure[:80]))
    axes.plot(stretch[top] ** 3, pressure[top], "o", color=RED)
    axes.annotate(
        "limit point: PRESSURE_LIMIT, or a snap", (stretch[top] ** 3, pressure[top]), (6.0, 1.06 * pressure[top])
    )
    axes.annotate(
        "",
        (16.5, pressure[top]),
        (stretch[top] ** 3, pressure[top]),
        arrowprops=dict(arrowstyle="->", ls="--", color=RED),
    )
    axes.set(
        ylim=(0, 0.17),
        xlabel="V / V0 [-]",
        ylabel="pressure / c1 [-]",
        title="a thin balloon: p is no function to follow, the arc is",
    )
    save(figure, "path")


def bars() -> None:
    """Errors fall like h^r; one refinement says how far off the coarse mesh is."""
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots()
    h, rate = np.linspace(0, 1.15, 100), 2 * 0.545
    limit, slope = 10.0, -1.6
    axes.plot(h, limit + slope * h**rate, color=BLUE)
    coarse, fine = (limit + slope * x**rate for x in (1.0, 0.5))
    axes.plot([1.0, 0.5, 0], [coarse, fine, limit], "o", color=INK)
    bar = abs(fine - coarse) * 2**rate / (2**rate - 1)
    axes.errorbar([1.0], [coarse], [[bar], [bar]], color=RED, capsize=5, lw=1.6)
    for text, x, y in (
        ("m", 1.02, coarse - 0.3),
        ("$m_f$: every tet in eight", 0.52, fine - 0.55),
        ("limit", 0.02, limit + 0.15),
    ):
        axes.text(x, y, text)
    axes.set(
        xlabel="edge h over that of the mesh [-]",
        ylabel="measure",
        title=f"m_limit - m = (m_f - m) 2^r / (2^r - 1), r = {rate:.2f}",
    )
    save(figure, "bars")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for draw in (problem, elements, contact, path, bars):
        draw()
