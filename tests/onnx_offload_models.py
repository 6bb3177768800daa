"""ONNX models of which ONNX Runtime keeps a part, for tests."""

import numpy as np
from onnx import TensorProto, helper
from onnx_models import array, model, value

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def random(name, *shape, scale=0.3, seed=0):
    rng = np.random.default_rng([seed, *name.encode()])
    return array(name, rng.standard_normal(shape) * scale)


def call(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution():
    """All of it has a place on the NPU."""
    nodes = [
        ("Conv", ["x", "w", "b"], ["c"], {"name": "conv", "pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {"name": "relu"}),
        ("Flatten", ["r"], ["f"], {"name": "flatten"}),
        ("MatMul", ["f", "v"], ["y"], {"name": "classes"}),
    ]
    arrays = [random("w", 4, 3, 3, 3), random("b", 4), random("v", 256, 10, scale=0.1)]
    return model(nodes, [value("x", ("batch", 3, 8, 8))], [value("y", ("batch", 10))], arrays)


def interrupted():
    """NonZero, whose result has a shape that depends on values, between two convolutions."""
    nodes = [
        ("Conv", ["x", "w"], ["c"], {"name": "first", "pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {"name": "relu"}),
        ("NonZero", ["r"], ["places"], {"name": "nonzero"}),
        ("Cast", ["places"], ["floats"], {"name": "cast", "to": 1}),
        ("ReduceMax", ["floats"], ["most"], {"name": "most", "keepdims": 0}),
        ("Add", ["r", "most"], ["s"], {"name": "add"}),
        ("Conv", ["s", "v"], ["y"], {"name": "second"}),
    ]
    arrays = [random("w", 4, 3, 3, 3), random("v", 2, 4, 1, 1)]
    return model(nodes, [value("x")], [value("y", (1, 2, 8, 8))], arrays)


def detector():
    """Boxes and scores, of which NonMaxSuppression keeps some."""
    nodes = [
        ("Conv", ["x", "w"], ["c"], {"name": "stem", "pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {"name": "relu"}),
        ("Conv", ["r", "wb"], ["b0"], {"name": "box"}),
        ("Conv", ["r", "ws"], ["s0"], {"name": "score"}),
        ("Reshape", ["b0", "boxes_shape"], ["b1"], {"name": "box_rows"}),
        ("Transpose", ["b1"], ["boxes"], {"name": "box_last", "perm": [0, 2, 1]}),
        ("Reshape", ["s0", "scores_shape"], ["s1"], {"name": "score_rows"}),
        ("Sigmoid", ["s1"], ["scores"], {"name": "sigmoid"}),
        ("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["y"], {"name": "nms"}),
    ]
    arrays = [
        random("w", 8, 3, 3, 3),
        random("wb", 4, 8, 1, 1),
        random("ws", 2, 8, 1, 1),
        array("boxes_shape", [1, 4, 64], np.int64),
        array("scores_shape", [1, 2, 64], np.int64),
        array("most", 5, np.int64),
        array("iou", 0.5),
        array("least", 0.5),
    ]
    outputs = [value("y", None, INT64), value("boxes", (1, 64, 4)), value("scores", (1, 2, 64))]
    return model(nodes, [value("x")], outputs, arrays)


def embedding():
    """Integers as inputs, and a Loop that reads a value of the NPU."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum_in", "step"], ["sum_out"]),
            helper.make_node("Identity", ["go_in"], ["go_out"]),
        ],
        "body",
        [value("i", (), INT64), value("go_in", (), BOOL), value("sum_in", (1, 4, 8))],
        [value("go_out", (), BOOL), value("sum_out", (1, 4, 8))],
    )
    nodes = [
        ("Gather", ["table", "ids"], ["e"], {"name": "gather"}),
        ("MatMul", ["e", "w"], ["h"], {"name": "linear"}),
        ("Relu", ["h"], ["step"], {"name": "relu"}),
        helper.make_node("Loop", ["times", "", "e"], ["y"], name="loop", body=body),
    ]
    arrays = [random("table", 20, 8, scale=1), random("w", 8, 8)]
    inputs = [value("ids", (1, 4), INT64), value("times", (), INT64)]
    return model(nodes, inputs, [value("y", (1, 4, 8))], arrays)


def half_quantized():
    """A quantized convolution, a grid whose integers NonZero reads too, and one without work."""
    grid = ["scale", "zero"]
    nodes = [
        ("QuantizeLinear", ["x", *grid], ["xq"], {"name": "q0"}),
        ("DequantizeLinear", ["xq", *grid], ["xf"], {"name": "d0"}),
        ("Conv", ["xf", "w"], ["c"], {"name": "conv"}),
        ("QuantizeLinear", ["c", *grid], ["cq"], {"name": "q1"}),
        ("DequantizeLinear", ["cq", *grid], ["cf"], {"name": "d1"}),
        ("Cast", ["cq"], ["integers"], {"name": "cast", "to": 6}),
        ("NonZero", ["integers"], ["places"], {"name": "nonzero"}),
        ("Relu", ["cf"], ["y"], {"name": "relu"}),
        ("Cast", ["places"], ["floats"], {"name": "floats", "to": 1}),
        ("ReduceMax", ["floats"], ["most"], {"name": "most", "keepdims": 0}),
        ("QuantizeLinear", ["most", *grid], ["mq"], {"name": "q2"}),
        ("DequantizeLinear", ["mq", *grid], ["z"], {"name": "d2"}),
    ]
    arrays = [array("scale", 0.05), array("zero", 3, np.int8), random("w", 4, 3, 1, 1)]
    outputs = [value("y", (1, 4, 8, 8)), value("places", None, INT64), value("z", ())]
    return model(nodes, [value("x")], outputs, arrays)
