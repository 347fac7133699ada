"""The experiments of section VI of [Gasoto2019] in simulation: numbers printed, plots written.

python benchmarks/snake_validation.py [--out DIR] [--sections 13] [--seconds 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from geosim.model.actuation import UndulatoryGait
from geosim.model.environment import Environment, Obstacle
from geosim.snake.bench import bend_curve
from geosim.snake.snake import make_snake
from geosim.snake.stepper import MultibodyStepper
from geosim.snake.valves import PSI, Valves

GROUND = Environment(gravity=(0, 0, -9.81), obstacles=[Obstacle.plane((0, 0, 0), (0, 0, 1), friction=0.2)])


def bending(ax, sections):
    """Bend angle against pressure, -10 .. 10 psi, with the line up to 8 psi."""
    pressures = np.arange(-10, 11) * PSI
    curve = bend_curve(pressures, sections=sections)
    slope, r2 = curve.line(8 * PSI)
    print(
        f"bend angle: {np.degrees(slope) * PSI:.3f} degrees a psi, R^2 = {r2:.6f} to 8 psi; asymmetry "
        f"{np.degrees(abs(curve.angles + curve.angles[::-1]).max()):.1e} degrees"
    )
    ax.plot(pressures / PSI, np.degrees(curve.angles), "o", label="link at rest")
    ax.plot(pressures / PSI, np.degrees(slope * pressures), "--", label=f"line to 8 psi, R² = {r2:.5f}")
    ax.set(xlabel="pressure [psi]", ylabel="bend angle [degrees]")
    ax.legend()


def response(ax):
    """Step response of the valves: inflation to 8 psi and deflation."""
    valves, t = Valves(), np.linspace(0, 0.6, 200)
    ax.plot(t, [valves.inflate(0.0, 8 * PSI, s) / PSI for s in t], label="inflation")
    ax.plot(t, [valves.deflate(8 * PSI, 0.0, s) / PSI for s in t], label="deflation")
    ax.set(xlabel="time [s]", ylabel="pressure [psi]")
    ax.legend()


def path(seconds, sections, offset=0.0, valves=None, **options):
    """Centre of mass of a gait, (frames, 3)."""
    robot = make_snake(sections=sections, **options)
    stepper = MultibodyStepper(valves=Valves() if valves is None else valves)
    state = stepper.start(robot, GROUND)
    places = [state.center_of_mass]
    for command in stepper.commands(robot, UndulatoryGait(5 * PSI, 0.5, 1.5, offset, seconds)):
        state, _ = stepper.step(state, command)
        places.append(state.center_of_mass)
    return np.array(places)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("geosim-snake-validation"))
    parser.add_argument("--sections", type=int, default=13)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 2, figsize=(12, 9))
    bending(axes[0, 0], options.sections)
    response(axes[0, 1])
    cases = {
        axes[1, 0]: {
            "no latency": {"valves": Valves(law="ideal")},
            "valves and 0.1 s delay": {"valves": Valves(delay=0.1)},
            "welded wheels": {"wheels": "locked"},
        },
        axes[1, 1]: {f"phi = {phi:+.2f}": {"offset": phi} for phi in (-0.25, 0.0, 0.25)},
    }
    for ax, runs in cases.items():
        for label, extra in runs.items():
            places = path(options.seconds, options.sections, **extra)
            last = np.linalg.norm(places[-1, :2] - places[-121, :2])
            print(
                f"{label:24s} end ({places[-1, 0] - places[0, 0]:+.4f}, {places[-1, 1] - places[0, 1]:+.4f}) m, last "
                f"period {1e3 * last:.2f} mm",
                flush=True,
            )
            ax.plot(places[:, 0], places[:, 1], label=label)
        ax.set(xlabel="x [m]", ylabel="y [m]")
        ax.legend()
    figure.tight_layout()
    figure.savefig(options.out / "snake.png", dpi=110)


if __name__ == "__main__":
    main()
