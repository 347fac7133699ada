"""A soft link of the snake bending under its weight: geosim beside a flex of MuJoCo on the same tets, in one run.

    pip install mujoco;  python benchmarks/snake_mujoco.py [--seconds 1] [--sections 13]

One end of the link is held. MuJoCo takes the elasticity of a flex implicitly with integrator="discrete", by an iteration
that may stop short, which it warns of; two steps are shown, found by halving from 1/120 s: the largest at which the
motion stays finite, and the largest without a warning. geosim takes two converged steps in a 60 Hz frame, as for the
snake. Both run on one thread; the sag of the free end says whether they simulate the same thing.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402

from geosim.material.materials import LinearElastic  # noqa: E402
from geosim.model.environment import Environment  # noqa: E402
from geosim.snake.builder import MultibodyBuilder  # noqa: E402
from geosim.snake.snake import link_mesh  # noqa: E402
from geosim.snake.stepper import MultibodyStepper  # noqa: E402

MATERIAL = LinearElastic(66e3, 0.45, 1070.0)
GRAVITY = (0.0, 0.0, -9.81)
XML = """
<mujoco>
  <option timestep="{step}" integrator="{integrator}" gravity="0 0 -9.81"/>
  <size memory="200M"/>
  <worldbody>
    <flexcomp name="link" type="direct" dim="3" mass="{mass}" radius="0.0005"
      point="{points}" element="{tets}">
      <elasticity young="{young}" poisson="{poisson}" damping="{damping}"/>
      <contact selfcollide="none"/>
      <pin id="{pins}"/>
    </flexcomp>
  </worldbody>
</mujoco>
"""


def words(values):
    return " ".join(f"{v:.9g}" for v in np.asarray(values).ravel())


def sag_geosim(vertices, tets, seconds):
    """Seconds of processor time a simulated second, sag of the free end [m], largest residual [N]."""
    build = MultibodyBuilder("link")
    ids = build.add_tets(vertices, tets, MATERIAL)
    build.fix_particles(ids[vertices[:, 0] == 0.0])
    stepper = MultibodyStepper.real_time()
    state = stepper.start(build.build(), Environment(gravity=GRAVITY))
    stepper.step(state)  # compile
    spent, residual, frames = 0.0, 0.0, round(60 * seconds)
    for _ in range(frames):
        begin = time.process_time()
        state, _ = stepper.step(state)
        spent += time.process_time() - begin
        residual = max(residual, state.residual)
    tip = vertices[:, 0] == vertices[:, 0].max()
    return spent / seconds, float((vertices - state.positions)[tip, 2].mean()), residual


def sag_mujoco(vertices, tets, seconds, step, integrator, damping):
    """Seconds of processor time a simulated second, the sag [m], warnings; None where it does not stay finite."""
    import mujoco

    volume = np.linalg.det(vertices[tets[:, 1:]] - vertices[tets[:, :1]]).sum() / 6.0
    text = XML.format(
        step=step,
        integrator=integrator,
        damping=damping,
        mass=MATERIAL.density * volume,
        young=MATERIAL.youngs_modulus,
        poisson=MATERIAL.poisson_ratio,
        points=words(vertices),
        tets=words(tets),
        pins=words(np.flatnonzero(vertices[:, 0] == 0.0)),
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    start = data.flexvert_xpos.copy()
    size = np.ptp(start, axis=0).max()
    begin = time.process_time()
    for k in range(round(seconds / step)):
        mujoco.mj_step(model, data)
        if k % 10 == 0 and not abs(data.flexvert_xpos - start).max() < 3 * size:
            return None
    spent = time.process_time() - begin
    unstable = data.warning.number[mujoco.mjtWarning.mjWARN_BADQACC] > 0
    if unstable or not np.isfinite(data.flexvert_xpos).all():
        return None
    tip = start[:, 0] == start[:, 0].max()
    return spent / seconds, float((start - data.flexvert_xpos)[tip, 2].mean()), int(data.warning.number.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--sections", type=int, default=13)
    parser.add_argument("--damping", type=float, default=0.01, help="of the flex [s]")
    options = parser.parse_args()
    try:
        import mujoco
    except ImportError:
        raise SystemExit("MuJoCo is not installed: pip install mujoco") from None
    vertices, tets, _ = link_mesh(0.1, 0.04, 0.03, options.sections)
    own, sag, residual = sag_geosim(vertices, tets, options.seconds)
    print(
        f"{len(vertices)} particles, {len(tets)} tets, one end held, {options.seconds:g} s; MuJoCo {mujoco.__version__}"
    )
    print(
        f"geosim, 120 implicit steps a second: {1e3 * own / 60:8.2f} ms a 60 Hz frame, sag {1e3 * sag:7.3f} mm, "
        f"largest residual {residual:.1e} N",
        flush=True,
    )
    step, warned = 1 / 120, None
    while step > 1e-5 and warned != 0:
        found = sag_mujoco(vertices, tets, options.seconds, step, "discrete", options.damping)
        if found is not None and (warned is None or found[2] == 0):
            spent, other, warned = found
            print(
                f"MuJoCo flex, step {1e6 * step:6.0f} us, {warned} warnings: {1e3 * spent / 60:8.2f} ms a 60 Hz frame, sag "
                f"{1e3 * other:7.3f} mm; geosim takes 1/{spent / own:.1f} of its time",
                flush=True,
            )
        step *= 0.5


if __name__ == "__main__":
    main()
