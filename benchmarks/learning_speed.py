"""Steps a second of the environments for learning: 1, 2 and 8 at once, each in a process of its own.

    python benchmarks/learning_speed.py [--names Snake,RodReach,Gripper] [--at-once 1,2,8] [--seconds 10]

Actions are random; the count is of all environments together, against the wall clock, after a first step that compiles.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy loads

import argparse  # noqa: E402
import time  # noqa: E402

import geosim.learning  # noqa: E402
import gymnasium  # noqa: E402


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default="Snake,RodReach,Gripper")
    parser.add_argument("--at-once", default="1,2,8")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    counts = [int(n) for n in options.at_once.split(",")]
    known = {name.split("/")[1].removesuffix("-v0") for name in geosim.learning.ENVIRONMENTS}
    print(f"steps a second on {len(os.sched_getaffinity(0))} cores" + "".join(f"{n:>10d} at once" for n in counts))
    for name in options.names.split(","):
        if name not in known:
            parser.error(f"{name} is none of {sorted(known)}")
        rates = [rate(name, n, options.seconds) for n in counts]
        print(
            f"{name:28s}" + "".join(f"{r:12.1f} /s  " for r in rates) + f"  last / first {rates[-1] / rates[0]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
