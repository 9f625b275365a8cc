"""Builds the ONNX graph of all-MiniLM-L6-v2 from its weights: texts' tokens in, unit vectors out.

`onnx` and `safetensors` suffice: no torch, and no exported file to trust. A change here needs
a new `local_cache.GRAPH_VERSION` and `GRAPH_SHA256`, or old caches would continue to serve the old graph.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from safetensors.numpy import load_file

from embedq.embedders.local import DIMENSIONS, MAX_TOKENS, MODEL

_LAYERS, _HEADS = 6, 12
_HEAD_SIZE = DIMENSIONS // _HEADS
_OPSET, _IR_VERSION = 20, 9  # the first with Gelu; an IR that every supported onnxruntime reads
_EPSILON = 1e-12
_MASKED = np.float32(-1e9)  # far below any score, but finite

Array = NDArray[Any]


def build(weights: Path) -> bytes:
    """Return the graph with its weights as ONNX bytes."""
    return _Builder(load_file(weights)).model()


class _Builder:
    """Appends nodes one by one; each method returns the name of its output."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def model(self) -> bytes:
        hidden = self._embeddings()
        blocked = self._mask_scores()
        for layer in range(_LAYERS):
            hidden = self._block(f"encoder.layer.{layer}", hidden, blocked)
        self._pool(hidden)
        inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["n", "t"]) for name in ("ids", "mask")]
        output = helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ["n", DIMENSIONS])
        graph = helper.make_graph(self._nodes, MODEL, inputs, [output], self._constants)
        opset = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION, producer_name="embedq")
        return bytes(model.SerializeToString())

    def _node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:  # noqa: ANN401 - onnx has its own types per operator
        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def _constant(self, value: Array | np.generic) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name))
        return name

    def _embeddings(self) -> str:
        words = self._weights["embeddings.word_embeddings.weight"]
        # All tokens are of the first type, so its embedding is added to the positions at build time.
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        positions = self._weights["embeddings.position_embeddings.weight"][:MAX_TOKENS] + kind
        length = self._node("Shape", "ids", start=1, end=2)
        placed = self._node("Slice", self._constant(positions), self._constant(np.array([0])), length)
        found = self._node("Gather", self._constant(words), "ids")
        return self._norm("embeddings.LayerNorm", self._node("Add", found, placed))

    def _mask_scores(self) -> str:
        self._node("Cast", "mask", output="weight", to=onnx.TensorProto.FLOAT)
        spread = self._node("Unsqueeze", "weight", self._constant(np.array([1, 2])))
        absent = self._node("Sub", self._constant(np.float32(1)), spread)
        return self._node("Mul", absent, self._constant(_MASKED))

    def _block(self, prefix: str, hidden: str, blocked: str) -> str:
        mixed = self._attention(f"{prefix}.attention", hidden, blocked)
        hidden = self._norm(f"{prefix}.attention.output.LayerNorm", self._node("Add", mixed, hidden))
        widened = self._node("Gelu", self._dense(f"{prefix}.intermediate.dense", hidden))
        narrowed = self._dense(f"{prefix}.output.dense", widened)
        return self._norm(f"{prefix}.output.LayerNorm", self._node("Add", narrowed, hidden))

    def _attention(self, prefix: str, hidden: str, blocked: str) -> str:
        scale = _HEAD_SIZE**-0.5  # folded into the query's weights: one operation less per block
        query = self._heads(self._dense(f"{prefix}.self.query", hidden, scale), [0, 2, 1, 3])
        key = self._heads(self._dense(f"{prefix}.self.key", hidden), [0, 2, 3, 1])
        value = self._heads(self._dense(f"{prefix}.self.value", hidden), [0, 2, 1, 3])
        scores = self._node("Add", self._node("MatMul", query, key), blocked)
        seen = self._node("MatMul", self._node("Softmax", scores, axis=-1), value)
        joined = self._node("Transpose", seen, perm=[0, 2, 1, 3])
        flat = self._node("Reshape", joined, self._constant(np.array([0, 0, DIMENSIONS])))
        return self._dense(f"{prefix}.output.dense", flat)

    def _heads(self, projected: str, order: list[int]) -> str:
        split = self._node("Reshape", projected, self._constant(np.array([0, 0, _HEADS, _HEAD_SIZE])))
        return self._node("Transpose", split, perm=order)

    def _dense(self, prefix: str, hidden: str, scale: float = 1.0) -> str:
        weight = self._constant(self._weights[f"{prefix}.weight"].T * scale)
        bias = self._constant(self._weights[f"{prefix}.bias"] * scale)
        return self._node("Add", self._node("MatMul", hidden, weight), bias)

    def _norm(self, prefix: str, hidden: str) -> str:
        scale, bias = (self._constant(self._weights[f"{prefix}.{part}"]) for part in ("weight", "bias"))
        return self._node("LayerNormalization", hidden, scale, bias, axis=-1, epsilon=_EPSILON)

    def _pool(self, hidden: str) -> None:
        # Normalising the vector cancels the mean's divisor, so the masked sum is enough.
        axis = self._constant(np.array([1]))
        total = self._node("MatMul", self._node("Unsqueeze", "weight", axis), hidden)
        self._node("LpNormalization", self._node("Squeeze", total, axis), output="vectors", axis=-1, p=2)
