"""Writes ONNX graphs (extra `onnx`): double precision, checked, in the version that ONNX Runtime 1.16 and later read."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import geosim
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
