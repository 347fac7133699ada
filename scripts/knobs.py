"""Double and halve every constant of Newton's method and of the path, and print the first case that moves.

    python scripts/knobs.py                 all constants
    python scripts/knobs.py leaps           those whose file or name contains a word

The cases are those of tests/path_cases.py, in which tests/shape/energy/test_constants.py keeps a value of every constant that
costs iterations or ends elsewhere. This script shows how sharply a constant is chosen. A case moves where its Status, its Newton
iterations or its last shape (by more than 1e-6 of its size) are others than before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from path_cases import CASES, Outcome, constants, other_values, outcome

MOVED_REL = 1e-6  # of the size of a robot: what the tolerance of forces leaves open in a stiff one


def scaled(value: Any, factor: float) -> Any:
    """Return a number times a factor, a count at least 1, or a tuple of such numbers."""
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    return max(round(factor * value), 1) if isinstance(value, int) else factor * value


def movers(before: dict[str, Outcome]) -> Iterator[str]:
    """Yield the cases that end otherwise than before, and how."""
    for name, old in before.items():
        new = outcome(name)
        apart = np.inf if new.shape.shape != old.shape.shape else float(np.abs(new.shape - old.shape).max())
        if (new.status, new.iterations) != (old.status, old.iterations) or apart > MOVED_REL:
            yield f"{name} {old.iterations} -> {new.iterations}{'' if new.status == old.status else f' {new.status}'}"


def main() -> None:
    """Print a line for every constant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="files or names that contain one of them")
    words = parser.parse_args().words
    before = {name: outcome(name) for name in CASES}
    print(", ".join(f"{name}: {old.status} {old.iterations}" for name, old in before.items()), flush=True)
    still, chosen = [], [c for c in constants() if not words or any(word in f"{c[0]} {c[1]}" for word in words)]
    for file, name, value in chosen:
        moved = []
        for label, factor in (("x 2", 2.0), ("/ 2", 0.5)):
            with other_values(**{name: scaled(value, factor)}):
                moved += [f"{label}: {first}" for first in [next(movers(before), None)] if first is not None]
        still += [name] * (not moved)
        print(f"{file:20s} {name:38s} {value!s:>8s}  {'; '.join(moved) or '-'}", flush=True)
    print(f"{len(chosen)} constants, {len(still)} move nothing: {', '.join(still)}")


if __name__ == "__main__":
    main()
