"""How accurate the energy solver is: every number with its reference.

    python benchmarks/accuracy.py [sphere finger richardson units control beam pneunet ...]

Reference data is found through GEOSIM_REFERENCE_DATA; without arguments every section runs.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from shapes import shell, sphere_pressure

import geosim

DATA = Path(os.environ.get("GEOSIM_REFERENCE_DATA", "reference-data"))
MOONEY = geosim.MooneyRivlin(c1=41.8e3, c2=10.6e3)


def case(name, **more):
    """Robot of a reference case (points in mm)."""
    d = np.load(DATA / "cases" / f"{name}.npz")
    options = {
        "material": MOONEY,
        "fixed": d["fixed"] if len(d["fixed"]) else None,
        "tip": d["tip"] if len(d["tip"]) else None,
    }
    return geosim.VolumetricRobot.from_tets(d["points"] * 1e-3, d["tets"], d["region"], **{**options, **more})


def line(*parts):
    print("  ".join(str(p) for p in parts), flush=True)


def effort(result):
    return (
        f"{len(result.trace)} Newton, {sum(r['factorisations'] for r in result.trace)} factorisations, "
        f"{sum(sum(r['seconds'].values()) for r in result.trace):.1f} s"
    )


def tip_displacement(result, frame=-1):
    robot = result.robot
    return result.tip[frame] - robot.tip_weights @ robot.vertices[robot.tip]


def sphere():
    line("Thick sphere (case sphere), P2, against the exact pressure for the meshed volumes")
    robot = case("sphere")
    cubed = 1 + robot.body_volume / robot.chamber_volumes[0]
    ratios = [1.5, 2.0, 3.0, 5.0, 8.0]
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=ratios))
    for i, ratio in enumerate(ratios):
        exact = sphere_pressure(41.8e3, 10.6e3, ratio, cubed)
        line(
            f"  V/V0 = {ratio}: {result.chamber_pressures[i, 0] / 1e3:.3f} kPa, exact {exact / 1e3:.3f}, error "
            f"{100 * (result.chamber_pressures[i, 0] / exact - 1):+.3f} %, body volume {result.body_volume_ratio[i] - 1:+.1e}"
        )
    from geosim.geometry.topology import tet_volumes

    weight = tet_volumes(robot.vertices, robot.body_tets)[:, None]
    x = robot.vertices[robot.body_tets].mean(axis=1)
    u = result.frames[-1][robot.body_tets].mean(axis=1) - x
    line(
        f"  drift of the centroid {np.linalg.norm((weight * u).sum(axis=0) / weight.sum()) * 1e6:.3f} um, rotation "
        f"{np.degrees(np.linalg.norm((weight * np.cross(x, u)).sum(axis=0)) / (weight * x**2).sum()):.2e} deg, {effort(result)}"
    )
    errors = []
    for level, layers in ((1, 2), (2, 4), (3, 6)):
        vertices, tets, regions = shell(0.01, 0.02, level, layers)
        fine = geosim.VolumetricRobot.from_tets(vertices, tets, regions, material=MOONEY, fixed=None)
        solved = geosim.solve(fine, geosim.Inflation(volume_ratio=2.0))
        skin = np.linalg.norm(vertices, axis=1) > 0.02 * (1 - 1e-9)
        growth = np.linalg.norm(solved.frames[0][skin], axis=1).mean() - 0.02
        errors.append(
            (
                growth / (np.cbrt(9e-6) - 0.02) - 1,
                solved.chamber_pressures[0, 0] / sphere_pressure(41.8e3, 10.6e3, 2.0, 8.0) - 1,
            )
        )
        line(
            f"  icosphere level {level}: displacement error {100 * errors[-1][0]:+.3f} %, pressure {100 * errors[-1][1]:+.4f} %"
        )
    e = np.abs(np.array(errors))
    line(
        f"  orders: displacement {np.log2(e[:-1, 0] / e[1:, 0]).round(2)}, pressure {np.log2(e[:-1, 1] / e[1:, 1]).round(2)}"
    )
    mu = 50e3
    balloon = case("sphere", material=geosim.NeoHookean(mu=mu))
    full = geosim.EnergyShapeSolver(invariants="full")  # nearer than the isochoric form on so coarse a sphere
    by_volume = geosim.solve(balloon, geosim.Inflation(volume_ratio=[4.0, 6.11, 6.6]), solver=full)
    line(f"  neo-Hookean: p/mu at V/V0 = 4, 6.11, 6.6: {(by_volume.chamber_pressures[:, 0] / mu).round(4)}")
    stopped = geosim.solve(
        balloon, geosim.Inflation(pressure=[0.6 * mu, 0.79 * mu, 0.9 * mu]), solver=full, throw=False
    )
    line(f"  pressure control: {stopped.status.name}, {len(stopped.frames)} frames kept, {stopped.message}")


def finger():
    ref = np.load(DATA / "fem" / "finger_simple_8k_p2p1.npz", allow_pickle=True)
    robot = case("finger_simple_8k")
    ratios = [1.1, 1.5, 2.0, 3.0, 5.0]
    body = robot.body_vertices
    for element in ("p2", "p1"):
        line(f"finger_simple_8k, {element}, against the reference finite elements")
        form = "full" if element == "p2" else "isochoric"  # that of the reference
        solver = geosim.EnergyShapeSolver(element=element, invariants=form)
        result = geosim.solve(robot, geosim.Inflation(volume_ratio=ratios), solver=solver)
        for i, ratio in enumerate(ratios):
            j = int(np.argmin(np.abs(ref["rows"][:, 0] - ratio)))
            u = (result.frames[i] - robot.vertices)[body]
            v = ref["positions"][j][body] * 1e-3 - robot.vertices[body]
            off = result.chamber_pressures[i, 0] / ref["rows"][j, 1] / 1e6 - 1
            line(
                f"  V/V0 = {ratio}: ||u - u_ref||/||u_ref|| {100 * np.linalg.norm(u - v) / np.linalg.norm(v):.3f} %, pressure "
                f"{result.chamber_pressures[i, 0] / 1e3:.3f} kPa ({100 * off:+.3f} %)"
                f", body volume {result.body_volume_ratio[i] - 1:+.1e}"
            )
        line(f"  {effort(result)}")


def control():
    line("Pressure control lands on the states of volume control (finger_simple_8k, P2)")
    robot = case("finger_simple_8k")
    by_volume = geosim.solve(robot, geosim.Inflation(volume_ratio=[1.1, 1.5, 2.0, 3.0]))
    by_pressure = geosim.solve(robot, geosim.Inflation(pressure=by_volume.chamber_pressures))
    line(
        f"  largest difference of V/V0 {np.abs(by_pressure.volume_ratios - by_volume.volume_ratios).max():.1e}, of position "
        f"{np.abs(by_pressure.frames - by_volume.frames).max() * 1e6:.3f} um, {effort(by_pressure)}"
    )


def richardson():
    line("Finger 100 x 20 x 20 mm to V/V0 = 2: the reference meshes and our own; P2 displacement of the tip, pressure")
    folder = Path(geosim.__file__).parent / "data" / "meshes" / "finger"
    runs = []
    for label, robot in [("case 8k", case("finger_simple_8k")), ("case 30k", case("finger_simple_30k"))] + [
        (
            f"own, max_edge {edge} mm",
            geosim.VolumetricRobot.from_surfaces(
                folder / "body.stl",
                [folder / "chamber.stl"],
                units="mm",
                material=MOONEY,
                max_edge=edge * 1e-3,
                fixed=geosim.Select.plane("x", below=1e-6),
                tip=geosim.Select.plane("x", above=0.1 - 1e-6),
            ),
        )
        for edge in (6.0, 4.5, 3.5)
    ]:
        for invariants in ("full", "isochoric"):
            result = geosim.solve(
                robot, geosim.Inflation(volume_ratio=2.0), solver=geosim.EnergyShapeSolver(invariants=invariants)
            )
            u = np.linalg.norm(tip_displacement(result))
            size = np.cbrt(robot.body_volume / len(robot.body_tets))
            runs.append((invariants, size, u, result.chamber_pressures[-1, 0]))
            line(
                f"  {label:22s} {invariants:9s} {len(robot.body_tets):6d} body tets: tip {u * 1e3:.4f} mm, "
                f"{result.chamber_pressures[-1, 0] / 1e3:.3f} kPa, {effort(result)}"
            )
    for invariants in ("full", "isochoric"):
        h, u, p = np.array([r[1:] for r in runs if r[0] == invariants]).T
        # the chamber's sharp edges limit the order: fit value = limit + c h^q over all meshes
        from scipy.optimize import least_squares

        for name, values, unit in (("tip", u * 1e3, "mm"), ("pressure", p / 1e3, "kPa")):
            fit = least_squares(
                lambda q, h=h, values=values: q[0] + q[1] * (h / h.max()) ** np.clip(q[2], 0.5, 4) - values,
                [values[-1], values[0] - values[-1], 1.5],
            )
            line(f"  Richardson, {invariants}: {name} -> {fit.x[0]:.3f} {unit} (order {np.clip(fit.x[2], 0.5, 4):.2f})")


def units():
    line("One finger in mm and m, at 1 kPa and 1 GPa: the same iterations, the same result")
    d = np.load(DATA / "cases" / "finger_simple_8k.npz")
    first = None
    for scale, modulus in ((1e-3, 40e3), (1.0, 40e3), (1e-3, 1e3), (1e-3, 1e9), (1.0, 1e9)):
        robot = geosim.VolumetricRobot.from_tets(
            d["points"] * scale,
            d["tets"],
            d["region"],
            fixed=d["fixed"],
            tip=d["tip"],
            material=geosim.MooneyRivlin(c1=0.4 * modulus, c2=0.1 * modulus),
            allow_any_size=True,
        )
        result = geosim.solve(robot, geosim.Inflation(volume_ratio=2.0))
        value = result.frames[-1] / scale, result.chamber_pressures[-1, 0] / modulus
        first = first or value
        line(
            f"  edge unit {scale:g} m, mu {modulus:g} Pa: {len(result.trace)} iterations, positions differ by "
            f"{np.abs(value[0] - first[0]).max() / 100:.1e} of the length, pressure by {abs(value[1] / first[1] - 1):.1e}"
        )


def beam():
    line("Measured Dragon Skin 10 beam: gravity + 0.51 N on the top edge of the free end")
    folder = DATA / "robots" / "beam"
    import ezc3d

    c3d = ezc3d.c3d(str(folder / "beam_load52_V2_a.c3d"))
    points = c3d["data"]["points"][:3].transpose(2, 1, 0)
    unit = {"m": 1.0, "mm": 1e-3}[c3d["parameters"]["POINT"]["UNITS"]["value"][0]]
    points = points * unit
    start, end = np.nanmean(points[:20], axis=0), np.nanmean(points[-50:], axis=0)
    moved = np.linalg.norm(end - start, axis=1)
    tips = np.argsort(moved)[-3:]
    measured = np.linalg.norm((end - start)[tips].mean(axis=0))
    line(
        f"  markers that move: {tips.tolist()}, measured norm of the mean displacement {measured * 1e3:.2f} mm, direction "
        f"{((end - start)[tips].mean(axis=0) / measured).round(3)}"
    )
    import trimesh

    surface = trimesh.load(folder / "beam.stl")
    lower, upper = surface.bounds
    line(f"  beam.stl spans {lower.tolist()} .. {upper.tolist()} mm")
    material = geosim.NeoHookean(mu=88.0e3, bulk_modulus=44e6, density=1070.0)
    for edge in (10.0, 7.0, 5.0):
        robot = geosim.VolumetricRobot.from_surfaces(
            folder / "beam.stl",
            material=material,
            units="mm",
            max_edge=edge * 1e-3,
            fixed=geosim.Select.plane("z", below=lower[2] * 1e-3 + 1e-6),
            tip=geosim.Select.plane("z", above=upper[2] * 1e-3 - 1e-6),
        )
        top = geosim.Select.plane("z", above=upper[2] * 1e-3 - 1e-6) & geosim.Select.plane(
            "x", above=upper[0] * 1e-3 - 1e-6
        )
        held_straight = robot.vertices
        result = geosim.solve(
            robot,
            geosim.Passive(),
            geosim.Environment(gravity=(-9.81, 0, 0), loads=geosim.Load.force(top, (-0.51012, 0, 0))),
        )
        weight_only = geosim.solve(robot, geosim.Passive(), geosim.Environment(gravity=(-9.81, 0, 0)))
        u = result.tip[-1] - robot.tip_weights @ held_straight[robot.tip]
        line(
            f"  max_edge {edge} mm, {len(robot.body_tets)} tets: tip {np.linalg.norm(u) * 1e3:.3f} mm "
            f"({100 * (np.linalg.norm(u) / measured - 1):+.2f} % of the measured), gravity alone "
            f"{np.linalg.norm(tip_displacement(weight_only)) * 1e3:.2f} mm, {effort(result)}"
        )


def pneunet():
    line("pneunet case (46k body tets, P2) to V/V0 = 1.5")
    robot = case("pneunet")
    clock = time.perf_counter()
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.5))
    failed = len({r["share"] for r in result.trace}) - 1
    line(
        f"  {result.status.name}: {effort(result)}, whole {time.perf_counter() - clock:.0f} s, {failed} increments beyond one, "
        f"pressure {result.chamber_pressures[-1, 0] / 1e3:.3f} kPa, tip {(tip_displacement(result) * 1e3).round(2)} mm, "
        f"crossings {result.crossings[-1]:.0f}, inverted {result.inverted_elements[-1]:.0f}, body volume "
        f"{result.body_volume_ratio[-1] - 1:+.1e}"
    )
    result.plot("pneunet-case.png")


def public():
    line("Public PneuNet finger (pneunet_lgpl) from its two STL files to V/V0 = 1.5")
    folder = DATA / "meshes" / "pneunet_lgpl"
    robot = geosim.VolumetricRobot.from_surfaces(
        folder / "pneunetCut.stl",
        [folder / "pneunetCavityCut.stl"],
        material=MOONEY,
        units="mm",
        max_edge=4.5e-3,
        fixed=geosim.Select.plane("x", above=-1e-6),
        tip=geosim.Select.plane("x", below=-0.115 + 1e-3),
    )
    line(
        f"  {len(robot.body_tets)} body tets, body {robot.body_volume * 1e9:.1f} mm^3, chamber "
        f"{robot.chamber_volumes[0] * 1e9:.1f} mm^3"
    )
    result = geosim.solve(robot, geosim.Inflation(volume_ratio=1.5), throw=False)
    line(
        f"  {result.status.name}: {effort(result)}, {result.chamber_pressures[-1, 0] / 1e3:.3f} kPa, tip "
        f"{(tip_displacement(result) * 1e3).round(2)} mm, crossings {result.crossings[-1]:.0f}"
    )
    result.plot("pneunet-public.png")


SECTIONS = {f.__name__: f for f in (sphere, finger, control, richardson, units, beam, pneunet, public)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
