"""Plant mistakes in material tests and in markers and scans, and count those that are found, and false alarms.

    python scripts/planted_mistakes.py               # 40 calibrations and 40 comparisons with a mistake, 20 of each without
    python scripts/planted_mistakes.py calibration   # or comparison

Every case has a fixed seed. A mistake counts as found where the sentence that names it is said (or the input is refused
with it), and where samples or rows are left out the shear modulus must be the right one all the same. A case without a
mistake must raise no doubt.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from geosim.calibrate import fit, nominal_stress, read_test
from geosim.compare import to_markers, to_scan
from scipy.spatial.transform import Rotation

import geosim
from geosim.apps.compare.registration import apply, rigid
from geosim.apps.compare.surface import ComparedSurface
from geosim.errors import InputError

MODULUS = 0.1  # part by which a shear modulus may be off with noise of one per cent and toes of a per cent of strain


# --- material tests ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Curve:
    """A pull to a stretch, as its file will hold it: rows of text below a header."""

    rng: np.random.Generator
    strain: np.ndarray
    stress: np.ndarray  # Pa
    modulus: float
    header: list[str] = dataclasses.field(default_factory=lambda: ["strain (%)", "stress (kPa)"])
    scale: tuple[float, float] = (100.0, 1e-3)
    delimiter: str = ","
    rows: list[str] = dataclasses.field(default_factory=list)
    reading: dict[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def drawn(cls, seed: int) -> Curve:
        """Draw a material, a range, a number of samples, one per cent of noise, and a dialect of CSV."""
        rng = np.random.default_rng(seed)
        mu = float(np.exp(rng.uniform(np.log(15e3), np.log(400e3))))
        model, constants = (
            ("neo-hookean", [mu]),
            ("mooney-rivlin", [0.4 * mu, 0.1 * mu]),
            ("yeoh", [0.5 * mu, 0.005 * mu, 1e-4 * mu]),
        )[seed % 3]
        stretch = np.linspace(1.0, rng.uniform(1.5, 5.0), int(rng.integers(25, 150)))[1:]
        stress = nominal_stress(model, constants, "uniaxial", stretch)
        stress = stress * (1.0 + 0.01 * rng.standard_normal(len(stress))) + 0.002 * stress.max()
        return cls(rng, stretch - 1.0, stress, mu, delimiter=",;\t"[seed % 3])

    def written(self, folder: Path) -> Path:
        """Write the file and return its path."""
        values = np.column_stack([self.strain * self.scale[0], self.stress * self.scale[1]])
        lines = self.rows or [self.delimiter.join(f"{v:.8g}" for v in row) for row in values]
        path = folder / "pull.csv"
        path.write_text("\n".join([self.delimiter.join(self.header), *lines]) + "\n")
        return path

    def lines(self) -> list[str]:
        """Rows as text, to be spoilt."""
        return self.written(Path(tempfile.gettempdir())).read_text(encoding="utf-8").splitlines()[1:]

    def place(self) -> int:
        """A sample that is used by default and not at an end."""
        inside = np.flatnonzero((self.strain > 0.15) & (self.strain < min(0.9, 0.9 * self.strain[-1])))
        return int(self.rng.choice(inside))


def unreadable(c: Curve) -> str:
    """A row of words in the middle."""
    c.rows = c.lines()
    c.rows[c.place()] = c.delimiter.join(["-- error --", "#N/A"])
    return "cannot be read"


def missing(c: Curve) -> str:
    """A row without its stress."""
    c.rows = c.lines()
    c.rows[c.place()] = f"12.5{c.delimiter}"
    return "cannot be read"


def first_row(c: Curve) -> str:
    """The first row below the header is no row of numbers."""
    c.rows = ["overflow" + c.delimiter + "0.1", *c.lines()]
    return "cannot be read"


def too_large(c: Curve) -> str:
    """A stress with its decimal point one place to the right."""
    c.stress[c.place()] *= 10.0
    return "left out, which their neighbours contradict"


def too_small(c: Curve) -> str:
    """A stress with its decimal point one place to the left."""
    c.stress[c.place()] *= 0.1
    return "left out, which their neighbours contradict"


def strain_off(c: Curve) -> str:
    """A strain with its decimal point one place to the right."""
    c.strain[c.place()] *= 10.0
    return "left out, which their neighbours contradict"


def pascal(c: Curve) -> str:
    """Stresses a thousand times those of the unit in the header."""
    c.header[1] = "stress (MPa)"
    return "is a unit wrong"


def megapascal(c: Curve) -> str:
    """Stresses a thousandth of those of the unit in the header."""
    c.scale = (100.0, 1e-6)
    return "is a unit wrong"


def percent(c: Curve) -> str:
    """Percent under a header that says mm/mm."""
    c.header[0] = "strain (mm/mm)"
    return "is a unit wrong|percent"


def fraction(c: Curve) -> str:
    """Fractions under a header that says percent."""
    c.scale = (1.0, 1e-3)
    return "strain_unit="


def stretch(c: Curve) -> str:
    """Stretches under the name of strains."""
    c.strain = c.strain + 1.0
    c.scale = (1.0, 1e-3)
    c.header[0] = "strain (mm/mm)"
    return "is the column stretch"


def strain(c: Curve) -> str:
    """Strains under the name of stretches."""
    c.header[0] = "stretch"
    c.scale = (1.0, 1e-3)
    return "against the strains|impossible"


def area(c: Curve) -> str:
    """A cross-section in mm^2 where m^2 is asked for."""
    c.header[1] = "force (N)"
    c.scale = (100.0, 18e-6)
    c.reading = {"area": 18.0}
    return "is a unit wrong"


def two_tables(c: Curve) -> str:
    """A second specimen below the first in the same file."""
    c.rows = [*c.lines(), c.delimiter.join(c.header), *c.lines()]
    return "begins another table"


def backwards(c: Curve) -> str:
    """From the largest strain to rest."""
    c.strain, c.stress = c.strain[::-1], c.stress[::-1]
    return "no first loading"


def mixed(c: Curve) -> str:
    """Some rows with a decimal comma."""
    c.delimiter = ";"
    c.rows = c.lines()
    c.rows[3:6] = [row.replace(".", ",") + ",5" for row in c.rows[3:6]]
    return "cannot be read"


def cycle(c: Curve) -> None:
    """Loading and unloading: no mistake."""
    c.strain, c.stress = np.r_[c.strain, c.strain[::-1]], np.r_[c.stress, 0.8 * c.stress[::-1]]


def torn(c: Curve) -> None:
    """A break at the end: no mistake."""
    c.strain = np.r_[c.strain, c.strain[-1] * np.array([1.01, 1.02])]
    c.stress = np.r_[c.stress, 0.05 * c.stress[-1], 0.0]


def plain(c: Curve) -> None:
    """Nothing at all."""


MISTAKES: tuple[Callable[[Curve], str], ...] = (
    *(unreadable, missing, first_row, too_large, too_small, strain_off, pascal, megapascal),
    *(percent, fraction, stretch, strain, area, two_tables, backwards, mixed),
)
SOUND: tuple[Callable[[Curve], None], ...] = (plain, cycle, torn)
RIGHT = (unreadable, missing, first_row, too_large, too_small, strain_off, two_tables, backwards, mixed)


def calibrated(plant: Callable[[Curve], str | None], seed: int) -> tuple[bool, str]:
    """Calibrate with a mistake planted; return whether all is as it should be, and what was said."""
    curve = Curve.drawn(seed)
    wanted = plant(curve)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = fit(read_test(curve.written(Path(folder)), **curve.reading), "best")
        except InputError as error:
            return wanted is not None and any(w in str(error) for w in wanted.split("|")), f"refused: {error}"
    said = " ".join(found.doubts)
    mu = float(found.stress("uniaxial", [1.0 + 1e-6])[0]) / 3e-6
    close = abs(mu / curve.modulus - 1.0) < MODULUS
    if wanted is None:
        return close and not found.doubts, said or f"shear modulus {mu:.4g} of {curve.modulus:.4g} Pa"
    good = any(w in said for w in wanted.split("|")) and (close or plant not in RIGHT)
    return good, f"{said} (shear modulus {mu:.4g} of {curve.modulus:.4g} Pa)"


# --- markers and scans ---------------------------------------------------------------------------------------------


def beam() -> geosim.VolumetricRobot:
    """A block of 100 x 20 x 30 mm, held at x = 0, its tip at x = 100 mm."""
    x, y, z = np.meshgrid(np.linspace(0, 0.1, 11), np.linspace(0, 0.02, 4), np.linspace(0, 0.03, 5), indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), z.ravel()])
    ids = np.arange(len(points)).reshape(11, 4, 5)
    corner = [ids[a : a + 10, b : b + 3, c : c + 4].ravel() for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    paths = ((0, 4, 6, 7), (0, 6, 2, 7), (0, 2, 3, 7), (0, 3, 1, 7), (0, 1, 5, 7), (0, 5, 4, 7))
    tets = np.concatenate([np.stack([corner[i] for i in path], axis=1) for path in paths])
    held, tip = geosim.Select.plane("x", below=1e-6), geosim.Select.plane("x", above=0.0999)
    return geosim.VolumetricRobot.from_tets(
        points, tets, np.zeros(len(tets), int), material="ecoflex-00-30-fang2022", fixed=held, tip=tip
    )


def bent(points: np.ndarray, curvature: float) -> np.ndarray:
    """Bend about y and swell towards the free end, twisted: a shape without symmetry."""
    x, y, z = points.T
    y, z = y * (1.0 + 3.0 * x), z * (1.0 + 1.5 * x * (y > 0.01))
    r = 1.0 / curvature
    return np.column_stack([(r - z) * np.sin(x / r), y, r - (r - z) * np.cos(x / r)])


def result(robot: geosim.VolumetricRobot, shape: np.ndarray) -> geosim.Result:
    """A result that holds one shape."""
    from geosim.result import Result, Status

    done = (Status.CONVERGED, "", True, np.ones(1), shape[None])
    return Result(*done, robot=robot, environment=geosim.Environment())


def pose(rng: np.random.Generator) -> np.ndarray:
    """Any pose within half a metre."""
    return rigid(Rotation.random(random_state=rng).as_matrix(), rng.uniform(-0.5, 0.5, 3))


def marked(plant: str, seed: int, robot: geosim.VolumetricRobot) -> tuple[bool, str]:
    """Compare markers with a mistake planted."""
    rng = np.random.default_rng(seed)
    there = result(robot, bent(robot.vertices, rng.uniform(2.0, 8.0)))
    count = int(rng.integers(3, 6))
    held = robot.fixed[[0, 3, -1]]
    places = np.r_[held, rng.choice(np.setdiff1d(np.unique(robot.skin), robot.fixed), count, replace=False)]
    true = (
        bent(robot.vertices, rng.uniform(0.9, 1.1) * 5.0)[places]
        if plant == "wrong model"
        else there.frames[-1][places]
    )
    points = apply(pose(rng), true) + 2e-4 * rng.standard_normal(true.shape)
    options: dict[str, object] = {"vertices": places}
    wanted = ""
    i, j = rng.choice(np.arange(3, len(places)), 2, replace=False)
    if plant == "metres":
        options["units"], wanted = "mm", "m read as mm"
    elif plant == "millimetres":
        points, wanted = 1e3 * points, "mm read as m"
    elif plant == "swapped":
        points[[i, j]], wanted = (
            points[[j, i]],
            f"marker {min(i, j) + 1} and marker {max(i, j) + 1} are probably exchanged",
        )
    elif plant == "mirrored":
        points, wanted = points * [1, -1, 1], "mirror image"
    elif plant == "outlier":
        points[i] += 0.03 * rng.standard_normal(3) / 1.0 + [0.02, 0.0, 0.0]
        wanted = f"marker {i + 1} is probably an outlier"
    elif plant == "unordered mirrored":
        points, wanted = rng.permutation(points * [1, -1, 1]), "mirror image"
        options["ordered"] = False
    try:
        found = to_markers(there, points, **options)
    except InputError as error:
        return bool(wanted) and wanted in str(error), f"refused: {error}"
    said = " ".join(found.doubts)
    return (wanted in said if wanted else not said), said or f"rms {1e3 * found.rms:.3f} mm"


def scanned(plant: str, seed: int, robot: geosim.VolumetricRobot) -> tuple[bool, str]:
    """Compare a scan of 3000 points with 0.3 mm of noise and a mistake or an ambiguity planted."""
    rng = np.random.default_rng(seed)
    straight = plant in ("symmetric", "part of a prism")
    there = result(robot, robot.vertices if straight else bent(robot.vertices, rng.uniform(4.0, 8.0)))
    mesh = there.surface(-1, subdivide=1)
    points = ComparedSurface(mesh.vertices, mesh.faces).sample(3000, rng)[0]
    far = np.linalg.norm(points - robot.vertices[robot.fixed].mean(axis=0), axis=1)
    part = {"part of a prism": (0.03, 0.07), "tip third": (0.066, 1.0)}.get(plant, (0.0, 1.0))
    points = points[(far >= part[0]) & (far <= part[1])]
    measured = apply(pose(rng), points + 3e-4 * rng.standard_normal(points.shape))
    wanted, factor = {
        "millimetres": ("look like mm", 1e3),
        "symmetric": ("turned by 180 deg fits as well", 1.0),
        "part of a prism": ("fits as well", 1.0),
    }.get(plant, ("", 1.0))
    try:
        found = to_scan(there, factor * measured, register="base" if plant == "base" else "all")
    except InputError as error:
        return bool(wanted) and wanted in str(error), f"refused: {error}"
    said = " ".join(found.doubts)
    off = np.linalg.norm(found.points - points, axis=1).mean()  # of the measured points in the robot's frame
    if wanted:
        return wanted in said, said
    return (off < 2e-3 or bool(said)) and (plant == "tip third" or not said), said or f"pose off by {1e3 * off:.2f} mm"


OF_MARKERS = ("metres", "millimetres", "swapped", "mirrored", "outlier", "unordered mirrored")
OF_SCANS = ("millimetres", "symmetric", "part of a prism", "tip third")
CLEAN = ("clean", "wrong model", "clean", "clean")


def cases(kind: str) -> list[tuple[str, Callable[[], tuple[bool, str]], bool]]:
    """Return name, case and whether it holds a mistake: 40 with and 20 without one."""
    if kind == "calibration":
        spoilt = [(m.__name__, m, seed) for seed, m in zip(range(40), 3 * MISTAKES)]
        sound = [(s.__name__, s, 100 + seed) for seed, s in zip(range(20), 7 * SOUND)]
        return [(n, lambda m=m, s=s: calibrated(m, s), (n, m, s) in spoilt) for n, m, s in (*spoilt, *sound)]
    robot = beam()
    marks = [(m, seed, True) for seed, m in zip(range(28), 5 * OF_MARKERS)]
    marks += [(m, 100 + seed, False) for seed, m in zip(range(14), 4 * CLEAN)]
    scans = [(m, 200 + seed, True) for seed, m in zip(range(12), 3 * OF_SCANS)]
    scans += [(("clean", "base")[seed % 2], 300 + seed, False) for seed in range(6)]
    of_markers = [(f"markers, {m}", lambda m=m, s=s: marked(m, s, robot), w) for m, s, w in marks]
    return of_markers + [(f"scan, {m}", lambda m=m, s=s: scanned(m, s, robot), w) for m, s, w in scans]


def main(*kinds: str) -> int:
    """Run all cases and print the counts; return the number of those that went wrong."""
    wrong = 0
    for kind in kinds or ("calibration", "comparison"):
        counts, missed = {True: 0, False: 0}, {True: 0, False: 0}
        for name, case, planted in cases(kind):
            good, said = case()
            counts[planted] += 1
            missed[planted] += not good
            if not good:
                sys.stdout.write(f"{kind}, {name}: {'NOT FOUND' if planted else 'FALSE ALARM'}: {said}\n")
                sys.stdout.flush()
        sys.stdout.write(
            f"{kind}: {counts[True] - missed[True]} of {counts[True]} mistakes found, {missed[False]} false alarms in "
            f"{counts[False]} clean ones\n"
        )
        wrong += sum(missed.values())
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
