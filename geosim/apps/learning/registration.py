"""The names under which `gymnasium.make` finds the environments."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from geosim.errors import InputError

# Name -> (where, actions of an episode before it is truncated).
ENVIRONMENTS: Mapping[str, tuple[str, int]] = {
    "geosim/Snake-v0": ("geosim.apps.learning.snake:SnakeEnv", 300),
    "geosim/RodReach-v0": ("geosim.apps.learning.reach:RodReachEnv", 100),
    "geosim/Gripper-v0": ("geosim.apps.learning.gripper:GripperEnv", 20),
    "geosim/Catch-v0": ("geosim.apps.learning.catch:CatchEnv", 20),
    "geosim/Walker-v0": ("geosim.apps.learning.walker:WalkerEnv", 40),
}


def register() -> None:
    """Make the environments known to Gymnasium; those that it knows already stay.

    Raises
    ------
    InputError
        Gymnasium is not installed.
    """
    if find_spec("gymnasium") is None:
        raise InputError("geosim.learning needs gymnasium: pip install 'geosim[learning]'")
    import gymnasium

    for name, (place, steps) in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, place, max_episode_steps=steps)
