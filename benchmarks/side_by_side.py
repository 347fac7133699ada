"""Error against CPU seconds of geosim and four other codes on one case: a soft bar that bends under its own weight.

    python benchmarks/side_by_side.py [--peers PYTHON] [--out FOLDER] [--repeats 2] [NAME ...]

The bar is 200 mm long and 20 mm wide and high, clamped at one end, neo-Hookean with E = 1 MPa and Poisson's ratio 0.45. Its
tip moves by three tenths of its length. Every code gets the same tetrahedra, split from cubes: geosim P2, CalculiX C3D10 and
felupe quadratic ones, MuJoCo flex linear ones. MuJoCo and PyElastica move until they rest, with critical damping. Rods have the
bending stiffness and the weight of the bar. The error is the distance of the tip from that of geosim P2 with eight elements
through the thickness, over the way of the tip there. Codes of another law or theory have an error that no mesh removes: flex
obeys Saint Venant and Kirchhoff's law, rods have no sections that warp.

CPU seconds are those of a whole process from its start to its exit on one thread, with compiled kernels, the least of the
repeats. PYTHON (default: this one) has felupe, mujoco and pyelastica; `ccx` is on the path. What is not there is left out, with a
line that says why. FOLDER (default ./side-by-side) gets a plot.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

LENGTH, WIDTH = 0.2, 0.02  # m
YOUNG, POISSON, DENSITY, GRAVITY = 1e6, 0.45, 1070.0, 9.81
SHEAR, BULK = YOUNG / (2.0 * (1.0 + POISSON)), YOUNG / (3.0 * (1.0 - 2.0 * POISSON))
# rate [1/s] at which speeds fall: critical for the first mode of the bar, 15.5 rad/s; and when all is at rest to 0.1 % [s]
DAMPING, REST = 31.0, 0.8
RADIUS = (WIDTH**4 / (3.0 * np.pi)) ** 0.25  # of a round rod that bends as the bar does
# A clamped element of a rod is stiff from its middle: rods begin half an element before the wall.
ROD_DENSITY = DENSITY * WIDTH**2 / (np.pi * RADIUS**2)
ONE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def mesh(parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and tets of the bar with this many cubes through its thickness."""
    count, wide = round(parts * LENGTH / WIDTH), parts + 1
    grid = np.indices((count + 1, wide, wide)).reshape(3, -1).T
    starts = np.indices((count, parts, parts)).reshape(3, -1).T
    cubes = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    corners = (starts[:, None] + cubes) @ [wide * wide, wide, 1]
    tets = corners[:, [[0, a, b, 7] for a, b in ((4, 6), (6, 2), (2, 3), (3, 1), (1, 5), (5, 4))]].reshape(-1, 4)
    return grid * (WIDTH / parts), tets


def _end(points: np.ndarray) -> np.ndarray:
    return np.flatnonzero(points[:, 0] > LENGTH - 1e-9)


def _before(elements: int) -> float:
    """Half an element [m] of a rod that begins so far before the wall."""
    return 0.5 * LENGTH / (elements - 0.5)


# ---- what runs in a process of its own and returns the place of the tip


def geosim_p2(parts: int) -> np.ndarray:
    """Solve with geosim, P2 elements."""
    import geosim

    points, tets = mesh(parts)
    material = geosim.NeoHookean(mu=SHEAR, bulk_modulus=BULK, density=DENSITY)
    robot = geosim.VolumetricRobot.from_tets(
        points, tets, material=material, fixed=points[:, 0] < 1e-9, tip=_end(points)
    )
    world = geosim.Environment(gravity=(0.0, 0.0, -GRAVITY), self_contact=False)
    return np.asarray(geosim.solve(robot, geosim.Passive(), world).tip[-1])


def geosim_rod(elements: int) -> np.ndarray:
    """Solve with a rod of geosim."""
    import geosim

    material = geosim.LinearElastic(YOUNG, POISSON, ROD_DENSITY)
    limb = geosim.Limb((-_before(elements), 0, 0), (LENGTH, 0, 0), nodes=elements + 1, radius=RADIUS, material=material)
    robot = geosim.RodShellRobot.from_limbs([limb], fixed_vertices=[0, 1], fixed_edges=[0])
    world = geosim.Environment(gravity=(0.0, 0.0, -GRAVITY))
    result = geosim.solve(robot, geosim.Passive(), world, solver=geosim.RodShellStepper(static=True))
    return np.asarray(result.frames[-1][elements]) + [0.0, 0.5 * WIDTH, 0.5 * WIDTH]


def felupe(parts: int) -> np.ndarray:
    """Solve with felupe, with Pardiso if it is there."""
    import felupe as fem

    points, tets = mesh(parts)
    quadratic = fem.Mesh(points, tets, "tetra").add_midpoints_edges()
    field = fem.FieldContainer([fem.Field(fem.RegionQuadraticTetra(quadratic), dim=3)])
    clamp = fem.dof.partition(field, {"clamp": fem.Boundary(field[0], fx=0.0)})
    solid = fem.SolidBody(fem.NeoHooke(mu=SHEAR, bulk=BULK), field)
    weight = fem.SolidBodyForce(field, values=[0.0, 0.0, -DENSITY * GRAVITY])
    try:
        from pypardiso import spsolve
    except ImportError:
        from scipy.sparse.linalg import spsolve
    for share in (0.25, 0.5, 0.75, 1.0):  # from rest to the whole weight Newton's method fails on all meshes but one
        weight.update([0.0, 0.0, -share * DENSITY * GRAVITY])
        fem.newtonrhapson(items=[solid, weight], dof0=clamp[0], dof1=clamp[1], solver=spsolve, verbose=0)
    return np.asarray((quadratic.points + field[0].values)[_end(points)].mean(axis=0))


def flex(parts: int) -> np.ndarray:
    """Move a flex of MuJoCo until it rests."""
    import mujoco

    points, tets = mesh(parts)
    step = 2e-3  # the longest at which finer meshes end where shorter steps do
    listed = [" ".join(f"{value:.9g}" for value in values.ravel()) for values in (points, tets)]
    held = " ".join(map(str, np.flatnonzero(points[:, 0] < 1e-9)))
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{step}" integrator="discrete" gravity="0 0 {-GRAVITY}"/><size memory="1G"/><worldbody>'
        f'<flexcomp name="bar" type="direct" dim="3" mass="{DENSITY * LENGTH * WIDTH**2}" radius="5e-4" point="{listed[0]}" '
        f'element="{listed[1]}"><contact selfcollide="none" contype="0" conaffinity="0"/><elasticity young="{YOUNG}" '
        f'poisson="{POISSON}"/><pin id="{held}"/></flexcomp></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    for _ in range(round(REST / step)):
        mujoco.mj_step(model, data)
        data.qvel *= np.exp(-DAMPING * step)
    return np.asarray(data.flexvert_xpos[_end(points)].mean(axis=0))


def pyelastica(elements: int) -> np.ndarray:
    """Move a rod of PyElastica until it rests."""
    import elastica as ea

    class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing, ea.Damping):
        """What the case needs."""

    before, along, up = _before(elements), np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    rod = ea.CosseratRod.straight_rod(
        elements,
        -before * along,
        along,
        up,
        LENGTH + before,
        RADIUS,
        ROD_DENSITY,
        youngs_modulus=YOUNG,
        shear_modulus=SHEAR,
    )
    step = 0.5 * LENGTH / elements / np.sqrt(YOUNG / ROD_DENSITY)  # of the time a wave takes through an element
    simulator = Simulator()
    simulator.append(rod)
    simulator.constrain(rod).using(ea.OneEndFixedBC, constrained_position_idx=(0,), constrained_director_idx=(0,))
    simulator.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=np.array([0.0, 0.0, -GRAVITY]))
    simulator.dampen(rod).using(ea.AnalyticalLinearDamper, uniform_damping_constant=DAMPING, time_step=step)
    simulator.finalize()
    stepper, clock = ea.PositionVerlet(), np.float64(0.0)
    for _ in range(round(REST / step)):
        clock = stepper.step(simulator, clock, step)
    return np.asarray(rod.position_collection[:, -1]) + [0.0, 0.5 * WIDTH, 0.5 * WIDTH]


# name, what it runs, its sizes, and the module that its Python must have
CODES: dict[str, tuple[Callable[[int], np.ndarray] | None, tuple[int, ...], str]] = {
    "geosim P2": (geosim_p2, (1, 2, 3, 4, 6), ""),
    "CalculiX C3D10": (None, (1, 2, 3, 4), ""),
    "felupe tetra10": (felupe, (1, 2, 3, 4), "felupe"),
    "MuJoCo flex": (flex, (2, 4, 6, 8), "mujoco"),
    "geosim rod": (geosim_rod, (10, 20, 40, 80), ""),
    "PyElastica rod": (pyelastica, (10, 20, 40), "elastica"),
}
REFERENCE = 8  # cubes through the thickness


# ---- the timed processes


def _timed(command: list[str], folder: Path, **environment: str) -> tuple[float, str]:
    """Run a command to its end; return its CPU seconds and what it printed last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **ONE, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise RuntimeError((run.stderr.strip() or run.stdout.strip()).splitlines()[-1][:120])
    lines = run.stdout.splitlines()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, lines[-1] if lines else ""


def calculix(parts: int, folder: Path) -> tuple[float, np.ndarray]:
    """Write a deck and run CalculiX; return its CPU seconds and the place of the tip."""
    points, tets = mesh(parts)
    sides = tets[:, [[0, 1], [1, 2], [2, 0], [0, 3], [1, 3], [2, 3]]].reshape(-1, 2)
    edges, number = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True)
    nodes = np.vstack([points, points[edges].mean(axis=1)])
    elements = np.hstack([tets, len(points) + number.reshape(-1, 6)]) + 1
    rows = lambda table: "\n".join(f"{k + 1}," + ",".join(f"{v:.12g}" for v in row) for k, row in enumerate(table))  # noqa: E731
    listed = lambda ids: "\n".join(f"{i + 1}," for i in ids)  # noqa: E731
    deck = (
        f"*NODE, NSET=ALL\n{rows(nodes)}\n*ELEMENT, TYPE=C3D10, ELSET=BAR\n{rows(elements)}\n*NSET, NSET=CLAMP\n"
        f"{listed(np.flatnonzero(nodes[:, 0] < 1e-9))}\n*NSET, NSET=TIP\n{listed(_end(points))}\n*MATERIAL, NAME=SOFT\n"
        f"*HYPERELASTIC, NEO HOOKE\n{0.5 * SHEAR:.12g},{2.0 / BULK:.12g}\n*DENSITY\n{DENSITY}\n*SOLID SECTION, ELSET=BAR, "
        f"MATERIAL=SOFT\n*BOUNDARY\nCLAMP,1,3\n*STEP, NLGEOM, INC=1000\n*STATIC\n0.25,1.\n*DLOAD\nBAR,GRAV,{GRAVITY},0.,0.,-1.\n"
        f"*NODE PRINT, NSET=TIP, FREQUENCY=1000\nU\n*END STEP\n"
    )
    (folder / "bar.inp").write_text(deck, encoding="ascii")
    seconds, _ = _timed([str(shutil.which("ccx")), "bar"], folder)
    lines = [line.split() for line in (folder / "bar.dat").read_text(encoding="ascii").splitlines()]
    moved = np.array([words[1:] for words in lines if len(words) == 4 and words[0].isdigit()], dtype=float)
    return seconds, np.asarray(points[_end(points)].mean(axis=0) + moved.mean(axis=0))


def measured(name: str, size: int, peers: str, folder: Path, repeats: int) -> tuple[float, np.ndarray]:
    """Return the CPU seconds of a code at a size, the least of the repeats, and the place of the tip."""
    found = []
    for _ in range(repeats):
        if CODES[name][0] is None:
            found.append(calculix(size, folder))
            continue
        python = peers if CODES[name][2] else sys.executable
        own = {} if CODES[name][2] else {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        seconds, said = _timed([python, __file__, "--one", str(size), name], folder, **own)
        found.append((seconds, np.array(json.loads(said))))
    return min(found, key=lambda one: one[0])


def missing(name: str, peers: str) -> str:
    """Return why a code is left out; nothing where it is there."""
    run, _, module = CODES[name]
    if run is None:
        return "" if shutil.which("ccx") else "ccx is not on the path (apt-get install calculix-ccx)"
    there = (
        not module or not subprocess.run([peers, "-c", f"import {module}"], capture_output=True, check=False).returncode
    )
    return "" if there else f"{peers} has no {module}"


def draw(rows: list[tuple[str, int, float, float]], path: Path) -> None:
    """Plot errors over CPU seconds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    for mark, name in zip("osD^vP", CODES):
        some = np.array([[seconds, 100.0 * error] for one, _, seconds, error in rows if one == name])
        if len(some):
            axes.loglog(*some.T, marker=mark, label=name, linewidth=2.0 if name.startswith("geosim") else 1.0)
    axes.set(xlabel="CPU seconds of a whole process", ylabel="error of the tip [% of its way]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.grid(which="major", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Read the arguments; run one code in this process, or all in others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=sys.executable, help="the Python that has felupe, mujoco and pyelastica")
    parser.add_argument("--out", type=Path, default=Path("side-by-side"))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=list(CODES))
    arguments = parser.parse_args()
    if arguments.one:
        run = CODES[arguments.names[0]][0]
        assert run is not None
        print(json.dumps(run(arguments.one).tolist()))
        return
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    _, goal = measured("geosim P2", REFERENCE, arguments.peers, folder, 1)
    way = float(np.linalg.norm(goal - [LENGTH, 0.5 * WIDTH, 0.5 * WIDTH]))
    print(
        f"tip at {1e3 * goal} mm, {1e3 * way:.3f} mm from rest\n\n| code | size | CPU s | error [%] |\n|---|---|---|---|"
    )
    rows: list[tuple[str, int, float, float]] = []
    for name in arguments.names:
        if reason := missing(name, arguments.peers):
            print(f"| {name} | left out: {reason} | | |", flush=True)
            continue
        for size in CODES[name][1]:
            try:
                seconds, tip = measured(name, size, arguments.peers, folder, arguments.repeats)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"| {name} | {size} | failed: {error} | |", flush=True)
                continue
            rows.append((name, size, seconds, float(np.linalg.norm(tip - goal)) / way))
            print(f"| {name} | {size} | {seconds:.2f} | {100.0 * rows[-1][3]:.3f} |", flush=True)
    draw(rows, folder / "side-by-side.png")


if __name__ == "__main__":
    main()
