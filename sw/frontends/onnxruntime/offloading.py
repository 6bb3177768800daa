"""`offload`: which nodes of an ONNX model become programs of the NPU."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.samples import split_calls
from sw.compiler.frontend.threads import one_thread
from sw.frontends.delegates.compiling import Loaded, Refused
from sw.frontends.delegates.options import all_options
from sw.frontends.delegates.regions import Region
from sw.frontends.delegates.search import Search, require_npu
from sw.frontends.onnx import load_onnx
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.model import example_of, open_inputs, set_shapes
from sw.frontends.onnx.module import Step
from sw.frontends.onnx.reading import prepared, read
from sw.frontends.onnx.weights import join_weights
from sw.frontends.onnxruntime.errors import OnnxRuntimeError
from sw.frontends.onnxruntime.offloaded import Offloaded
from sw.frontends.onnxruntime.regions import cut, flow_of
from sw.frontends.onnxruntime.rewriting import rewritten
from sw.frontends.onnxruntime.survey import Survey, survey
from sw.frontends.onnxruntime.values import Values
from sw.torch_backend.options import Options

Arrays = dict[str, NDArray[Any]]


def offload(model: Any, inputs: Any = None, **options: Any) -> Offloaded:
    """The model with what the NPU takes as programs, for sessions of ONNX Runtime.

    model: a path or a ModelProto, which is not changed. inputs: a call: an array, a sequence in the
    order of the model's inputs, or arrays by name. Its shapes are those of the programs, and it
    calibrates a float model unless `calibration` has calls. Without it floats are random and sizes
    that the model leaves open 1. options: config, policy, rows, calibration, fallback, cache,
    progress, device, latency, stall, seed, clock_mhz, memory, check, verify: as
    `torch.compile(backend="systola")` has them. `OnnxError` where the model cannot be read,
    `OptionError` for an option, `NotCompiledError` without fallback.
    """
    chosen = all_options(options)
    proto, file, folder = read(model)
    call = _named(inputs, list(open_inputs(proto.graph)), file)
    try:
        join_weights(proto, file, folder)
        set_shapes(open_inputs(proto.graph), {n: a.shape for n, a in call.items()}, {})
        proto = prepared(proto, file, whole=False)
        infos = open_inputs(proto.graph)
        example = {n: example_of(info, seed) for seed, (n, info) in enumerate(infos.items())}
        found = survey(proto, example)
    except OnnxError as error:
        raise error.at(file=file) from error.__cause__
    call = {n: call.get(n, tensor.numpy()) for n, tensor in example.items()}
    with one_thread():
        values = Values(proto, _calls(call, chosen, file))
        load = partial(_loaded, proto, found)
        search = Search(flow_of(found), found.why, load, values.of, chosen)
        programs = search.run()
    nodes = [(_name(node), node.op_type) for node in found.graph.node]
    rows = search.rows(nodes, found.folded | found.fixed, programs)
    require_npu(rows, chosen, "ONNX Runtime")
    return Offloaded(
        model=rewritten(proto, found, programs, rows),
        name=file,
        options=chosen,
        graphs={each.payload.name: each.graph for each in programs},
    )


def _named(given: Any, names: Sequence[str], file: str) -> Arrays:
    """A call as arrays by name; `OnnxRuntimeError` where it does not fit the inputs."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        call = dict(given)
    else:
        items = given if isinstance(given, tuple | list) else (given,)
        if len(items) != len(names):
            raise OnnxRuntimeError(
                f"{file}: {len(items)} inputs given, the model has {len(names)}: {', '.join(names)}"
            )
        call = dict(zip(names, items, strict=True))
    if set(call) != set(names):
        raise OnnxRuntimeError(
            f"{file}: inputs {', '.join(call)} given, the model has {', '.join(names)}"
        )
    return {name: np.asarray(call[name]) for name in names}


def _calls(call: Arrays, options: Options, file: str) -> list[Arrays]:
    """The calls that calibrate: the user's, cut to the shapes of `call`, or that one."""
    given = options.calibration
    calls = [_named(each, list(call), file) for each in (given() if callable(given) else given)]
    if not calls:
        return [call]
    tensors = [[torch.from_numpy(each[n]) for n in call] for each in calls]
    parts = split_calls(tensors, [torch.from_numpy(array) for array in call.values()])
    return [dict(zip(call, [t.numpy() for t in part], strict=True)) for part in parts]


def _loaded(proto: Any, found: Survey, region: Region) -> Loaded | Refused:
    """A region as a module, by the ONNX door."""
    model = cut(proto, region, found)
    try:
        loaded = load_onnx(model)
    except OnnxError as error:
        named = [i for i in region.own if _name(found.graph.node[i]) == error.node]
        return dict.fromkeys(named or region.own, error.reason)
    for step in loaded.module.children():
        if isinstance(step, Step):
            step.position = region.nodes[step.position]
    return Loaded(
        module=loaded.module,
        example=loaded.example,
        inputs=tuple(loaded.inputs),
        outputs=tuple(loaded.outputs),
    )


def _name(node: Any) -> str:
    return node.name or next(iter(node.output), "")
