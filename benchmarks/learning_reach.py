"""Train `geosim/RodReach-v0` by the evolution strategy CMA-ES of the package `cmaes`, and test what was learnt.

    pip install cmaes
    python benchmarks/learning_reach.py [--seconds 60] [--workers 2] [--seed 0]

The policy bends all sections alike: it adds to their natural curvatures what is linear in the horizontal way from the tip to the
goal, and more or less of what they have by the vertical one: 5 numbers that begin at 0. A candidate is worth its mean return over
goals that are new in every generation; the last mean is tested on 80 goals that none has seen. Prints generations, the share of
goals reached and the steps of environments by CPU second.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ProcessPoolExecutor  # noqa: E402
from functools import partial  # noqa: E402

import geosim.learning  # noqa: E402, F401
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

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


def main():
    from cmaes import CMA

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training, CPU seconds of all workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
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
