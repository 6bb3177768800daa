"""LiteRT files made by hand for tests, with the schema's object interface, and run by LiteRT."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "bool": "BOOL", "int4": "INT4", "string": "STRING",
}  # fmt: skip

VERSIONS = {"BROADCAST_TO": 2}
"""Of operators that LiteRT has no more in their first one."""


class LiteRtFile:
    """A model of one subgraph; tensors are numbers."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = "test"
        self.model.operatorCodes, self.model.buffers = [], [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.name = "main"
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, shape, dtype="float32", scale=None, zero=0, axis=0, name=None, data=None):
        """scale, zero: numbers, or one for each index of `axis`."""
        t = schema.TensorT()
        t.shape, t.type = list(shape), getattr(schema.TensorType, TYPES[dtype])
        t.name = name or f"t{len(self.graph.tensors)}"
        t.buffer = 0
        if scale is not None:
            t.quantization = schema.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            t.quantization.scale = scales
            t.quantization.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
            t.quantization.quantizedDimension = axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data, np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def input(self, shape, dtype="float32", scale=None, zero=0, name=None):
        self.graph.inputs.append(self.tensor(shape, dtype, scale, zero, name=name))
        return self.graph.inputs[-1]

    def constant(self, array, scale=None, zero=0, axis=0, name=None):
        array = np.asarray(array)
        return self.tensor(array.shape, str(array.dtype), scale, zero, axis, name, array.tobytes())

    def ints(self, *values):
        return self.constant(np.array(values, np.int32))

    def operator(self, kind, inputs, outputs, options=None, custom=None):
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, kind) if isinstance(kind, str) else kind
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.version = VERSIONS.get(kind, 1)
        code.customCode = custom
        self.model.operatorCodes.append(code)
        op = schema.OperatorT()
        op.opcodeIndex = len(self.model.operatorCodes) - 1
        op.inputs, op.outputs = list(inputs), list(outputs)
        if options is not None:
            name = type(options).__name__.removesuffix("T")
            op.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            op.builtinOptions = options
        self.graph.operators.append(op)

    def output(self, *tensors):
        self.graph.outputs += tensors

    def data(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def options(name, **fields):
    """Options of an operator: `options("Pool2D", strideH=2)`."""
    made = getattr(schema, f"{name}OptionsT")()
    for field, value in fields.items():
        assert hasattr(made, field), field
        setattr(made, field, value)
    return made


def interpreter(data, reference=False):
    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN
    made = Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    made.allocate_tensors()
    return made


def run_litert(data, arrays, reference=False):
    """What LiteRT's own interpreter gives: a list of arrays. reference: by its simple kernels."""
    made = interpreter(data, reference)
    for detail, array in zip(made.get_input_details(), arrays):
        made.set_tensor(detail["index"], array)
    made.invoke()
    return [made.get_tensor(detail["index"]) for detail in made.get_output_details()]
