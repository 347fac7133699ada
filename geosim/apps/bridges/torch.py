"""Shapes of robots as functions of PyTorch tensors; their backward pass is one adjoint solve (extra: torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from geosim.errors import InputError
from geosim.model.environment import Environment
from geosim.response.controls import SteerableRobot
from geosim.response.equilibria import EquilibriumFunction, common_rows
from geosim.response.rod_equilibria import Solver, function_of_names

try:
    import torch
    from torch.autograd.function import once_differentiable
except ImportError:
    raise InputError("geosim.torch needs PyTorch: pip install 'geosim[torch]'") from None

__all__ = ["shape"]


class _Equilibria(torch.autograd.Function):
    """Rows of numbers (b, p) -> outputs of the equilibria; keeps them for the adjoint."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, function: EquilibriumFunction) -> Any:
        results = function.results(rows.detach().cpu().numpy())
        ctx.results, ctx.function, ctx.tangents = results, function, None
        return tuple(torch.as_tensor(out, device=rows.device) for out in function.outputs(results))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        given = [c.detach().cpu().numpy() for c in cotangents]
        if ctx.tangents is None:  # of several backward passes the first one factorises
            ctx.tangents = [ctx.function.tangent(result) for result in ctx.results]
        rows = [ctx.function.pulled_back(t, [c[i] for c in given]) for i, t in enumerate(ctx.tangents)]
        return torch.as_tensor(np.array(rows), device=cotangents[0].device), None


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
    """Return the equilibrium of a robot as a tensor that can be differentiated.

    Parameters
    ----------
    robot
        What is actuated.
    controls
        Tensor (m,), or (b, m) for a batch that is solved side by side: of all chambers or cables, see `vary`.
    material
        Constants by name, "c1" or "0.c1" of one region: tensors () or (b,) [Pa, or as the law has it].
    dimensions
        Dimensions of the robot's design by name, "wall": tensors () or (b,) [m]. The mesh keeps its connectivity. Of rods
        "radius".
    of
        "positions" (n, 3) [m], or a measure of `geosim.sensitivity`; several names give a tuple.
    vary
        "volume_ratio", "pressure" [Pa], "cable_length" [m] or "cable_tension" [N]; of rods one of the last two, or "curvature"
        [1/m], natural, about kappa1 and kappa2 of every limb.
    environment, solver
        As in `solve`.
    workers
        As in `solve_many`.

    Returns
    -------
    torch.Tensor
        In double precision, of the measure's shape; (b, ...) where anything given is a batch.

    Raises
    ------
    InputError
        Nothing can be solved so, or (in the backward pass) there is no unique tangent.
    SolveError
        An equilibrium was not reached; it has the `.result` of the first row that failed.
    """
    function, numbers = function_of_names(
        robot, vary, material, dimensions, of, environment=environment, solver=solver, workers=workers
    )
    given = torch.as_tensor(controls, dtype=torch.float64)
    parts = [given.reshape(1, -1) if given.ndim < 2 else given]
    parts += [torch.as_tensor(v, dtype=torch.float64).reshape(-1, 1) for v in numbers]
    count = common_rows(map(len, parts))
    rows = torch.cat([part.expand(count, -1) for part in parts], dim=1)
    found = _Equilibria.apply(rows, function)
    batched = given.ndim == 2 or any(torch.as_tensor(v).ndim for v in numbers)
    out = tuple(each if batched else each[0] for each in found)
    return out[0] if isinstance(of, str) else out
