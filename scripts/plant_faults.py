"""Plant faults in the kernels one by one and report which of them the test suite does not see.

    python scripts/plant_faults.py            all faults, a minute or two each
    python scripts/plant_faults.py polar      those whose name contains "polar"

The package and the tests are copied to a temporary folder, so nothing is changed here. The exit status is the number of
faults that survived. What is right is looked for token by token, so the layout of the code does not matter; it must stand
in its file once. Lines after the first of what is wrong are indented as the line that is replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENERGY, PROJECTIVE, COLLISION = "geosim/shape/energy/", "geosim/shape/projective/", "geosim/collision/"
KERNELS, POLAR = PROJECTIVE + "kernels.py", "geosim/linear/polar.py"
LOCAL, SOLVER = "tests/shape/projective/test_local.py", "tests/shape/projective/test_solver.py"
LINES = "tests/shape/projective/test_lines.py"
RODS, NORMALS, SHEETS = "geosim/rods/", "tests/rods/test_midedge.py", "tests/rods/test_sheets.py"
BLOCKS, SELF, DISTANCE = (
    "tests/shape/energy/test_contact.py",
    "tests/shape/energy/test_self_contact.py",
    "tests/collision/test_distance.py",
)
CROSSINGS, QUERIES = "tests/collision/test_crossings.py", "tests/collision/test_queries.py"

# name, file, right, wrong, tests that should see it
FAULTS = [
    ("flipped sign of a cofactor", POLAR, "c * i - b * j,", "b * j - c * i,", LOCAL),
    ("reflected polar rotation", POLAR, "if not det > NEARLY_FLAT * size * np.sqrt(size):", "if det == 0.0:", LOCAL),
    ("polar stops early", POLAR, "if inner(step, step) < LAST_STEP:", "if inner(step, step) < 1e-2:", LOCAL),
    ("singular value keeps its sign", POLAR, "dot(u2, times(f, v2))", "-dot(u2, times(f, v2))", LOCAL),
    ("no cube root in the paper's blend", KERNELS, "det ** (-1.0 / 3.0), blend", "det ** (-1.0), blend", LOCAL),
    (
        "no cube root in uniform growth",
        KERNELS,
        "length = ratio ** (1.0 / 3.0)",
        "length = ratio",
        SOLVER + "::test_the_achieved_volume_is_the_asked_one",
    ),
    (
        "dropped element weight",
        KERNELS,
        "_write_forces(forces, e, gradients, weights[e], combine(stretch, a, bulk, b))",
        "_write_forces(forces, e, gradients, 1.0, combine(stretch, a, bulk, b))",
        LOCAL,
    ),
    ("bulk blend forgotten", KERNELS, "bulk = 1.0 - tables[which[e], 0, 0]", "bulk = 1.0", LOCAL),
    ("integral of R without its slope", KERNELS, "+ slope / 3.0 * (strain**3 - start**3)", "", LOCAL),
    ("pressure of rest forgotten", KERNELS, "p0 = 2.0 * r1 + 4.0 * r2", "p0 = 2.0 * r1", LOCAL),
    ("second invariant's stress doubled", KERNELS, "f, -2.0 * w2, fc)", "f, -4.0 * w2, fc)", LOCAL),
    ("patch energy of half the size", KERNELS, "energies[v] = 0.125 * bulk", "energies[v] = 0.0625 * bulk", LOCAL),
    (
        "chamber pulls instead of pushing",
        KERNELS,
        "_write_forces(forces, e, gradients, pull * volumes[e]",
        "_write_forces(forces, e, gradients, -pull * volumes[e]",
        LOCAL,
    ),
    ("chamber volume without its element volumes", KERNELS, "volume += volumes[e] *", "volume +=", LOCAL),
    ("determinant target ignored", KERNELS, "gap = determinant(t, c) - d +", "gap = determinant(t, c) - 1.0 +", LOCAL),
    (
        "rest shape scaled",
        PROJECTIVE + "elements.py",
        "np.linalg.det(edges) / 6.0",
        "np.linalg.det(edges) / 3.0",
        SOLVER + "::test_reactions_balance_gravity " + LOCAL,
    ),
    (
        "springs pull as well as push",
        PROJECTIVE + "contact.py",
        "depth = np.minimum(gap - self.offset, 0.0)",
        "depth = gap - self.offset",
        SOLVER + " -k push_back",
    ),
    (
        "spring pushes inward",
        PROJECTIVE + "contact.py",
        "push = -(self.stiffness * depth)[:, None]",
        "push = (self.stiffness * depth)[:, None]",
        SOLVER + " -k push_back",
    ),
    (
        "stale matrix after springs changed",
        PROJECTIVE + "relaxation.py",
        "work.matrix.factor(elements.springs)",
        "work.matrix.factorisations += 0",
        SOLVER + "::test_the_matrix_holds_the_springs",
    ),
    (
        "touched face feels nothing",
        PROJECTIVE + "contact.py",
        "np.subtract.at(out, self.corners,",
        "np.subtract.at(0.0 * out, self.corners,",
        SOLVER + "::test_bodies_rest_on_each_other",
    ),
    ("guard of single elements without its energy", KERNELS, "** 2 + guard * excess * excess)", "** 2)", LOCAL),
    (
        "quasi-Newton pairs with the wrong sign",
        PROJECTIVE + "acceleration.py",
        "step += (share - (change @ step)",
        "step += (share + (change @ step)",
        SOLVER + " -k sooner",
    ),
    (
        "energy residual forgets the contact",
        PROJECTIVE + "error.py",
        "external[vertex] += forces",
        "external[vertex] += 0.0 * forces",
        SOLVER + " -k energy_residual",
    ),
    (
        "energy residual keeps the fixed nodes",
        PROJECTIVE + "error.py",
        "free = np.flatnonzero(~problem.held[: x.size])",
        "free = np.arange(x.size)",
        SOLVER + " -k energy_residual",
    ),
    (
        "cable pushes",
        PROJECTIVE + "lines.py",
        "pull[: self.cables] = np.maximum(pull[: self.cables], 0.0)",
        "pull = pull + 0.0",
        LINES,
    ),
    (
        "cable pulls the wrong way",
        PROJECTIVE + "lines.py",
        "np.add.at(at_points, self.segments[:, 1], along)",
        "np.add.at(at_points, self.segments[:, 1], -along)",
        LINES,
    ),
    (
        "area's gradient of twice the size",
        PROJECTIVE + "lines.py",
        "0.5 * pull[-1] * np.cross(unit, side)",
        "pull[-1] * np.cross(unit, side)",
        LINES,
    ),
    (
        "multiplier of a length never moves",
        PROJECTIVE + "lines.py",
        "multipliers=np.where(driven, pulls, 0.0))",
        "multipliers=self.multipliers)",
        LINES,
    ),
    (
        "volume not iterated to the asked one",
        PROJECTIVE + "relaxation.py",
        "now.targets = now.targets + missing",
        "return True",
        SOLVER + "::test_the_achieved_volume_is_the_asked_one",
    ),
    (
        "volume ratios refer to the last meshing",
        PROJECTIVE + "frames.py",
        "rest = work.elements.cells.rest_volumes",
        "rest = work.elements.cells.mesh_volumes",
        SOLVER + "::test_remeshing_keeps_body_numbering_and_volumes",
    ),
    (
        "material law with the wrong exponent",
        PROJECTIVE + "material.py",
        "stretch**-2 + stretch**-1.5",
        "stretch**-2 + stretch**-1.0",
        LOCAL,
    ),
    (
        "acceleration in the wrong direction",
        PROJECTIVE + "acceleration.py",
        "return step - (theta",
        "return step + (theta",
        LOCAL,
    ),
    (
        "missed neighbour filter of nearest points",
        COLLISION + "queries.py",
        "if own >= 0 and own in",
        "if own < -5 and own in",
        QUERIES,
    ),
    (
        "vertices near the faces of a tet missed",
        COLLISION + "queries.py",
        "bound = ON_FACE * abs(whole)",
        "bound = 0.1 * abs(whole)",
        QUERIES,
    ),
    (
        "missed neighbour filter of rays",
        COLLISION + "queries.py",
        "if v in (faces[f, 0], faces[f, 1], faces[f, 2]):",
        "if v == -2:",
        QUERIES,
    ),
    (
        "tree forgets its right half",
        COLLISION + "tree.py",
        "boxes[node, a + 3] = max(left[a + 3], right[a + 3])",
        "boxes[node, a + 3] = left[a + 3]",
        CROSSINGS,
    ),
    ("stale boxes", COLLISION + "crossings.py", "tree = tree.refit(vertices)", "tree = tree", CROSSINGS),
    (
        "touching counts as crossing",
        COLLISION + "crossings.py",
        "_side(vertices, a, b, c, q) >= 0:",
        "_side(vertices, a, b, c, q) > 0:",
        CROSSINGS,
    ),
    (
        "edges through edges missed",
        COLLISION + "crossings.py",
        "if zeros == 1:",
        "if zeros >= 1:\n    continue\nif zeros == 9:",
        CROSSINGS,
    ),
    (
        "edges of one side only",
        COLLISION + "crossings.py",
        "found = _pierce(vertices, faces, edges, owned, order[b], order[a], of_b, pairs, found)",
        "pass",
        CROSSINGS,
    ),
    (
        "planes separate faces that straddle them",
        COLLISION + "crossings.py",
        "abs(of_a[0] + of_a[1] + of_a[2]) == 3",
        "abs(of_a[0] + of_a[1] + of_a[2]) >= 1",
        CROSSINGS,
    ),
    (
        "height above a plane without its offset",
        COLLISION + "crossings.py",
        "corners[a, k + 2] - planes[b, 3]",
        "corners[a, k + 2]",
        CROSSINGS,
    ),
    (
        "faces that share a corner never cross",
        COLLISION + "crossings.py",
        "if shared != 1:",
        "if shared == 1:\n    return True\nif shared != 1:",
        CROSSINGS,
    ),
    (
        "secant pair across a change of the merit",
        PROJECTIVE + "acceleration.py",
        '"""Forget the last point alone: the merit has changed a little since, and its difference to the next is no slope."""'
        " self._last = None",
        "pass",
        LOCAL,
    ),
    (
        "box obstacle measured from its corner",
        COLLISION + "shapes.py",
        "below, above = difference(w, p), difference(p, w[3:])",
        "below, above = difference(w, p), difference(p, w)",
        QUERIES,
    ),
    (
        "mesh obstacle inside out",
        COLLISION + "shapes.py",
        "sign = -1.0 if dot(away, normal) < 0.0 else 1.0",
        "sign = 1.0 if dot(away, normal) < 0.0 else -1.0",
        QUERIES,
    ),
    (
        "shell: orientation of a triangle forgotten",
        RODS + "midedge.py",
        "strain[k] = _wrapped(signs[s, k] * q",
        "strain[k] = _wrapped(q",
        NORMALS,
    ),
    (
        "shell: Poisson's ratio forgotten",
        RODS + "midedge.py",
        "((1.0 - poisson) * cosine**2 + poisson)",
        "cosine**2",
        NORMALS,
    ),
    (
        "shell: unsymmetric second derivative",
        RODS + "midedge.py",
        "h += 0.5 * (second[a, b] + second[b, a])",
        "h += second[a, b]",
        NORMALS,
    ),
    (
        "shell: slope of the height forgotten",
        RODS + "midedge.py",
        "dc / twice - w[k, r] * dtwice[b] / twice",
        "dc / twice",
        NORMALS,
    ),
    (
        "shell: clamp leaves normals free",
        RODS + "system.py",
        "turned[len(robot.edges) + sides] = True",
        "pass",
        NORMALS,
    ),
    (
        "shell: natural angle on both sides in full",
        RODS + "system.py",
        "faces += 0.5 * change",
        "faces += change",
        NORMALS,
    ),
    (
        "shell: slope of the fading of parallel edges",
        RODS + "sheets.py",
        "s * (2.0 - s), (2.0 - 2.0 * s) / limit,",
        "s * (2.0 - s), 0.0,",
        SHEETS,
    ),
    (
        "shell: friction without bound",
        RODS + "sheets.py",
        "drag = mu * fn * stick_slip(speed, k2)[0]",
        "drag = mu * fn * 0.5 * k2",
        SHEETS,
    ),
    (
        "shell: no bound of a step",
        RODS + "sheets.py",
        "return self.sheet.safe_share(self._places(q), self._places(dq))",
        "return 1.0",
        SHEETS,
    ),
    (
        "shell: edges against edges left out",
        RODS + "sheets.py",
        "for kind in range(2):",
        "for kind in range(1):",
        SHEETS,
    ),
    (
        "friction: skew part turned round",
        RODS + "sparse.py",
        "data[upper] = whole + skew",
        "data[upper] = whole - skew",
        "tests/rods/test_shells.py",
    ),
    (
        "contact: law without its slope at the foot",
        ENERGY + "contact_kernels.py",
        "(u * u + 2.0 * u * w) / (u + w) ** 2",
        "1.0",
        BLOCKS,
    ),
    (
        "contact: energy that is not the law's integral",
        ENERGY + "contact_kernels.py",
        "0.5 * u * u - w * u + w * w *",
        "0.5 * u * u - w * u + w *",
        BLOCKS,
    ),
    (
        "contact: curvature of the obstacle forgotten",
        ENERGY + "contact_kernels.py",
        "bend[q, i, j] = -a * p * curvature[q, i, j]",
        "bend[q, i, j] = 0.0",
        BLOCKS,
    ),
    (
        "contact: pressure on the whole area at an edge",
        ENERGY + "contact.py",
        "self.surface.facing(points, active, -normal[active])",
        "self.surface.areas[active]",
        BLOCKS,
    ),
    (
        "contact: equal weights of the points of a curved face",
        ENERGY + "contact_surface.py",
        "(2, 1, 1): 8.0 / 48.0",
        "(2, 1, 1): 4.0 / 48.0",
        BLOCKS,
    ),
    (
        "contact: friction of half the size",
        ENERGY + "contact_kernels.py",
        "most = friction * pushing /",
        "most = 0.5 * friction * pushing /",
        BLOCKS,
    ),
    (
        "contact: friction pushes along the slip",
        ENERGY + "contact_kernels.py",
        "force[q, i] += a * traction[q, i]",
        "force[q, i] -= a * traction[q, i]",
        BLOCKS,
    ),
    (
        "contact: anchors never let go",
        ENERGY + "contact.py",
        "np.where(touches, most / np.maximum(size, most), 0.0)",
        "np.where(touches, 1.0, 0.0)",
        BLOCKS,
    ),
    (
        "contact: anchors stay while the obstacle moves",
        ENERGY + "newton.py",
        "grip = grip.at(poses_between(self.grip.poses, end.grip.poses, share))",
        "grip = grip.at(self.grip.poses)",
        BLOCKS,
    ),
    (
        "contact: bodies at rest feel each other",
        COLLISION + "proximity.py",
        "np.minimum(reach, REST_SHARE * distance)",
        "reach",
        SELF + " " + BLOCKS,
    ),
    (
        "contact: a step may go all the way",
        COLLISION + "proximity.py",
        "time[p] = time_to_gap(at[p], moves[p], edges[p], gap, last)",
        "time[p] = last",
        SELF,
    ),
    (
        "contact: edges against edges left out",
        COLLISION + "proximity.py",
        "split = 1 if k < VERTEX_FACE else 2",
        "if k >= VERTEX_FACE:\n    continue\nsplit = 1 if k < VERTEX_FACE else 2",
        SELF,
    ),
    (
        "contact: displacements of the boxes forgotten",
        COLLISION + "proximity.py",
        "refit_tree(step, faces, tree.order, moves,",
        "refit_tree(0.0 * step, faces, tree.order, moves,",
        SELF,
    ),
    ("contact: side test of spaces forgotten", COLLISION + "proximity.py", "if spaces[f] != spaces[g] or", "if", SELF),
    (
        "contact: fading of parallel edges without slope",
        ENERGY + "contact_kernels.py",
        "gradients[q, i, k] += E * dm[i, k]",
        "pass",
        SELF,
    ),
    (
        "contact: barrier's slope",
        ENERGY + "contact_kernels.py",
        "- u * u * (1.0 - w - 2.0 * u)) / (below * below)",
        ") / (below * below)",
        SELF,
    ),
    (
        "contact: couplings of touching parts forgotten",
        "geosim/linear/patterns.py",
        "low if low < end and values[low] == wanted else -1",
        "low",
        SELF,
    ),
    (
        "contact: turning of the distance left out",
        ENERGY + "contact_kernels.py",
        "bends[q, i, j, k, m] = h",
        "bends[q, i, j, k, m] = 0.0",
        SELF,
    ),
    (
        "contact: hits linearised where the step began",
        COLLISION + "proximity.py",
        'need = time * np.einsum("pia,pia->p", normals, step[points]) - distance',
        "need = -distance",
        SELF,
    ),
    (
        "contact: springs that pull are kept",
        ENERGY + "lookahead.py",
        "move[self.points]) < self.length",
        "move[self.points]) < np.inf",
        SELF,
    ),
    (
        "contact: springs push the wrong way",
        ENERGY + "lookahead.py",
        "hits.need + (1.0 - AT) * hits.reach",
        "-hits.need - (1.0 - AT) * hits.reach",
        SELF,
    ),
    (
        "contact: no second look at a blocked step",
        ENERGY + "newton.py",
        "if look == LOOKS or share > BLOCKED",
        "if look == 0 or share > BLOCKED",
        SELF,
    ),
    (
        "contact: derivative of the distance to an edge",
        COLLISION + "distance.py",
        "R[k, i, m] = w[i] * E[k, m] + c[i, k] * e[m]",
        "R[k, i, m] = w[i] * E[k, m]",
        DISTANCE,
    ),
    (
        "contact: stability counts one pivot too few",
        ENERGY + "newton.py",
        "(~problem.held[size:]).sum()) + len(chosen)",
        "(~problem.held[size:]).sum()) + len(chosen) + 1",
        "tests/shape/energy/test_stability.py",
    ),
]


_TOKEN = re.compile(
    r"""#.*|\"\"\"(?:.|\n)*?\"\"\"|"[^"\n]*"|'[^'\n]*'|\d[\w.]*(?:(?<=e)[+-]\d+)?|\.\d\w*|\w+|\*\*=?|//=?|->|:=|[-+*/%@&|^<>=!]=|\S"""
)


def _tokens(text: str) -> list[tuple[str, int, int]]:
    """Return tokens with their start and end, without comments and trailing commas."""
    found = [(m.group(), *m.span()) for m in _TOKEN.finditer(text) if not m.group().startswith("#")]
    closed = [token for token, *_ in found[1:]] + [""]
    return [f for f, after in zip(found, closed) if not (f[0] == "," and after in (")", "]", "}"))]


def places(source: str, text: str) -> list[tuple[int, int]]:
    """Return where the tokens of a text stand in a source, whatever the layout: start and end of each place."""
    whole, wanted = _tokens(source), [token for token, *_ in _tokens(text)]
    names = [token for token, *_ in whole]
    size = len(wanted)
    return [
        (whole[i][1], whole[i + size - 1][2])
        for i in range(len(whole) - size + 1)
        if names[i] == wanted[0] and names[i : i + size] == wanted
    ]


def planted(source: str, right: str, wrong: str) -> str:
    """Return the source with the one place of `right` replaced by `wrong`.

    Raises
    ------
    ValueError
        It stands there never or more than once.
    """
    found = places(source, right)
    if len(found) != 1:
        raise ValueError(f"{right!r} stands there {len(found)} times and not once; mend this list")
    start, end = found[0]
    line = source[source.rfind("\n", 0, start) + 1 : start]
    indent = line[: len(line) - len(line.lstrip())]
    return source[:start] + wrong.replace("\n", "\n" + indent) + source[end:]


def survives(folder: Path, file: str, right: str, wrong: str, tests: str) -> bool:
    """Plant one fault in the copy, run the tests that should see it, and mend it; True if they all passed."""
    path = folder / file
    source = path.read_text()
    try:
        path.write_text(planted(source, right, wrong))
    except ValueError as error:
        sys.exit(f"{file}: {error}")
    environment = {**os.environ, "PYTHONPATH": str(folder)}  # kernels are kept by content: a fault compiles its own
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *shlex.split(tests)]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        return False  # a test that never ends is noticed
    finally:
        path.write_text(source)
    if done.returncode not in (0, 1):
        sys.exit(f"{file}: the tests could not run:\n{done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def main(*wanted: str) -> int:
    """Plant all faults whose name contains one of the words `wanted`; return the number of survivors."""
    survivors = []
    with tempfile.TemporaryDirectory(prefix="geosim-faults-") as name:
        folder = Path(name)
        for part in ("geosim", "tests", "meshes", "pyproject.toml"):
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            elif source.exists():
                shutil.copy(source, folder / part)
        chosen = [fault for fault in FAULTS if not wanted or any(word in fault[0] for word in wanted)]
        for title, file, right, wrong, tests in chosen:
            alive = survives(folder, file, right, wrong, tests)
            print(f"{'SURVIVED' if alive else 'caught  '}  {title}", flush=True)
            survivors += [title] * alive
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults caught")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
