"""The encoder all-MiniLM-L6-v2 as an ONNX graph, from its weights: tokens in, one vector of length 1 per text out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LAYERS: Final = 6
HEADS: Final = 12
WIDTH: Final = 384
MAX_TOKENS: Final = 256
EPSILON: Final = 1e-12
OPSET: Final = 17
"""First opset with LayerNormalization."""
Weights = dict[str, NDArray[np.float32]]


def weights_of(file: Path) -> Weights:
    """Tensors of a safetensors file: eight bytes for the header's length, a JSON header with offsets, then the
    values.
    """
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = msgspec.json.decode(content[8 : 8 + size])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        weights[name] = np.frombuffer(content[first:last], "<f4").reshape(entry["shape"])
    return weights


class Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, value: str, name: str) -> str:
        weight = self.constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        bias = self.constant(f"{name}.bias", self._weights[f"{name}.bias"])
        return self.add("Add", self.add("MatMul", value, weight), bias)

    def normalized(self, value: str, name: str) -> str:
        scale = self.constant(f"{name}.weight", self._weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self._weights[f"{name}.bias"])
        return self.add("LayerNormalization", value, scale, bias, axis=-1, epsilon=EPSILON)

    def attention(self, value: str, name: str, bias: str) -> str:
        parts = {}
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            split = self.add("Reshape", self.linear(value, f"{name}.self.{part}"), "heads")
            parts[part] = self.add("Transpose", split, perm=order)
        scores = self.add("Mul", self.add("MatMul", parts["query"], parts["key"]), "scale")
        share = self.add("Softmax", self.add("Add", scores, bias), axis=-1)
        joined = self.add("Transpose", self.add("MatMul", share, parts["value"]), perm=[0, 2, 1, 3])
        out = self.linear(self.add("Reshape", joined, "width"), f"{name}.output.dense")
        return self.normalized(self.add("Add", out, value), f"{name}.output.LayerNorm")

    def layer(self, value: str, name: str, bias: str) -> str:
        attended = self.attention(value, f"{name}.attention", bias)
        inner = self.linear(attended, f"{name}.intermediate.dense")
        part = self.add("Add", self.add("Erf", self.add("Mul", inner, "root")), "one")
        gelu = self.add("Mul", self.add("Mul", inner, part), "half")
        out = self.linear(gelu, f"{name}.output.dense")
        return self.normalized(self.add("Add", out, attended), f"{name}.output.LayerNorm")


def encoder(weights: Weights) -> onnx.ModelProto:
    """The model with 32-bit floats."""
    graph = Graph(weights)
    for name, number in (
        ("heads", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64)),
        ("width", np.array([0, 0, WIDTH], np.int64)),
        ("scale", np.float32((WIDTH // HEADS) ** -0.5)),
        ("root", np.float32(2**-0.5)),
        ("one", np.float32(1)),
        ("half", np.float32(0.5)),
        ("masked", np.float32(-1e4)),
        ("zero", np.array([0], np.int64)),
        ("length", np.array([1], np.int64)),
        ("behind", np.array([1, 2], np.int64)),
        ("last", np.array([2], np.int64)),
    ):
        graph.constant(name, np.asarray(number))
    words = graph.constant("words", weights["embeddings.word_embeddings.weight"])
    kind = weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant("places", (weights["embeddings.position_embeddings.weight"] + kind)[:MAX_TOKENS])
    size = graph.add("Gather", graph.add("Shape", "input_ids"), "length")
    position = graph.add("Slice", places, "zero", size, "zero")
    value = graph.add("Add", graph.add("Gather", words, "input_ids"), position)
    value = graph.normalized(value, "embeddings.LayerNorm")
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    bias = graph.add("Mul", graph.add("Sub", "one", mask), "masked")
    bias = graph.add("Unsqueeze", bias, "behind")
    for layer in range(LAYERS):
        value = graph.layer(value, f"encoder.layer.{layer}", bias)
    summed = graph.add("ReduceSum", graph.add("Mul", value, graph.add("Unsqueeze", mask, "last")), "length", keepdims=0)
    length = graph.add("ReduceL2", summed, axes=[1], keepdims=1)
    graph.nodes.append(helper.make_node("Div", [summed, length], ["vector"], name="vector"))
    shape = ["texts", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", WIDTH])
    made = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], graph.constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
