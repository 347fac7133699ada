"""Bodies in time beside MuJoCo flex and Newton: error against CPU seconds of whole processes on one thread.

    python benchmarks/dynamics_peers.py [--mujoco PYTHON] [--newton PYTHON] [bar block]

`bar`: the first half period of a cantilever of 200 x 20 x 20 mm, E = 1 MPa, Poisson's ratio 0.45, that starts with the velocities
of its first mode. `block`: how far the centre of mass of a cube of 20 mm, E = 0.1 MPa, nears its lower face when it meets a
smooth floor at 1 m/s. Every code gets the same tets at the same size. The error is the distance from geosim P2 on a finer mesh in
finer steps. MuJoCo's flex obeys Saint Venant and Kirchhoff's law; Newton's solver is vertex block descent (VBD) on the CPU. Both
hold bodies off the floor with springs. PYTHON (default: this one) has the module; a code that is absent is left out by name.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import DENSITY, LENGTH, POISSON, WIDTH, mesh, timed

GAP, SPEED, RADIUS = 1e-3, 1.0, 5e-4  # m, m/s, and m of the skin of peers
ROOT = 1.8751040687
YOUNG = {"bar": 1e6, "block": 1e5}  # Pa
DURATION = {"bar": 0.24, "block": 0.008}  # s


def body(case: str, parts: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return points, tets, which points are held, and velocities [m/s]."""
    points, tets = mesh(parts, LENGTH if case == "bar" else WIDTH)
    velocity = np.zeros_like(points)
    if case == "block":
        velocity[:, 2] = -SPEED
        return points, tets, np.zeros(len(points), dtype=bool), velocity
    x, s = ROOT * points[:, 0] / LENGTH, (np.cosh(ROOT) + np.cos(ROOT)) / (np.sinh(ROOT) + np.sin(ROOT))
    velocity[:, 2] = 0.02 * (np.cosh(x) - np.cos(x) - s * (np.sinh(x) - np.sin(x)))
    return points, tets, points[:, 0] < 1e-9, velocity


def height(case: str, points: np.ndarray, tets: np.ndarray) -> Callable[[np.ndarray], float]:
    """Return what measures a shape: the height of the tip, or of the centre of mass above the lower face."""
    if case == "bar":
        tip = np.flatnonzero(points[:, 0] > LENGTH - 1e-9)
        return lambda x: float(x[tip, 2].mean())
    low = np.flatnonzero(points[:, 2] < 1e-9)
    return lambda x: float(x[tets, 2].mean() - x[low, 2].mean())  # all tets of a cube are of one volume


def found(case: str, times: np.ndarray, heights: np.ndarray) -> float:
    """Return the half period [s] of the bar, or the way [m] that the block is pressed."""
    way = heights - heights[0]
    if case == "block":
        return float(-way.min())
    past = np.flatnonzero((way[1:-1] > 0.0) & (way[2:] <= 0.0)) + 1
    if not len(past):
        return np.inf  # the tip is not back in time
    i = past[0]
    return float(times[i] + (times[i + 1] - times[i]) * way[i] / (way[i] - way[i + 1]))


def geosim(case: str, parts: int, step: float, *rest: float) -> float:
    """Move with geosim, P2 elements, the generalised-alpha rule."""
    import geosim as g

    points, tets, held, velocity = body(case, parts)
    E = YOUNG[case]
    rubber = g.NeoHookean(
        mu=E / (2.0 * (1.0 + POISSON)), bulk_modulus=E / (3.0 * (1.0 - 2.0 * POISSON)), density=DENSITY
    )
    robot = g.VolumetricRobot.from_tets(
        points, tets, material=rubber, fixed=np.flatnonzero(held) if held.any() else None
    )
    floor = [] if case == "bar" else [g.Obstacle.plane((0, 0, -GAP), (0, 0, 1))]
    stepper = g.EnergyShapeStepper(dt=step, velocity=velocity, spectral_radius=0.8)
    world = g.Environment(obstacles=floor, self_contact=False)
    moved = g.solve(robot, g.Passive(DURATION[case]), world, solver=stepper)
    measure = height(case, points, tets)
    return found(case, moved.times, np.array([measure(x) for x in moved.frames]))


def flex(case: str, parts: int, step: float, *rest: float) -> float:
    """Move a flex of MuJoCo, without damping."""
    import mujoco

    points, tets, held, velocity = body(case, parts)
    listed = [" ".join(f"{value:.9g}" for value in values.ravel()) for values in (points, tets)]
    pin = f'<pin id="{" ".join(map(str, np.flatnonzero(held)))}"/>' if held.any() else ""
    touch = 'contype="0" conaffinity="0"' if case == "bar" else f'solref="{2.0 * step} 1" condim="1" priority="1"'
    floor = "" if case == "bar" else f'<geom type="plane" size="1 1 1" pos="0 0 {-GAP - RADIUS}" condim="1"/>'
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{step}" integrator="discrete" gravity="0 0 0"/><size memory="1G"/><worldbody>{floor}'
        f'<flexcomp name="body" type="direct" dim="3" mass="{DENSITY * np.ptp(points[:, 0]) * WIDTH**2}" radius="{RADIUS}" '
        f'point="{listed[0]}" element="{listed[1]}"><contact selfcollide="none" {touch}/>'
        f'<elasticity young="{YOUNG[case]}" poisson="{POISSON}"/>{pin}</flexcomp></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    data.qvel[:] = velocity[~held].ravel()
    mujoco.mj_forward(model, data)
    measure, heights = height(case, points, tets), []
    times = step * np.arange(round(DURATION[case] / step) + 1)
    for _ in times:
        heights.append(measure(data.flexvert_xpos))
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_flex(model, data)
    return found(case, times, np.array(heights))


def newton(case: str, parts: int, step: float, iterations: float) -> float:
    """Move a soft mesh of Newton with vertex block descent."""
    import newton as n
    import warp as wp

    wp.config.quiet = True
    points, tets, held, velocity = body(case, parts)
    E = YOUNG[case]
    builder = n.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    if case == "block":
        builder.add_ground_plane(height=-GAP - RADIUS)
    builder.add_soft_mesh(
        pos=wp.vec3(0.0, 0.0, 0.0),
        rot=wp.quat_identity(),
        scale=1.0,
        vel=wp.vec3(0.0, 0.0, 0.0),
        vertices=[wp.vec3(*p) for p in points],
        indices=tets.ravel().tolist(),
        density=DENSITY,
        k_mu=E / (2.0 * (1.0 + POISSON)),
        k_lambda=E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON)),
        k_damp=0.0,
        particle_radius=RADIUS,
    )
    for i in np.flatnonzero(held):
        builder.particle_mass[i] = 0.0
    builder.color()
    model = builder.finalize(device="cpu")
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_mu = 1e4, 0.0, 0.0
    solver = n.solvers.SolverVBD(model, iterations=int(iterations), particle_enable_tile_solve=False)
    now, after, control = model.state(), model.state(), model.control()
    now.particle_qd.assign(velocity.astype(np.float32))
    pipeline = n.CollisionPipeline(model)
    contacts = pipeline.contacts()
    measure, heights = height(case, points, tets), []
    times = step * np.arange(round(DURATION[case] / step) + 1)
    for _ in times:
        heights.append(measure(now.particle_q.numpy().astype(float)))
        now.clear_forces()
        pipeline.collide(now, contacts)
        solver.step(now, after, control, contacts, step)
        now, after = after, now
    return found(case, times, np.array(heights))


CODES: dict[str, Callable[..., float]] = {"geosim": geosim, "mujoco": flex, "newton": newton}
# of every case and code: cubes through the thickness, step [s] and iterations of vertex block descent
SIZES: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {
    "bar": {
        "geosim": ((1, 2e-2), (1, 1e-2), (1, 5e-3), (2, 5e-3)),
        "mujoco": ((2, 2e-3), (4, 2e-3), (6, 2e-3), (8, 2e-3), (8, 5e-4)),
        "newton": ((2, 1e-3, 20), (4, 1e-3, 20), (4, 1e-3, 100), (4, 2e-4, 50)),
    },
    "block": {
        "geosim": ((1, 5e-4), (2, 2.5e-4), (3, 1.25e-4), (4, 1.25e-4)),
        "mujoco": ((2, 2e-4), (4, 2e-4), (6, 2e-4), (8, 1e-4)),
        "newton": ((2, 1e-4, 20), (4, 1e-4, 20), (6, 1e-4, 50)),
    },
}
REFERENCE: dict[str, tuple[float, ...]] = {"bar": (4, 1.25e-3), "block": (6, 5e-5)}


def run(case: str, code: str, size: tuple[float, ...], python: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of a process and what it found."""
    own = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])} if code == "geosim" else {}
    seconds, said = timed(
        [python, str(Path(__file__).resolve()), "--one", json.dumps([case, code, size])], folder, **own
    )
    return seconds, float(json.loads(said))


def main(arguments: Any = None) -> None:
    """Read the arguments; run one code in this process, or all in others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mujoco", default=sys.executable, help="the Python that has mujoco")
    parser.add_argument("--newton", default=sys.executable, help="the Python that has newton")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", default=list(SIZES))
    arguments = parser.parse_args(arguments)
    if arguments.one:
        case, code, size = json.loads(arguments.one)
        print(json.dumps(CODES[code](case, int(size[0]), *size[1:])))
        return
    pythons = {"geosim": sys.executable, "mujoco": arguments.mujoco, "newton": arguments.newton}
    with tempfile.TemporaryDirectory() as folder:
        for case in arguments.cases:
            seconds, goal = run(case, "geosim", REFERENCE[case], sys.executable, Path(folder))
            print(f"{case}: geosim {REFERENCE[case]} finds {1e3 * goal:.4f} ms or mm, {seconds:.1f} CPU s", flush=True)
            for code, sizes in SIZES[case].items():
                if subprocess.run([pythons[code], "-c", f"import {code}"], capture_output=True, check=False).returncode:
                    print(f"{case}: {code} is left out: {pythons[code]} has no {code}", flush=True)
                    continue
                for size in sizes:
                    try:
                        seconds, value = run(case, code, size, pythons[code], Path(folder))
                    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                        print(f"{case}: {code} {size}: failed: {error}", flush=True)
                        continue
                    off = 100.0 * (value - goal) / goal
                    print(f"{case}: {code} {size}: {seconds:.2f} CPU s, {off:+.2f} %", flush=True)


if __name__ == "__main__":
    main()
