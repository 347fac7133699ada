"""An elastic cylinder with a lattice, clamped below, its top moved by a pose: four wrenches fitted, four predicted.

The mesh and the kinematic coupling of its top are those published as an INP file; the material is one neo-Hookean solid, for
the silicone and the lattice together: what is fitted is that composite's modulus. Unknowns with priors are that modulus (a
factor of two about the 0.5 MPa that the literature has for clear silicones of this hardness, halved for the lattice), and an
offset of all poses, for where the top was when it was called unmoved: 0.2 mm along each axis, 0.01 rad about each, which
robots that are put onto a specimen by hand do not better. Wrenches are linear in them about the commanded poses, by
differences of solves.

What one modulus leaves over is in proportion to the wrench: a share of the norm of the force, of the norm of the moment, and
a floor of a hundredth of the largest, whose scale in the bars comes from poses left out.

With the lattice (`metacylinder_lattice`) one more unknown is how stiff it is along the axis by itself: ratios of measured to
predicted force differ by component, and struts that run from the bottom to the top carry more, or less, along the axis than a
solid does. They are columns between the two discs, spread evenly over the section and hinged at both ends: one of rest length l
that is stretched to l' pulls its ends together by k (l' - l) per area, along itself. k is counted in E / l of the solid, its
prior 0 with a standard deviation of 0.5: a lattice may be as stiff again within two of them, and a negative k says that one
modulus was too stiff along the axis for what it is across. All else is the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from bayes import Fit, fit, spread
from frozen import Row
from scipy.spatial.transform import Rotation

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

COLUMNS = 0.5  # standard deviation of the columns' stiffness, in E / l of the solid
RADIUS, LENGTH = 20 * MM, 40 * MM  # of the cylinder
RINGS, AROUND = 6, 24  # columns over the section: with four times as many wrenches differ by less than 1 %

Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # what `wrenches` returns
Pair = tuple[Found, np.ndarray]  # beside what was measured (6,)


def robot(model: AbaqusModel) -> geosim.VolumetricRobot:
    """Return the cylinder of a read file."""
    return geosim.VolumetricRobot.from_tets(
        MM * model.vertices, model.tets, model.regions, material=geosim.NeoHookean(MODULUS),
        fixed=model.node_sets["bottom_surface"], tip=model.couplings[0].vertices,
    )  # fmt: skip


def wrenches(model: AbaqusModel, pose: np.ndarray) -> Found:
    """Return force [N] and moment about the origin [N mm] of a pose [m, rad], (6,), their derivatives by it (6, 6), the pose."""
    share = np.arange(1, STEPS + 1)[:, None] / STEPS
    path = np.vstack([share * pose, *(np.stack([pose + d, pose - d]) for d in np.diag(SMALL))])
    group = model.couplings[0].group(MM, displacement=path[:, :3], rotation=path[:, 3:])
    environment = geosim.Environment(rigid_groups=group, self_contact=False)
    result = geosim.solve(robot(model), geosim.Passive(steps=len(path)), environment, solver=SOLVER)
    held = model.node_sets["bottom_surface"]
    forces, places = result.reactions[:, held], result.frames[:, held]
    all_ = np.concatenate([forces.sum(1), np.cross(places, forces).sum(1) / MM], axis=1)
    moved = all_[STEPS:].reshape(6, 2, 6)
    return all_[STEPS - 1], ((moved[:, 0] - moved[:, 1]) / (2 * SMALL[:, None])).T, pose


def columns(pose: np.ndarray) -> np.ndarray:
    """Return the wrench (6,) that holds the bottom against columns of k = E / l, E = 3 MODULUS, at a pose [m, rad] of the top.

    The top is moved, and turned about the middle of its disc; moments are about the middle of the bottom, the origin.
    """
    radius = RADIUS * np.sqrt((np.arange(RINGS) + 0.5) / RINGS)  # of equal areas
    turn = 2 * np.pi * np.arange(AROUND) / AROUND
    low = np.stack([*(np.outer(radius, f(turn)).ravel() for f in (np.cos, np.sin)), np.zeros(RINGS * AROUND)], axis=1)
    top = [0.0, 0.0, LENGTH] + pose[:3] + Rotation.from_rotvec(pose[3:]).apply(low)
    along = top - low
    length = np.linalg.norm(along, axis=1, keepdims=True)
    push = 3.0 * MODULUS / LENGTH * np.pi * RADIUS**2 / len(low) * (LENGTH - length) * along / length
    return np.concatenate([push.sum(axis=0), np.cross(low, push).sum(axis=0) / MM])


def given(pose: dict[str, float]) -> np.ndarray:
    """Return the pose [m, rad] of an entry of the files."""
    return np.array([pose[k] for k in ("u1", "u2", "u3", "ur1", "ur2", "ur3")]) * np.r_[MM, MM, MM, 1, 1, 1]


def felt(found: Found, z: np.ndarray) -> np.ndarray:
    """Return the wrench (6,) of unknowns in units of their priors; one more than those is the stiffness of columns."""
    modulus, off = np.exp(z[0] * PRIORS[0]), z[1 : len(PRIORS)] * PRIORS[1:]
    wrench = found[0] + found[1] @ off
    if len(z) > len(PRIORS):
        wrench = wrench + z[-1] * COLUMNS * columns(found[2] + off)
    return modulus * wrench


def left(wrench: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return what one modulus leaves over of a wrench (6,), before it is scaled; largest: norms of force and moment shown."""
    norms = np.linalg.norm(wrench.reshape(2, 3), axis=1)
    return np.repeat(np.hypot(SHARE * norms, FLOOR * largest), 3)


def identify(pairs: list[Pair], largest: np.ndarray, lattice: bool = False) -> Fit:
    """Return the fit to pairs of what `wrenches` returns and what was measured (6,)."""
    unknowns = len(PRIORS) + lattice
    return fit(lambda z: np.concatenate([(felt(f, z) - m) / left(m, largest) for f, m in pairs]), unknowns)


@dataclass(frozen=True)
class Shown:
    """The poses that are shown.

    Parameters
    ----------
    model
        The file that was read.
    names, pairs
        Of the poses, and what is computed and measured of each.
    largest
        Norms of force [N] and moment [N mm] (2,).
    without
        For each, the fit to the others.
    off
        Errors of each predicted from the others, in standard deviations expected (p, 6).
    """

    model: AbaqusModel
    names: tuple[str, ...]
    pairs: list[Pair]
    largest: np.ndarray
    without: list[Fit]
    off: np.ndarray

    def known(self, found: Fit, there: Found) -> np.ndarray:
        """Return standard deviations (6,) of a wrench before they are scaled: of the unknowns, and what the model leaves over."""
        return np.hypot(found.sigma(partial(felt, there)), left(felt(there, found.z), self.largest))


def shown(folder: Path, lattice: bool = False) -> Shown:
    """Return the poses shown, each predicted from the others."""
    model = read_abaqus(folder / "cylinder_linear.inp")
    poses = json.loads((folder / "wrench_fit.json").read_text(encoding="utf-8"))
    pairs = [(wrenches(model, given(v["input"])), np.array(list(v["output"].values()))) for v in poses.values()]
    largest = np.max([np.linalg.norm(m.reshape(2, 3), axis=1) for _, m in pairs], axis=0)
    without = [identify(pairs[:i] + pairs[i + 1 :], largest, lattice) for i in range(len(pairs))]
    made = Shown(model, tuple(poses), pairs, largest, without, np.empty(0))
    off = [(felt(there, f.z) - m) / made.known(f, there) for (there, m), f in zip(pairs, without)]
    return replace(made, off=np.array(off))


def bar(off: np.ndarray) -> float:
    """Return by what standard deviations are multiplied for 95 %, from errors of left-out poses (p, 6) in units of them."""
    scale, width = spread(off, INDEPENDENT * len(off))
    return width * max(scale, 1.0)


def rows_of(name: str, value: np.ndarray, half: np.ndarray) -> list[Row]:
    """Return the rows of a pose: its wrench and half-widths (6,)."""
    return [
        Row("metacylinder", float(name), "", n, u, float(v), float(v - h), float(v + h))
        for n, u, v, h in zip(NAMES, UNITS, value, half)
    ]


def folds(data: Path, lattice: bool = False) -> tuple[list[Row], list[str]]:
    """Return each pose that is shown from the others, the scale of its bars from the others so predicted; and lines."""
    given_ = shown(data / "robots" / "metacylinder", lattice)
    rows, lines = [], ["pose left out: error of the force [N], of the moment [N mm], in % of their norms"]
    for i, (name, (there, measured), found) in enumerate(zip(given_.names, given_.pairs, given_.without)):
        value = felt(there, found.z)
        rows += rows_of(name, value, bar(np.delete(given_.off, i, axis=0)) * given_.known(found, there))
        error, size = (np.linalg.norm(a.reshape(2, 3), axis=1) for a in (value - measured, measured))
        share = 100 * error / size
        lines.append(f"  {name}: {error[0]:.2f} N, {error[1]:.1f} N mm; {share[0]:.0f}, {share[1]:.0f} %")
        if lattice:
            lines[-1] += f"; columns {found.z[-1] * COLUMNS:.2f}, sd {COLUMNS * np.sqrt(found.covariance[-1, -1]):.2f}"
    return rows, lines


def predict(data: Path) -> tuple[list[Row], list[str]]:
    """Return the predictions, and lines on what they rest on."""
    folder = data / "robots" / "metacylinder"
    given_ = shown(folder)
    found, wide = identify(given_.pairs, given_.largest), bar(given_.off)
    mean = found.z * PRIORS
    lines = [
        f"shear modulus {1e-3 * MODULUS * np.exp(mean[0]):.1f} kPa; pose off by {mean[1:4] * 1e3} mm, {mean[4:]} rad; "
        f"{wide:.2f} standard deviations are 95 %"
    ]
    rows = []
    for name, entry in json.loads((folder / "poses_to_predict.json").read_text(encoding="utf-8")).items():
        there = wrenches(given_.model, given(entry["input"]))
        rows += rows_of(name, felt(there, found.z), wide * given_.known(found, there))
    return rows, lines
