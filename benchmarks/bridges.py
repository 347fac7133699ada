"""Bridges to other tools: gradients, reduced models, control loops, MuJoCo, USD; the same for rods.

    python benchmarks/bridges.py [torch] [reduced] [live] [mujoco] [attached] [rods] [usd] [--fresh N] [--robot NAME ...]

Models are kept in --out and made once. Bounds are held against equilibria that neither a fit nor a bound has seen, motions of the
chain against equilibria of geosim, gradients against differences.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import geosim
from geosim import EnergyShapeSolver, Environment, VolumetricRobot, generate

QUICK = EnergyShapeSolver(element="p1", check_stability=False)
SHARP = EnergyShapeSolver(element="p1", check_stability=False, tolerance=1e-11)
APART = Environment(self_contact=False)
RUBBER = geosim.NeoHookean(mu=60e3)


def square_finger(length: float = 0.06, cells: int = 12) -> VolumetricRobot:
    """Square bar of 15 x 15 mm with three cavities along it and rings of thread, of a regular mesh.

    Without the threads it would only swell: a closed tube of incompressible rubber keeps its length under pressure.
    """
    n, w = np.array([cells, 5, 5]), length / cells
    grid = np.stack(np.meshgrid(*(np.arange(k + 1) for k in n), indexing="ij"), axis=-1).reshape(-1, 3)
    vertices = grid * np.array([w, 3e-3, 3e-3])
    place = lambda i: (i[..., 0] * 6 + i[..., 1]) * 6 + i[..., 2]  # noqa: E731
    cubes = np.stack(np.meshgrid(*(np.arange(k) for k in n), indexing="ij"), axis=-1).reshape(-1, 3)
    corner = np.eye(3, dtype=int)
    tets = []
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        steps = np.cumsum([np.zeros(3, dtype=int), *(corner[k] for k in order)], axis=0)
        tets.append(place(cubes[:, None] + steps))
    middle = cubes + 0.5
    inside = np.isin(cubes[:, 1:], (1, 3)).all(axis=1) & (middle[:, 0] > 1) & (middle[:, 0] < cells - 1)
    number = np.where(inside, 1 + (cubes[:, 1] == 3) + 2 * (cubes[:, 2] == 3), 0)
    number[number == 4] = 0  # the fourth column is solid
    ring = 1e-3 * np.array([[1, 1], [14, 1], [14, 14], [1, 14], [1, 1]])
    threads = [
        geosim.Fibre(np.column_stack([np.full(5, x), ring]), 0.1e-3, geosim.LinearElastic(3e9, 0.4))
        for x in w * (np.arange(2 * cells - 1) + 1.0) / 2.0
    ]
    return VolumetricRobot.from_tets(
        vertices,
        np.vstack(tets),
        np.tile(number, 6),
        material="ecoflex-00-30-fang2022",
        fixed=vertices[:, 0] < 1e-9,
        tip=vertices[:, 0] > length - 1e-9,
        name="square finger",
        fibres=threads,
    )


# Name -> robot, largest pressure [Pa].
ROBOTS = {
    "pneunet": (lambda: generate.pneunet(chambers=3).robot("dragon-skin-10-dubied2022", max_edge=20e-3), 7e3),
    "finger": (square_finger, 40e3),
    "gripper": (
        lambda: generate.pneunet(chambers=2, width=16e-3, height=14e-3, wall=1.5e-3).robot(
            "ecoflex-00-30-fang2022", max_edge=20e-3
        ),
        5e3,
    ),
}


def model_of(name: str, folder: Path, accuracy: float = 0.01) -> geosim.ReducedModel:
    """Return a reduced model, from its file where it was made before."""
    path = folder / f"{name}.npz"
    if not path.exists():
        robot, most = ROBOTS[name]
        clock = time.process_time()
        model = geosim.reduce(robot(), (0.0, most), environment=APART, solver=QUICK, accuracy=accuracy, workers=1)
        print(f"  {name}: reduced in {time.process_time() - clock:.0f} CPU seconds", flush=True)
        model.save(path)
    return geosim.ReducedModel.load(path)


def gradients(args: argparse.Namespace) -> None:
    """Gradcheck on three robots: positions, tip and dual measures by controls, material and walls."""
    import geosim.jax
    import geosim.torch
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    print("torch: gradcheck at 1e-5, largest difference over the largest derivative of each output")
    for name, vary, unit in (
        ("pneunet", "pressure", 1e3),
        ("finger", "pressure", 1e3),
        ("gripper", "volume_ratio", 1.0),
    ):
        robot = ROBOTS[name][0]()
        material = next(iter(robot.materials.values()))
        constant = next(n for n in ("mu", "c1") if n in material.field_names())
        given = float(getattr(material, constant))
        designed = robot.design is not None
        wall = float(robot.design.parameters["wall"]) if designed else 1.0

        def function(
            u, shape=geosim.torch.shape, joined=torch.cat, robot=robot, vary=vary, unit=unit, constant=constant, given=given,
            wall=wall, designed=designed,
        ):  # fmt: skip
            dimensions = {"wall": wall * u[-1]} if designed else {}
            controls = unit * u[: robot.chambers]
            found = shape(
                robot, controls, {constant: given * u[robot.chambers]}, dimensions,
                of=("tip", "positions", "chamber_volumes"), vary=vary, environment=APART, solver=SHARP,
            )  # fmt: skip
            tip, places, volumes = found
            return joined([1e3 * tip, 1e3 * places[:: max(1, len(places) // 4)].ravel(), 1e6 * volumes])

        start = [2.0, 1.0, 1.5][: robot.chambers] if unit > 1.0 else [1.15] * robot.chambers
        u = torch.tensor([*start, 1.02, *([1.03] if designed else [])], dtype=torch.float64, requires_grad=True)
        clock = time.process_time()
        function(u)
        forward = time.process_time() - clock
        jacobian = torch.autograd.functional.jacobian(function, u)
        h, columns = 1e-4, []
        for k in range(len(u)):
            step = h * torch.eye(len(u), dtype=torch.float64)[k]
            sides = [function(u.detach() + sign * step) for sign in (1.0, -1.0, 2.0, -2.0)]
            columns.append((8.0 * (sides[0] - sides[1]) - (sides[2] - sides[3])) / (12.0 * h))
        off = (jacobian - torch.stack(columns, dim=1)).abs() / jacobian.abs().max(dim=0).values
        passed = torch.autograd.gradcheck(function, (u,), eps=1e-4, atol=1e-5 * float(jacobian.abs().max()), rtol=1e-5)
        clock = time.process_time()
        (out := function(u)).sum().backward()
        both = time.process_time() - clock
        by_jax = jax.grad(jax.jit(lambda v: function(v, geosim.jax.shape, jax.numpy.concatenate).sum()))(
            jax.numpy.array(u.detach())
        )
        other = float(np.abs(np.asarray(by_jax) - u.grad.numpy()).max() / np.abs(u.grad.numpy()).max())
        print(
            f"  {name:8s} {len(robot.body_tets):5d} tets, {len(u)} numbers, {len(out)} outputs: {float(off.max()):.1e}, "
            f"gradcheck {passed}; forward {forward:.2f}, backward {max(both - forward, 0.0):.2f} CPU s; "
            f"JAX differs by {other:.0e}",
            flush=True,
        )


def reduced(args: argparse.Namespace) -> None:
    """Bounds of reduced models against fresh equilibria."""
    print(f"reduced: {args.fresh} fresh equilibria each")
    for name in args.robot:
        robot, model = ROBOTS[name][0](), model_of(name, args.out)
        u = np.random.default_rng(2026).uniform(*model.box.T, (args.fresh, len(model.box)))
        covered: dict[str, list[bool]] = {"tip": [], "shape": [], "bend_angle": []}
        errors = []
        for start in range(0, len(u), 10):
            problems = [(robot, model.actuation(row), APART) for row in u[start : start + 10]]
            named = [dict(zip(("robot", "actuation", "environment"), p), solver=QUICK) for p in problems]
            for row, result in zip(u[start:], geosim.solve_many(named, 1)):
                said = model(row)
                off = np.linalg.norm(said.positions - result.frames[-1], axis=1)[robot.body_vertices].max()
                tip = np.linalg.norm(said.tip - result.tip[-1])
                errors.append(tip)
                covered["tip"].append(tip <= said.bounds["tip"])
                covered["shape"].append(off <= said.bounds["shape"])
                covered["bend_angle"].append(abs(said.bend_angle - result.bend_angle[-1]) <= said.bounds["bend_angle"])
        clock = time.perf_counter()
        for row in np.tile(u, (20, 1))[:10_000]:
            model(row)
        calls = 10_000 / (time.perf_counter() - clock)
        cpu = time.process_time()
        for row in np.tile(u, (20, 1))[:10_000]:
            model(row)
        calls_cpu = 10_000 / (time.process_time() - cpu)
        shares = ", ".join(f"{k} {100 * np.mean(v):.1f} %" for k, v in covered.items())
        print(
            f"  {name:8s} {len(model.box)} controls, {model.solves} equilibria, {model.rank} shapes, "
            f"degree {model.chaos.degree}; tip moves {1e3 * model.motion:.2f} mm; "
            f"bound {100 * model.bounds['tip'] / model.motion:.3f} % of it "
            f"(any vertex {100 * model.bounds['shape'] / model.motion:.3f} %), "
            f"error in the median {100 * np.median(errors) / model.motion:.4f} %; "
            f"covered: {shares}; {calls:.0f} calls/s by the clock, {calls_cpu:.0f} by CPU time",
            flush=True,
        )


def live(args: argparse.Namespace) -> None:
    """Periods of control loops over models and meshes: a tip follows a circle in its reach."""
    for name in args.robot:
        robot, model = ROBOTS[name][0](), model_of(name, args.out)
        middle, half = model.box.mean(axis=1), 0.5 * np.ptp(model.box, axis=1)
        phases = 2.0 * np.pi * (np.arange(2000)[:, None] / 200.0 + np.arange(len(middle)) / 3.0)
        commands = middle + 0.9 * half * np.sin(phases)
        loop, spent = model.live(lag=0.05), []
        for command in commands:
            clock = time.perf_counter(), time.process_time()
            found = model.solve_for(geosim.Goal.tip(model(command).tip), start=np.clip(loop.controls, *model.box.T))
            solved = time.perf_counter(), time.process_time()
            loop.step(found.controls, 0.02)
            end = time.perf_counter(), time.process_time()
            spent.append([end[0] - solved[0], end[1] - solved[1], end[0] - clock[0], end[1] - clock[1]])
        steps = 1e3 * np.quantile(spent, 0.99, axis=0)
        mesh, seconds = QUICK.live(robot, APART, lag=0.05), []
        for command in commands[:40]:
            clock = time.process_time()
            mesh.step(command, 0.02)
            seconds.append(time.process_time() - clock)
        print(
            f"live {name:8s} model, 99th percentile: step {steps[0]:.3f} ms by the clock, {steps[1]:.3f} ms CPU; with the "
            f"inverse {steps[2]:.2f} and {steps[3]:.2f} ms; mesh of {len(robot.body_tets)} tets: "
            f"{1e3 * np.median(seconds):.0f} ms CPU in the median, "
            f"{1e3 * max(seconds):.0f} ms at most",
            flush=True,
        )


def chains(args: argparse.Namespace) -> None:
    """MuJoCo against 50 fresh equilibria."""
    import mujoco

    for name in args.robot:
        robot, model = ROBOTS[name][0](), model_of(name, args.out)
        path = geosim.write_mjcf(robot, model, args.out / f"{name}.xml", environment=APART, solver=QUICK)
        made = mujoco.MjModel.from_xml_path(str(path))
        stated = float(made.numeric("tip_mismatch").data[0])
        data, off, rest = mujoco.MjData(made), [], []
        clock, steps = 0.0, 0
        for u in np.random.default_rng(99).uniform(*model.box.T, (50, len(model.box))):
            data.ctrl[:] = u
            begin = time.process_time()
            for _ in range(500):
                mujoco.mj_step(made, data)
            clock, steps = clock + time.process_time() - begin, steps + 500
            rest.append(np.abs(data.qvel).max())
            exact = geosim.solve(robot, model.actuation(u), APART, solver=QUICK)
            off.append(np.linalg.norm(data.site("tip").xpos - exact.tip[-1]))
        print(
            f"mujoco {name:8s} {made.opt.timestep * 1e3:g} ms steps, {made.nv} joints, {1e6 * clock / steps:.0f} us CPU a step; "
            f"stated {100 * stated / model.motion:.2f} % of the tip's way (force "
            f"{100 * float(made.numeric('force_mismatch').data[0]):.1f} % in the middle), covers "
            f"{100 * np.mean(np.array(off) <= stated):.0f} % of 50 fresh pressures, "
            f"largest {100 * max(off) / model.motion:.2f} %; "
            f"largest speed at rest {max(rest):.0e}",
            flush=True,
        )


def attached(args: argparse.Namespace) -> None:
    """A tendon finger at five tilts of a mount under two gravities, steps and integrators; two of them touch each other."""
    import mujoco
    from scipy.spatial.transform import Rotation

    clock = time.process_time()
    robot = generate.tendon_finger(joints=1, length=40e-3).robot("ecoflex-00-30-fang2022", max_edge=20e-3)
    model = geosim.reduce(robot, (0.02, 0.12), "cable_tension", solver=QUICK, workers=1)
    path = geosim.write_mjcf(robot, model, args.out / "attached.xml", solver=QUICK)
    made = time.process_time() - clock

    def scene(frames: list[dict[str, list[float]]]) -> mujoco.MjModel:
        spec = mujoco.MjSpec()
        for i, frame in enumerate(frames):
            part = mujoco.MjSpec.from_file(str(path))
            part.option.gravity, part.option.integrator = spec.option.gravity, spec.option.integrator
            spec.attach(part, prefix=f"f{i}_", frame=spec.worldbody.add_frame(**frame))
        return spec.compile()

    turns = Rotation.from_rotvec([[0.0, 0, 0], [0, 1.2, 0], [0, -1.6, 0.3], [2.2, 0, 0], [0.9, 0.9, -0.7]])
    quats = turns.as_quat(scalar_first=True).tolist()
    on_arms, off, sag = scene([{"pos": [float(i), 0, 0], "quat": quat} for i, quat in enumerate(quats)]), [], []
    stated = float(on_arms.numeric("f0_tip_mismatch").data[0])
    clock = time.process_time()
    for g in (9.81, 3.71):
        own = turns.inv().apply([0.0, 0.0, -g])
        tips = [
            geosim.solve(robot, model.actuation([0.07]), Environment(gravity=tuple(v)), solver=QUICK).tip[-1]
            for v in own
        ]
        sag += [float(np.linalg.norm(tip - model([0.07]).tip)) for tip in tips]
        for integrator in (mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtIntegrator.mjINT_EULER):
            for step in (2e-3, 5e-3, 10e-3):
                on_arms.opt.gravity[:], on_arms.opt.timestep, on_arms.opt.integrator = (0, 0, -g), step, integrator
                data = mujoco.MjData(on_arms)
                data.ctrl[:] = 0.07
                mujoco.mj_step(on_arms, data, round(1.5 / step))
                found = turns.inv().apply(np.array([data.site(f"f{i}_tip").xpos - [i, 0, 0] for i in range(5)]))
                off += np.linalg.norm(found - tips, axis=1).tolist()
    print(
        f"attached: {len(off)} cases (5 tilts, 2 gravities, 3 steps, 2 integrators), largest miss "
        f"{1e3 * max(off):.3f} mm, stated {1e3 * stated:.3f} mm, {sum(d <= stated for d in off)} within; "
        f"gravity moves the tip by up to {1e3 * max(sag):.2f} mm; "
        f"made in {made:.0f}, tried in {time.process_time() - clock:.0f} CPU s"
    )
    pair = scene([{"pos": [0, 0, 0]}, {"pos": [0, 0, 12e-3]}])
    data = mujoco.MjData(pair)
    mujoco.mj_forward(pair, data)
    touching = {tuple(sorted(pair.geom(g).name for g in contact.geom)) for contact in data.contact}
    own = sum(one[:2] == other[:2] for one, other in touching)
    print(f"attached: two fingers touch each other in {len(touching) - own} pairs of links, themselves in {own}")


def tendon_arm(cables: int = 3, nodes: int = 17, length: float = 0.15) -> geosim.RodShellRobot:
    """Straight rod along x, clamped, with cables at even angles about it."""
    x = np.zeros((nodes, 3))
    x[:, 0] = np.linspace(0.0, length, nodes)
    led = np.linspace(0.5 * length / (nodes - 1), length, 9)
    angles = 2.0 * np.pi * np.arange(cables) / cables
    paths = [np.stack([led, 0 * led + 8e-3 * np.cos(a), 0 * led + 8e-3 * np.sin(a)], axis=1) for a in angles]
    return geosim.RodShellRobot(
        x, radius=5e-3, rod_material=geosim.LinearElastic(3e6, 0.5, 1000.0), fixed_vertices=[0, 1], fixed_edges=[0],
        cables=[geosim.Cable(path) for path in paths], name="tendon arm",
    )  # fmt: skip


def rods(args: argparse.Namespace) -> None:
    """A tendon arm under gravity: derivatives, twelve goals, a reduced model, MuJoCo."""
    import mujoco

    robot, rng = tendon_arm(), np.random.default_rng(4)
    falls = Environment(gravity=(0.0, 0.0, -9.81), self_contact=False)
    sharp = geosim.RodShellStepper(static=True, tolerance=1e-11, increment_tolerance=1e-8)
    static = geosim.RodShellStepper(static=True)
    bent, along = np.zeros((2, 1, len(robot.bends), 2))
    bent[..., 0], along[0, :6, 1] = 2.0, 1.0

    def tip(modulus: float = 3e6, radius: float = 5e-3, tension: float = 0.1, curvature: float = 0.0) -> geosim.Result:
        changed = replace(
            robot, radius=radius, section=None, rod_material=replace(robot.materials[0], youngs_modulus=modulus)
        )
        act = geosim.CableTensions([[0.3, tension, 0.0]]) & geosim.NaturalShape(
            [1.0], curvature=bent + curvature * along
        )
        return geosim.solve(changed, act, falls, solver=sharp)

    cases = {"curvature": (0.0, 0.05), "tension": (0.1, 2e-3), "modulus": (3e6, 6e3), "radius": (5e-3, 1e-5)}
    of = {"curvature": "curvature", "tension": "cable", "modulus": "material.youngs_modulus", "radius": "radius"}
    for name, (at, h) in cases.items():
        clock = time.process_time()
        found = geosim.sensitivity(tip(), "tip", of[name]).jacobian
        clock = time.process_time() - clock
        if name == "curvature":
            found = np.tensordot(found, along[0], 2)
        elif name == "tension":
            found = found[:, 1]
        f = [tip(**{name: at + k * h}).tip[-1] for k in (-2, -1, 1, 2)]
        exact = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        off = np.abs(found - exact).max() / np.abs(exact).max()
        print(f"rods: tip by {name}: differs by {off:.1e} from differences; {clock:.2f} CPU s", flush=True)
    clock, reached, misses = time.process_time(), 0, []
    for tensions in rng.uniform(0.0, 0.4, (12, 3)):
        goal = geosim.solve(robot, geosim.CableTensions(tensions[None]), falls, solver=static).tip[-1]
        inverse = geosim.solve_for(robot, geosim.Goal.tip(goal), "cable_tension", (0.0, 0.6), falls)
        reached, misses = reached + inverse.reached, [*misses, inverse.distance]
    print(
        f"rods: {reached} of 12 goals reached, to {1e3 * max(misses):.4f} mm; {time.process_time() - clock:.1f} CPU s",
        flush=True,
    )
    clock = time.process_time()
    model = geosim.reduce(robot, (0.0, 0.4), "cable_tension", falls, workers=1)
    made = time.process_time() - clock
    u = rng.uniform(0.0, 0.4, (args.fresh, 3))
    tips = [geosim.solve(robot, model.actuation(row), falls, solver=static).tip[-1] for row in u]
    covered = np.mean(np.linalg.norm(model.tips(u) - tips, axis=1) <= model.bounds["tip"])
    print(
        f"rods: reduced of {model.solves} equilibria in {made:.1f} CPU s; bound "
        f"{100 * model.bounds['tip'] / model.motion:.3f} % of {1e3 * model.motion:.1f} mm "
        f"covers {100 * covered:.1f} % of {args.fresh} fresh equilibria",
        flush=True,
    )
    clock = time.process_time()
    path = geosim.write_mjcf(robot, model, args.out / "tendon-arm.xml", environment=falls)
    chain = mujoco.MjModel.from_xml_path(str(path))
    made, off, data = time.process_time() - clock, [], mujoco.MjData(chain)
    for row, exact in zip(u[:20], tips):
        data.ctrl[:] = row
        mujoco.mj_step(chain, data, 1500)
        off.append(float(np.linalg.norm(data.site("tip").xpos - exact)))
    stated = float(chain.numeric("tip_mismatch").data[0])
    print(
        f"rods: MuJoCo under gravity, {len(off)} fresh tensions: largest miss {1e3 * max(off):.3f} mm, stated "
        f"{1e3 * stated:.3f} mm; file in {made:.0f} CPU s",
        flush=True,
    )


def stages(args: argparse.Namespace) -> None:
    """What the validators of USD say of results."""
    from pxr import Usd, UsdValidation

    known = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    for name in args.robot:
        robot, most = ROBOTS[name][0](), ROBOTS[name][1]
        act = geosim.Inflation(pressure=most * np.linspace(0.1, 1.0, 5)[:, None] * np.ones(robot.chambers))
        result = geosim.solve(robot, act, APART, solver=QUICK)
        for suffix in (".usda", ".usdc"):
            path = result.save(args.out / f"{name}{suffix}")
            errors = UsdValidation.ValidationContext(known).Validate(Usd.Stage.Open(str(path)))
            print(
                f"usd {name:8s} {path.name}: {path.stat().st_size / 1e3:.0f} kB, {len(result.times)} frames, {len(known)} "
                f"validators, {len(errors)} errors",
                flush=True,
            )


def main() -> None:
    """Run what is asked for."""
    sections = {"torch": gradients, "reduced": reduced, "live": live, "mujoco": chains, "usd": stages}
    sections |= {"attached": attached, "rods": rods}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=", ".join(sections))
    parser.add_argument("--fresh", type=int, default=500)
    parser.add_argument("--robot", nargs="*", default=list(ROBOTS))
    parser.add_argument("--out", type=Path, default=Path("bridges-models"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.sections or sections:
        sections[name](args)


if __name__ == "__main__":
    main()
