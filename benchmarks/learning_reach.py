"""Train `geosim/RodReach-v0` by the evolution strategy CMA-ES of the package `cmaes` and test it, or plan its motions.

    pip install cmaes
    python benchmarks/learning_reach.py [--seconds 60] [--workers 2] [--seed 0]
    python benchmarks/learning_reach.py --plans 4 [--rows 10] [--seed 0]

The policy bends all sections alike: it adds to their natural curvatures what is linear in the horizontal way from the tip to the
goal, and more or less of what they have by the vertical one: 5 numbers that begin at 0. A candidate is worth its mean return over
goals that are new in every generation; the last mean is tested on 80 goals that none has seen. Prints generations, the share of
goals reached and the steps of environments by CPU second.

`--plans` goals are reached without a policy. `--rows` rows of six curvatures, evenly over one second, are found for each goal, so
that the tip is there in the last 0.2 s, to 1 mm (root of the mean square). SciPy's L-BFGS-B takes gradients of `geosim.RodMotion`
(implicit Euler); CMA-ES has the same loss, start and bounds. Prints simulations until then of both, and the CPU seconds of a
motion with its gradient over those of a motion.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ProcessPoolExecutor  # noqa: E402
from functools import partial  # noqa: E402

import geosim.learning  # noqa: E402
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import minimize  # noqa: E402

STEPS, GOALS, POPULATION = 20, 4, 8
_kept: list[gymnasium.Env] = []  # the environment of this process


def episode(weights, seed):
    """Return of an episode, whether the goal was reached, and its steps."""
    if not _kept:
        _kept.append(gymnasium.make("geosim/RodReach-v0"))
    env = _kept[0]
    seen, _ = env.reset(seed=seed)
    total, step = 0.0, 0
    while step < STEPS:
        bent, (x, y, z) = seen[:6], 10.0 * seen[21:24]
        action = bent + np.tile(weights[:4].reshape(2, 2) @ (x, y), 3) + weights[4] * z * bent
        seen, reward, done, _, info = env.step(np.clip(action, -1.0, 1.0).astype(np.float32))
        total, step = total + reward, step + 1
        if done:
            break
    return total, info["is_success"], step


def worth(weights, seeds):
    """Mean return, mean success, all steps and CPU seconds over the goals of some seeds."""
    begin = time.process_time()
    found = np.array([episode(weights, int(seed)) for seed in seeds], dtype=float)
    return *found.mean(axis=0)[:2], found[:, 2].sum(), time.process_time() - begin


PRECISE = 1e-3  # m
MOST = 2000  # simulations of a search


class Plan:
    """The motion of the arm of the environment over one second as a function of 6 numbers a row in [-1, 1]."""

    def __init__(self, goal, rows):
        env = gymnasium.make("geosim/RodReach-v0").unwrapped
        self.robot, self.around, self.goal = env.robot, env.surroundings, goal
        self.solver = geosim.RodShellStepper(dt=env.dt, integrator="implicit-euler", damping=env.damping)
        self.most, count = env.max_curvature, len(env.robot.bends)
        self.sections = np.minimum(np.arange(count) * env.sections // count, env.sections - 1)
        self.times, self.held = np.arange(1, rows + 1) / rows, round(0.2 / env.dt)
        self.simulations, self.seconds, self.best = 0, np.zeros(2), np.inf

    def motion(self, numbers):
        """The motion of some numbers."""
        begin = time.process_time()
        curvature = self.most * numbers.reshape(len(self.times), -1, 2)[:, self.sections]
        made = geosim.RodMotion.of(
            self.robot, geosim.NaturalShape(self.times, curvature=curvature), self.around, self.solver
        )
        self.simulations, self.seconds[0] = self.simulations + 1, self.seconds[0] + time.process_time() - begin
        return made

    def loss(self, numbers):
        """Mean square of the distance of the tip from the goal at the end, in squares of PRECISE."""
        off = self.motion(numbers).positions[-self.held :, -1] - self.goal
        value = float((off**2).sum(axis=1).mean()) / PRECISE**2
        self.best = min(self.best, value)
        return value

    def loss_and_gradient(self, numbers):
        """The loss and its gradient."""
        motion = self.motion(numbers)
        begin, seed = time.process_time(), np.zeros_like(motion.positions)
        off = motion.positions[-self.held :, -1] - self.goal
        seed[-self.held :, -1] = 2.0 * off / (self.held * PRECISE**2)
        slope = motion.pulled_back(seed)["curvature"]
        by_section = np.stack(
            [slope[:, self.sections == k].sum(axis=1) for k in range(self.sections.max() + 1)], axis=1
        )
        value = float((off**2).sum(axis=1).mean()) / PRECISE**2
        self.best, self.seconds[1] = min(self.best, value), self.seconds[1] + time.process_time() - begin
        return value, self.most * by_section.ravel()

    def descend(self):
        """Search with gradients until the goal is reached to PRECISE."""

        def look(_):
            if self.best <= 1.0:
                raise StopIteration

        numbers = np.zeros(2 * len(self.times) * (self.sections.max() + 1))
        minimize(
            self.loss_and_gradient, numbers, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * len(numbers), callback=look
        )

    def evolve(self, seed):
        """Search without gradients until the goal is reached to PRECISE, or MOST simulations were made."""
        from cmaes import CMA

        count = 2 * len(self.times) * (self.sections.max() + 1)
        search = CMA(mean=np.zeros(count), sigma=0.2, seed=seed, bounds=np.tile([-1.0, 1.0], (count, 1)))
        while self.best > 1.0 and self.simulations < MOST:
            asked = [search.ask() for _ in range(search.population_size)]
            search.tell([(numbers, self.loss(numbers)) for numbers in asked])


def plan(count, rows_of_plan, seed):
    """Reach goals with gradients and without."""
    env, rows = gymnasium.make("geosim/RodReach-v0"), []
    for k in range(count):
        goal = env.reset(seed=seed + k)[0][18:21].astype(float)
        with_gradients, without = (Plan(goal, rows_of_plan) for _ in range(2))
        with_gradients.descend()
        without.evolve(seed)
        rows.append([with_gradients.simulations, without.simulations, *with_gradients.seconds, without.seconds[0]])
        missed = [
            f"{name} ends {np.sqrt(p.best):.1f} mm off"
            for name, p in (("L-BFGS", with_gradients), ("CMA-ES", without))
            if p.best > 1.0
        ]
        print(
            f"goal {k}: {rows[-1][0]} simulations and gradients, {sum(rows[-1][2:4]):.2f} CPU s; without gradients "
            f"{rows[-1][1]}, {rows[-1][4]:.1f} CPU s{''.join('; ' + m for m in missed)}",
            flush=True,
        )
    found = np.array(rows)
    motions, gradients = found[:, 2].sum(), found[:, 2:4].sum()
    last, names = with_gradients.motion(np.zeros(6 * rows_of_plan)), ("curvature", "velocities", "damping", "radius")
    begin = time.process_time()
    last.pulled_back(last.positions, last.velocities, (*names, "material.youngs_modulus", "material.density"))
    every = 1.0 + (time.process_time() - begin) * found[:, 0].sum() / motions
    print(
        f"simulations in the median: {np.median(found[:, 0]):.0f} with gradients, {np.median(found[:, 1]):.0f} without; "
        f"a motion with its gradient takes {gradients / motions:.2f} times the CPU seconds of a motion, "
        f"{1e3 * motions / found[:, 0].sum():.1f} ms; by all parameters {every:.2f} times"
    )


def main():
    from cmaes import CMA

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, CPU seconds of all workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plans", type=int, default=0, help="goals that are reached without a policy")
    parser.add_argument("--rows", type=int, default=10, help="of a plan")
    given = parser.parse_args()
    if given.plans:
        return plan(given.plans, given.rows, given.seed)
    strategy = CMA(mean=np.zeros(5), sigma=0.1, seed=given.seed, population_size=POPULATION)
    draw, steps, seconds = np.random.default_rng(given.seed), 0.0, 0.0
    with ProcessPoolExecutor(given.workers) as pool:
        while seconds < given.seconds:
            goals = draw.integers(1_000_000, 2**31, GOALS)
            asked = [strategy.ask() for _ in range(POPULATION)]
            told = list(pool.map(partial(worth, seeds=goals), asked))
            strategy.tell([(weights, -found[0]) for weights, found in zip(asked, told)])
            steps, seconds = steps + sum(t[2] for t in told), seconds + sum(t[3] for t in told)
            if strategy.generation % 5 == 0:
                means = np.mean(told, axis=0)
                print(
                    f"generation {strategy.generation}: return {means[0]:.3f}, reached {100 * means[1]:.0f} %, "
                    f"{seconds:.0f} CPU s",
                    flush=True,
                )
        tests = list(pool.map(partial(worth, np.array(strategy.mean)), np.arange(80).reshape(4, 20)))
    print(
        f"{strategy.generation} generations, {steps:.0f} steps, {steps / seconds:.0f} by CPU second; "
        f"reaches {100 * np.mean([t[1] for t in tests]):.0f} % of 80 goals in {STEPS} actions"
    )


if __name__ == "__main__":
    main()
