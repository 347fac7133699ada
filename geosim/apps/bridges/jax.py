"""Shapes of robots as functions of JAX arrays; their vector-Jacobian product takes one factorisation (extra: jax)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.model.environment import Environment
from geosim.response.controls import SteerableRobot
from geosim.response.equilibria import EquilibriumFunction, common_rows
from geosim.response.rod_equilibria import Solver, function_of_names

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise InputError("geosim.jax needs JAX: pip install 'geosim[jax]'") from None

__all__ = ["shape"]


def shape(
    robot: SteerableRobot,
    controls: Any = (),
    material: Mapping[str, Any] | None = None,
    dimensions: Mapping[str, Any] | None = None,
    *,
    of: str | Sequence[str] = "positions",
    vary: str = "volume_ratio",
    environment: Environment | None = None,
    solver: Solver | None = None,
    workers: int | None = None,
) -> Any:
    """Return the equilibrium of a robot as an array that can be differentiated in reverse mode.

    Arguments and results are as in `geosim.torch.shape`. Without `jax.config.update("jax_enable_x64", True)` JAX rounds to
    single precision. Inside of `jax.jit` the solve is a callback to the host; where a row is refused or not reached JAX raises
    its own error with the message.

    Raises
    ------
    InputError
        Nothing can be solved so, or (in the reverse pass) there is no unique tangent.
    SolveError
        An equilibrium was not reached.
    """
    function, numbers = function_of_names(
        robot, vary, material, dimensions, of, environment=environment, solver=solver, workers=workers
    )
    given = jnp.asarray(controls, dtype=float)
    parts = [given.reshape(1, -1) if given.ndim < 2 else given]
    parts += [jnp.asarray(v, dtype=float).reshape(-1, 1) for v in numbers]
    count = common_rows(map(len, parts))
    rows = jnp.concatenate([jnp.broadcast_to(part, (count, part.shape[1])) for part in parts], axis=1)
    found = _differentiable(function)(rows)
    batched = given.ndim == 2 or any(jnp.ndim(v) for v in numbers)
    out = tuple(each if batched else each[0] for each in found)
    return out[0] if isinstance(of, str) else out


def _differentiable(function: EquilibriumFunction) -> Any:
    """Return rows (b, p) -> outputs with their vector-Jacobian product."""
    # of the last rows: the reverse pass needs no solve of its own
    kept: dict[bytes, list[Callable[[], list[Floats]]]] = {}

    def solved(rows: Any) -> tuple[Floats, ...]:
        given = np.asarray(rows, dtype=float)
        results = function.results(given)
        kept.clear()
        kept[given.tobytes()] = [function.tangent(result) for result in results]
        return function.outputs(results)

    def pulled(rows: Any, cotangents: Any) -> tuple[Floats]:
        given = np.asarray(rows, dtype=float)
        if given.tobytes() not in kept:
            solved(given)
        wanted = [np.asarray(c, dtype=float) for c in cotangents]
        tangents = kept[given.tobytes()]
        return (np.array([function.pulled_back(t, [c[i] for c in wanted]) for i, t in enumerate(tangents)]),)

    @jax.custom_vjp
    def equilibria(rows: Any) -> Any:
        return _on_host(solved, [(len(rows), *shape) for shape in function.shapes], rows)

    def forward(rows: Any) -> Any:
        return equilibria(rows), rows

    def backward(rows: Any, cotangents: Any) -> Any:
        return _on_host(pulled, [rows.shape], rows, cotangents)

    equilibria.defvjp(forward, backward)
    return equilibria


def _on_host(function: Any, shapes: Sequence[tuple[int, ...]], rows: Any, *more: Any) -> Any:
    """Return the arrays that a function of numpy makes: at once where values are known, else by a callback."""
    values = (rows, *more)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
        return tuple(jnp.asarray(out, dtype=rows.dtype) for out in function(*values))
    made = tuple(jax.ShapeDtypeStruct(shape, rows.dtype) for shape in shapes)
    cast = lambda *given: tuple(np.asarray(out, dtype=rows.dtype) for out in function(*given))  # noqa: E731
    return jax.pure_callback(cast, made, *values)
