"""Steps a second of the environments for learning: 1, 2 and 8 at once, each in a process of its own.

    python benchmarks/learning_speed.py [--names Snake,RodReach,Gripper,Catch,Walker] [--at-once 1,2,8] [--seconds 10]
    python benchmarks/learning_speed.py --episodes 8 [--names Catch,Walker]

Actions are random; the count is of all environments together, against the wall clock, after a first step that compiles.
`--episodes` prints what episodes of random actions and of an open-loop policy return, and CPU seconds a step.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402

import geosim.learning  # noqa: E402
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

# Actions of a policy without feedback at step k: close for six steps, then hold; the hind leg leads by a quarter of 0.2 s.
GAIT = ((1, 1), (1, -1), (-1, -1), (-1, 1))
OPEN_LOOP = {"Catch": lambda k: [0.85, 0.85] if k < 6 else [0.0, 0.0], "Walker": lambda k: GAIT[k % 4]}


def rate(name, count, seconds):
    """Steps a second of `count` environments."""
    many = gymnasium.make_vec(f"geosim/{name}-v0", num_envs=count, vectorization_mode="async")
    try:
        many.reset(seed=0)
        many.action_space.seed(0)
        many.step(many.action_space.sample())
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            many.step(many.action_space.sample())
            steps += count
        return steps / (time.perf_counter() - begin)
    finally:
        many.close()


def episode(env, policy, seed):
    """Sum of rewards, steps and CPU seconds of an episode."""
    env.reset(seed=seed)
    total, steps, ended, begin = 0.0, 0, False, time.process_time()
    while not ended:
        _, reward, stopped, over, _ = env.step(np.asarray(policy(steps), np.float32))
        total, steps, ended = total + reward, steps + 1, stopped or over
    return total, steps, time.process_time() - begin


def compare(name, count):
    """Print what episodes of both policies return, and what a step costs."""
    env = gymnasium.make(f"geosim/{name}-v0")
    episode(env, lambda k: env.action_space.sample(), 0)  # compiles
    for policy in ("random", "open loop"):
        rows = []
        for seed in range(1, count + 1):
            env.action_space.seed(seed)
            act = (lambda k: env.action_space.sample()) if policy == "random" else OPEN_LOOP[name]
            rows.append(episode(env, act, seed))
        returns, steps, seconds = np.array(rows).T
        print(
            f"{name:10s}{policy:12s}return {returns.mean():8.2f}, {returns.min():.2f} to {returns.max():.2f}; "
            f"{seconds.sum() / steps.sum():.3f} CPU s a step, {seconds.mean():.1f} an episode",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names")
    parser.add_argument("--at-once", default="1,2,8")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--episodes", type=int, default=0)
    options = parser.parse_args()
    names = options.names or ("Catch,Walker" if options.episodes else "Snake,RodReach,Gripper,Catch,Walker")
    counts = [int(n) for n in options.at_once.split(",")]
    known = {name.split("/")[1].removesuffix("-v0") for name in geosim.learning.ENVIRONMENTS}
    unknown = [name for name in names.split(",") if name not in (OPEN_LOOP if options.episodes else known)]
    if unknown:
        parser.error(f"{unknown[0]} is none of {sorted(OPEN_LOOP if options.episodes else known)}")
    if options.episodes:
        for name in names.split(","):
            compare(name, options.episodes)
        return
    print(f"steps a second on {len(os.sched_getaffinity(0))} cores" + "".join(f"{n:>10d} at once" for n in counts))
    for name in names.split(","):
        rates = [rate(name, n, options.seconds) for n in counts]
        print(
            f"{name:28s}" + "".join(f"{r:12.1f} /s  " for r in rates) + f"  last / first {rates[-1] / rates[0]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
