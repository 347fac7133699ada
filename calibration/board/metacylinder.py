"""An elastic cylinder with a lattice, clamped below, its top moved by a pose: four wrenches fitted, four predicted.

The mesh and the kinematic coupling of its top are those published as an INP file; the material is one neo-Hookean solid, for
the silicone and the lattice together: what is fitted is that composite's modulus. Unknowns with priors are that modulus (a
factor of two about the 0.5 MPa that the literature has for clear silicones of this hardness, halved for the lattice), and an
offset of all poses, for where the top was when it was called unmoved: 0.2 mm along each axis, 0.01 rad about each, which
robots that are put onto a specimen by hand do not better. Wrenches are linear in them about the commanded poses, by
differences of solves.

What one modulus leaves over is in proportion to the wrench: a share of the norm of the force, of the norm of the moment, and
a floor of a hundredth of the largest, whose scale in the bars comes from poses left out.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
from bayes import Fit, fit, spread
from frozen import Row

import geosim
from geosim.files.abaqus import AbaqusModel, read_abaqus

MM = 1e-3
MODULUS = 100e3  # shear modulus of the reference solves [Pa]; wrenches are in proportion to it
PRIORS = np.r_[0.5, np.full(3, 0.2e-3), np.full(3, 0.01)]  # ln mu, offset of the pose [m, rad]
SMALL = np.r_[
    np.full(3, 0.1e-3), np.full(3, 5e-3)
]  # of a pose, for differences: well above the solver's tolerance [m, rad]
SHARE, FLOOR = 0.05, 0.01  # of the norm of the force and of the moment; of the largest that was shown
INDEPENDENT = 3  # numbers of a wrench whose errors are independent, of six
STEPS = 3  # increments of a pose
NAMES = ("force_1", "force_2", "force_3", "moment_1", "moment_2", "moment_3")
UNITS = 3 * ("N",) + 3 * ("N mm",)
SOLVER = geosim.EnergyShapeSolver(element="p1", check_stability=False)


def robot(model: AbaqusModel) -> geosim.VolumetricRobot:
    """Return the cylinder of a read file."""
    return geosim.VolumetricRobot.from_tets(
        MM * model.vertices, model.tets, model.regions, material=geosim.NeoHookean(MODULUS),
        fixed=model.node_sets["bottom_surface"], tip=model.couplings[0].vertices,
    )  # fmt: skip


def wrenches(model: AbaqusModel, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return force [N] and moment about the origin [N mm] of a pose [m, rad], (6,), and their derivatives by the pose, (6, 6)."""
    share = np.arange(1, STEPS + 1)[:, None] / STEPS
    path = np.vstack([share * pose, *(np.stack([pose + d, pose - d]) for d in np.diag(SMALL))])
    group = model.couplings[0].group(MM, displacement=path[:, :3], rotation=path[:, 3:])
    environment = geosim.Environment(rigid_groups=group, self_contact=False)
    result = geosim.solve(robot(model), geosim.Passive(steps=len(path)), environment, solver=SOLVER)
    held = model.node_sets["bottom_surface"]
    forces, places = result.reactions[:, held], result.frames[:, held]
    all_ = np.concatenate([forces.sum(1), np.cross(places, forces).sum(1) / MM], axis=1)
    moved = all_[STEPS:].reshape(6, 2, 6)
    return all_[STEPS - 1], ((moved[:, 0] - moved[:, 1]) / (2 * SMALL[:, None])).T


def given(pose: dict[str, float]) -> np.ndarray:
    """Return the pose [m, rad] of an entry of the files."""
    return np.array([pose[k] for k in ("u1", "u2", "u3", "ur1", "ur2", "ur3")]) * np.r_[MM, MM, MM, 1, 1, 1]


def felt(found: tuple[np.ndarray, np.ndarray], z: np.ndarray) -> np.ndarray:
    """Return the wrench (6,) of unknowns in units of their priors."""
    unknown = z * PRIORS
    return np.exp(unknown[0]) * (found[0] + found[1] @ unknown[1:])


def left(wrench: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return what one modulus leaves over of a wrench (6,), before it is scaled; largest: norms of force and moment shown."""
    norms = np.linalg.norm(wrench.reshape(2, 3), axis=1)
    return np.repeat(np.hypot(SHARE * norms, FLOOR * largest), 3)


def identify(pairs: list[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]], largest: np.ndarray) -> Fit:
    """Return the fit to pairs of what `wrenches` returns and what was measured (6,)."""
    return fit(lambda z: np.concatenate([(felt(f, z) - m) / left(m, largest) for f, m in pairs]), len(PRIORS))


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    folder = data / "robots" / "metacylinder"
    model = read_abaqus(folder / "cylinder_linear.inp")
    shown = json.loads((folder / "wrench_fit.json").read_text(encoding="utf-8"))
    asked = json.loads((folder / "poses_to_predict.json").read_text(encoding="utf-8"))
    pairs = [(wrenches(model, given(v["input"])), np.array(list(v["output"].values()))) for v in shown.values()]
    largest = np.max([np.linalg.norm(m.reshape(2, 3), axis=1) for _, m in pairs], axis=0)
    found, off, lines = (
        identify(pairs, largest),
        [],
        ["pose left out: error of the force [N], of the moment [N mm], in % of their norms"],
    )
    for i, name in enumerate(shown):
        others = identify(pairs[:i] + pairs[i + 1 :], largest)
        value, measured = felt(pairs[i][0], others.z), pairs[i][1]
        known = np.hypot(others.sigma(partial(felt, pairs[i][0])), left(value, largest))
        off.append((value - measured) / known)
        error, size = (np.linalg.norm(a.reshape(2, 3), axis=1) for a in (value - measured, measured))
        lines.append(
            f"  {name}: {error[0]:.2f} N, {error[1]:.1f} N mm; {100 * error[0] / size[0]:.0f}, {100 * error[1] / size[1]:.0f} %"
        )
    scale, width = spread(np.concatenate(off), INDEPENDENT * len(shown))
    scale = max(scale, 1.0)
    mean = found.z * PRIORS
    lines.append(
        f"shear modulus {1e-3 * MODULUS * np.exp(mean[0]):.1f} kPa; pose off by {mean[1:4] * 1e3} mm, {mean[4:]} rad; "
        f"left-out errors {scale:.2f} of what was expected, {width:.2f} standard deviations are 95 %"
    )
    rows = []
    for name, entry in asked.items():
        there = wrenches(model, given(entry["input"]))
        value = felt(there, found.z)
        half = width * scale * np.hypot(found.sigma(partial(felt, there)), left(value, largest))
        rows += [
            Row("metacylinder", float(name), "", n, u, float(v), float(v - h), float(v + h))
            for n, u, v, h in zip(NAMES, UNITS, value, half)
        ]
    return rows, lines
