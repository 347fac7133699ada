"""Writes reduced models and surrogates as ONNX graphs (extra `onnx`): double precision, checked, read by ONNX Runtime 1.16."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import geosim
from geosim.arrays import Floats
from geosim.errors import InputError
from geosim.writing import replacing


def needs_onnx(what: str) -> None:
    """Refuse what needs onnx where it is not installed.

    Raises
    ------
    InputError
        It is not.
    """
    if importlib.util.find_spec("onnx") is None:
        raise InputError(f"{what} as ONNX needs onnx: pip install 'geosim[onnx]'")


def write_graph(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Any],
    *,
    truths: Sequence[str] = (),
    about: str = "",
    properties: Mapping[str, str] | None = None,
) -> Path:
    """Write a graph of nodes; inputs and outputs are numbers of these shapes, `truths` outputs that are true or false."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def described(shapes: Mapping[str, Sequence[int | str]]) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name, shape in shapes.items()]

    said = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in truths]
    stored = [numpy_helper.from_array(np.array(value, order="C"), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "geosim", described(inputs), described(outputs) + said, stored, doc_string=about)
    opset, ir_version = 17, 9  # read by ONNX Runtime 1.16 and later
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        producer_name="geosim",
        producer_version=geosim.__version__,
    )
    model.ir_version = ir_version
    helper.set_model_props(model, dict(properties or {}))
    onnx.checker.check_model(model)
    with replacing(path) as beside:
        beside.write_bytes(model.SerializeToString())
    return path


def write_model(model: Any, path: Path, slack: float) -> Path:
    """Write a reduced model: controls (m,) [SI] -> tip, bend angle, pressures and volumes of chambers, positions, inside.

    `inside` is false where controls are outside of the box by more than `slack`, over its half width; the rest is no answer then.

    Raises
    ------
    InputError
        onnx is not installed.
    """
    needs_onnx("a reduced model")
    from onnx import helper

    r, n = model.rank, len(model.rest)
    outputs = model.weights.shape[1]
    c = (outputs - r - 1) // 2
    basis = np.zeros((n, 3, r))
    basis[model.body] = model.basis
    rest, by = model.tip_at_rest
    middle, half = model.scale
    degree = int(model.exponents.max())
    constants: dict[str, Any] = {
        "middle": middle,
        "half": half,
        "limit": np.array(1.0 + slack),
        "last": np.array([1]),
        "first": np.array([0]),
        "powers": np.arange(degree + 1.0),
        "legendre": model.chaos.by_powers[0][: degree + 1, : degree + 1],
        "exponents": np.ascontiguousarray(model.exponents.T),
        "weights": model.weights,
        "basis": basis.reshape(-1, r).T,
        "rest": model.rest,
        "places": np.array([n, 3]),
        "tip_rest": rest,
        "tip_basis": by.T,
        "sizes": np.array([r, 1, c, c]),
    }
    node = helper.make_node
    nodes = [
        node("Sub", ["controls", "middle"], ["shifted"]),
        node("Div", ["shifted", "half"], ["s"]),
        node("Abs", ["s"], ["size"]),
        node("ReduceMax", ["size"], ["largest"], keepdims=0),
        node("LessOrEqual", ["largest", "limit"], ["inside"]),
        node("Unsqueeze", ["s", "last"], ["column"]),
        node("Pow", ["column", "powers"], ["of_powers"]),
        node("MatMul", ["of_powers", "legendre"], ["polynomials"]),
        node("GatherElements", ["polynomials", "exponents"], ["factors"], axis=1),
    ]
    m, product = len(model.box), "factor_0"
    nodes.append(node("Split", ["factors"], [f"factor_{j}" for j in range(m)], axis=0))
    for j in range(1, m):
        nodes.append(node("Mul", [product, f"factor_{j}"], [f"product_{j}"]))
        product = f"product_{j}"
    parts = ["coefficients", "bend", "pressures", "volumes"]
    nodes += [
        node("MatMul", [product, "weights"], ["row"]),
        node("Split", ["row", "sizes"], parts, axis=1),
        node("MatMul", ["coefficients", "tip_basis"], ["tip_moved"]),
        node("Squeeze", ["tip_moved", "first"], ["tip_way"]),
        node("Add", ["tip_way", "tip_rest"], ["tip"]),
        node("Squeeze", ["bend", "first"], ["bend_angle"]),
        node("Squeeze", ["pressures", "first"], ["chamber_pressures"]),
        node("Squeeze", ["volumes", "first"], ["chamber_volumes"]),
        node("MatMul", ["coefficients", "basis"], ["moved"]),
        node("Reshape", ["moved", "places"], ["displacements"]),
        node("Add", ["displacements", "rest"], ["positions"]),
    ]
    named = {"tip": [3], "bend_angle": [1], "chamber_pressures": [c], "chamber_volumes": [c], "positions": [n, 3]}
    about = f"{model.name}, {model.vary} in {model.box.tolist()}; bounds {dict(model.bounds)} (SI)"
    return write_graph(path, nodes, {"controls": [m]}, named, constants, truths=["inside"], about=about)


def write_process(
    columns: Sequence[str], offset: Floats, factor: Floats, process: Any, path: Path, band: float
) -> Path:
    """Write a process of Matern's kernel with a band of so many deviations; features are (column - offset) times factor."""
    needs_onnx("a surrogate")
    from onnx import helper

    nodes: list[Any] = []
    values: dict[str, Any] = {
        "offset": offset,
        "factor": factor / process.lengths,
        "half": -2.0,
        "five": 5.0,
        "third": 1.0 / 3.0,
        "one": 1.0,
        "floor": 1e-24,  # squared, over the lengths: the root has no slope at 0
        "square": process.amplitude**2,
        "weights": process.weights[:, None],
        "inverse": process.factor.T,
        "center": process.center,
        "scale": process.scale,
        "noise": process.noise**2,
        "zero": 0.0,
        "band": band * process.scale,
        "own": (process.at / process.lengths).T,
        "own_squared": ((process.at / process.lengths) ** 2).sum(axis=1)[None],
    }

    def node(kind: str, *given: str, **how: Any) -> str:
        out = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, list(given), [out], **how))
        return out

    x = node("Mul", node("Sub", "design", "offset"), "factor")
    squared = node("ReduceSum", node("Mul", x, x), "axes", keepdims=1)
    distance = node("Add", node("Add", squared, node("Mul", node("MatMul", x, "own"), "half")), "own_squared")
    a = node("Sqrt", node("Mul", node("Max", distance, "floor"), "five"))
    shape = node("Add", node("Add", a, "one"), node("Mul", node("Mul", a, a), "third"))
    fall = node("Exp", node("Neg", a))
    k = node("Mul", node("Mul", shape, fall), "square")
    mean = node("Add", node("Mul", node("MatMul", k, "weights"), "scale"), "center")
    solved = node("MatMul", k, "inverse")
    explained = node("ReduceSum", node("Mul", solved, solved), "axes", keepdims=1)
    spread = node("Sqrt", node("Add", node("Max", node("Sub", "square", explained), "zero"), "noise"))
    width = node("Mul", spread, "band")
    for name, column in (("value", mean), ("low", node("Sub", mean, width)), ("high", node("Add", mean, width))):
        nodes.append(helper.make_node("Squeeze", [column, "axes"], [name]))
    constants = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()} | {"axes": np.array([1])}
    outputs = {key: ["n"] for key in ("value", "low", "high")}
    properties = {"columns": ",".join(columns)}
    return write_graph(path, nodes, {"design": ["n", len(columns)]}, outputs, constants, properties=properties)
