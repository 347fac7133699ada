"""Milliseconds per 60 Hz frame of the soft snake on one core, beside Table II of [Gasoto2019] and at a measured error.

    python benchmarks/snake_speed.py [--frames 600] [--snakes 1,2,4,10] [--link] [--budgets] [--routes 4] [--gait 60] [--gaits]

The error of a budget is that of single substeps of its own run against the same substep converged to 1e-8 N, contact
included: |q - q*|_M / |q* - q_start|_M with the mass norm over particles and bodies.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402
from dataclasses import replace  # noqa: E402

import numpy as np  # noqa: E402

from geosim.model.actuation import UndulatoryGait  # noqa: E402
from geosim.model.environment import Environment, Obstacle  # noqa: E402
from geosim.snake.snake import make_snake  # noqa: E402
from geosim.snake.stepper import MultibodyStepper  # noqa: E402
from geosim.snake.valves import PSI  # noqa: E402

TABLE_II = {0: 5.70, 1: 11.63, 2: 26.47, 3: 34.23, 4: 46.53, 5: 56.00, 10: 105.88}  # ms; 0 = one link
GROUND = Environment(gravity=(0, 0, -9.81), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.2)])


FRAME = 1e3 / 60.0  # ms


def gait(seconds, psi=6.0, frequency=0.5):
    return UndulatoryGait(psi * PSI, frequency, 1.5, 0.0, seconds)


def places(state):
    """Places of particles and body centres (k, 3) with their masses (k,)."""
    robot = state.system.robot
    return np.vstack([state.positions, state.body_positions]), np.concatenate(
        [robot.particle_masses, robot.body_masses]
    )


def substep_errors(stepper, state, command):
    """Errors of the two substeps of a frame, each from the budget's own start, against the converged ones."""
    exact = replace(stepper, route="primal", tolerance=1e-8, max_iterations=100, forcing=1e-6, single=False)
    h = stepper.dt / stepper.substeps
    state = replace(state, pending=(*state.pending, (state.time, stepper._targets(state, command))))
    starts, answers = [], []
    for s in range(stepper.substeps):
        starts.append(stepper._inflate(state, h))
        state, _ = stepper._substep(stepper._problem(starts[-1], h, s), starts[-1])
        answers.append(state)
    errors = []
    for s, (start, answer) in enumerate(zip(starts, answers)):
        best, _ = exact._substep(exact._problem(start, h, s), start)
        (q, m), (star, _), (zero, _) = places(answer), places(best), places(start)
        norm = lambda d, m=m: np.sqrt((m * (d**2).sum(1)).sum())  # noqa: E731
        errors.append((norm(q - star) / norm(star - zero), best.residual))
    return errors


def run(robot, stepper, frames, sample=0, work=None, **wave):
    """Seconds a frame, residuals, and the errors of every `sample`-th frame; iterations and factorisations go to `work`."""
    state = stepper.start(robot, GROUND)
    seconds, residuals, errors, reference = [], [], [], []
    for k, command in enumerate(stepper.commands(robot, gait(frames / 60.0, **wave))):
        if sample and k % sample == sample - 1:
            for error, residual in substep_errors(stepper, state, command):
                errors.append(error)
                reference.append(residual)
        begin = time.process_time()
        state, report = stepper.step(state, command)
        seconds.append(time.process_time() - begin)
        residuals.append(state.residual)
        if work is not None:
            work.append((len(report.records), sum(record["factored"] for record in report.records)))
    return np.array(seconds), np.array(residuals), np.array(errors), max(reference, default=0.0), state


def row(label, seconds, residuals, errors, reference=0.0, paper=None):
    ms = 1e3 * seconds[3:]
    text = f"{label:34s} {np.median(ms):7.1f} {np.percentile(ms, 95):7.1f}"
    text += f"   {residuals.max():.1e} N" if len(residuals) else ""
    if len(errors):
        text += f"   error median {100 * np.median(errors):6.3f} %  95 % {100 * np.percentile(errors, 95):6.3f} %"
        text += f" (against {reference:.0e} N)"
    if paper is not None:
        text += f"   Table II {paper:.2f} ms (GPU)  ratio {np.median(ms) / paper:.2f}"
    print(text, flush=True)


def routes(sections):
    """One frame of the gait after half a second by both routes, each from the same state."""
    robot = make_snake(sections=sections)
    primal = MultibodyStepper(tolerance=1e-8)
    dual = MultibodyStepper(route="dual")
    state = primal.start(robot, GROUND)
    commands = primal.commands(robot, gait(1.0))
    for command in commands[:30]:
        state, _ = primal.step(state, command)
    ends = [stepper.step(state, commands[30])[0] for stepper in (primal, dual)]
    (a, m), (b, _), (start, _) = (places(s) for s in (*ends, state))
    norm = lambda d: np.sqrt((m * (d**2).sum(1)).sum())  # noqa: E731
    print(
        f"primal (to {ends[0].residual:.0e} N) and dual (to {ends[1].residual:.0e} N), snake of 4 links of {sections} "
        f"sections: {100 * norm(a - b) / norm(a - start):.3f} % of the frame apart, at most {1e6 * abs(a - b).max():.2f} um"
    )


def gaits(frames):
    """The budget of a frame at every gait: times, the share over a frame of 60 Hz, what is left of the forces."""
    robot, stepper = make_snake(), MultibodyStepper.real_time()
    print(
        f"at most {stepper.frame_iterations} iterations and {stepper.frame_factorisations} factorisations a frame; their means:"
    )
    print(
        f"gait            median    95 %     max   over {FRAME:.1f} ms   above {stepper.tolerance:g} N   residual median"
        f"    95 %     max   iterations   factorisations   (ms of processor time; N)"
    )
    for psi in (4.0, 6.0, 8.0):
        for frequency in (0.5, 0.8, 1.0, 1.5):
            work: list[tuple[int, int]] = []
            seconds, residuals, *_ = run(robot, stepper, frames, work=work, psi=psi, frequency=frequency)
            ms, left = 1e3 * seconds[3:], residuals[3:]
            print(
                f"{psi:g} psi {frequency:3.1f} Hz  {np.median(ms):8.1f}{np.percentile(ms, 95):8.1f}{ms.max():8.1f}"
                f"{100 * (ms > FRAME).mean():12.1f} %{100 * (left > stepper.tolerance).mean():13.1f} %"
                f"{np.median(left):18.3f}{np.percentile(left, 95):8.3f}{left.max():8.3f}"
                f"{np.mean(work, axis=0)[0]:13.1f}{np.mean(work, axis=0)[1]:17.2f}",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--snakes", default="1,2,4,10")
    parser.add_argument("--link", action="store_true", help="one link alone as well")
    parser.add_argument("--budgets", action="store_true", help="the table budget -> error")
    parser.add_argument("--routes", type=int, default=0, help="sections of a link: primal against dual, converged")
    parser.add_argument("--gait", type=float, default=0.0, help="seconds of a converged gait: residual and drift")
    parser.add_argument(
        "--gaits", action="store_true", help="the real-time budget at 4 .. 8 psi and 0.5 .. 1.5 Hz, alone"
    )
    parser.add_argument("--sample", type=int, default=20)
    options = parser.parse_args()
    print(f"{'':34s}  median    95 %   worst residual   (ms of processor time a 60 Hz frame, one thread)")
    run(make_snake(links=1, sections=4), MultibodyStepper(), 5)  # compile
    if options.gaits:
        return gaits(options.frames)
    if options.budgets:
        robot = make_snake()
        jacobi = {"route": "dual", "preconditioner": "jacobi", "max_iterations": 4}
        for label, extra in {
            "direct, 1 Newton": {"iterations": 1},
            "direct, 2 Newton": {"iterations": 2},
            "direct, 3 Newton": {"iterations": 3},
            "direct, to 0.1 N (real time)": {"tolerance": 0.1, "single": True},
            "direct, to 1e-2 N": {"tolerance": 1e-2},
            "direct, to 1e-4 N (default)": {},
            "direct, to 1e-6 N": {"tolerance": 1e-6},
            "PCR, 4 x 20 (the paper's)": jacobi | {"linear_iterations": 20},
            "PCR, 4 x 400": jacobi | {"linear_iterations": 400},
            "GMRES on the primal factor": {"route": "dual"},
        }.items():
            dual = extra.get("route") == "dual"
            frames = min(options.frames, 12 if "preconditioner" in extra else 120)
            stepper = MultibodyStepper(**extra)
            seconds, residuals, errors, reference, _ = run(robot, stepper, frames, 4 if dual else 10)
            row(label, seconds, residuals, errors, reference)
    if options.routes:
        routes(options.routes)
    cases = [int(n) for n in options.snakes.split(",") if n]
    for count in ([0] if options.link else []) + cases:
        robot = make_snake(links=1) if count == 0 else make_snake(count=count)
        frames = max(options.frames // max(count, 1), 60)
        seconds, residuals, errors, reference, _ = run(robot, MultibodyStepper.real_time(), frames, options.sample)
        row(
            f"{'one link' if count == 0 else f'{count} snakes'}, real time",
            seconds,
            residuals,
            errors,
            reference,
            TABLE_II.get(count),
        )
    if options.gait:
        seconds, residuals, _, _, state = run(make_snake(), MultibodyStepper(), round(60 * options.gait))
        row(f"converged, {options.gait:g} s of gait", seconds, residuals, ())
        print(
            f"    frames above the tolerance of 1e-4 N: {(residuals > 1e-4).sum()} of {len(residuals)}; "
            f"joints open by {1e3 * state.constraint_drift():.4f} mm at the end"
        )


if __name__ == "__main__":
    main()
