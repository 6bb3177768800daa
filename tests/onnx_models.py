"""ONNX models for tests, made node by node."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, shape=(1, 3, 8, 8), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def array(name, data, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(data, dtype), name)


def model(nodes, inputs=None, outputs=None, arrays=(), opset=18, **imports):
    """A ModelProto that is not checked. nodes: NodeProtos, or (operator, inputs, outputs, dict)."""
    made = [n if hasattr(n, "op_type") else helper.make_node(*n[:3], **dict(*n[3:])) for n in nodes]
    graph = helper.make_graph(
        made,
        "net",
        [value("x")] if inputs is None else inputs,
        [value("y", None)] if outputs is None else outputs,
        list(arrays),
    )
    versions = [helper.make_opsetid("", opset)] if opset else []
    versions += [helper.make_opsetid(domain, v) for domain, v in imports.get("domains", {}).items()]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def subgraph(name="inner"):
    """A branch or body without inputs that gives one float."""
    node = helper.make_node("Constant", [], [f"{name}_out"], value=array("c", [1.0]))
    return helper.make_graph([node], name, [], [value(f"{name}_out", (1,))])
