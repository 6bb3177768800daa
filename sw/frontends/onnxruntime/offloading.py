"""`offload`: which nodes of an ONNX model become programs of the NPU."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.samples import split_calls
from sw.compiler.frontend.threads import one_thread
from sw.frontends.delegates.options import all_options
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.model import example_of, open_inputs, set_shapes
from sw.frontends.onnx.reading import prepared, read
from sw.frontends.onnx.weights import join_weights
from sw.frontends.onnxruntime.compiling import Compiled, compiled_region, loaded_region
from sw.frontends.onnxruntime.errors import OnnxRuntimeError
from sw.frontends.onnxruntime.offloaded import Offloaded
from sw.frontends.onnxruntime.regions import Region, cut, split
from sw.frontends.onnxruntime.rewriting import rewritten
from sw.frontends.onnxruntime.survey import CONSTANT, Survey, survey
from sw.frontends.onnxruntime.values import Values
from sw.torch_backend.options import Options
from sw.torch_backend.variant import NotCompiledError

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
        search = _Search(proto, found, chosen, Values(proto, _calls(call, chosen, file)))
        programs = search.run()
    rows = search.rows(programs)
    _require_npu(rows, chosen)
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


class _Search:
    """Regions are compiled until each of them becomes a program: what prevents one is left out."""

    def __init__(self, proto: Any, found: Survey, options: Options, values: Values) -> None:
        self._proto, self._survey, self._options, self._values = proto, found, options, values
        self.why = dict(found.why)
        self._done: dict[Region, Compiled] = {}

    def run(self) -> list[Compiled]:
        """The programs, in an order of execution."""
        while True:
            before = len(self.why)
            regions = split(self._survey, self.why)
            for region in regions:
                if region not in self._done:
                    self._compile(region)
            if len(self.why) == before:
                found = [self._done[region] for region in regions]
                return [each.named(f"npu_{i}") for i, each in enumerate(found)]

    def _compile(self, region: Region) -> None:
        attempt = loaded_region(region, cut(self._proto, region, self._survey))
        if isinstance(attempt, dict):
            self.why.update(attempt)
            return
        calls = [[torch.from_numpy(a) for a in call] for call in self._values.of(attempt.inputs)]
        made = compiled_region(attempt, self._options, calls)
        if isinstance(made, dict):
            self.why.update(made)
        else:
            self._done[region] = made

    def rows(self, programs: Sequence[Compiled]) -> list[dict[str, str]]:
        """Where each node runs, and why, as `node_table` takes it."""
        survey = self._survey
        where = {i: each.payload.name for each in programs for i in each.region.own}
        rows = []
        for i, node in enumerate(survey.graph.node):
            constant = i in survey.folded or i in survey.fixed
            rows.append(
                {
                    "where": "constant" if constant else where.get(i, "cpu"),
                    "name": node.name or next(iter(node.output), ""),
                    "target": node.op_type,
                    "module": "",
                    "source": "",
                    "reason": CONSTANT if constant else self.why.get(i, ""),
                }
            )
        return rows


def _require_npu(rows: Sequence[Mapping[str, str]], options: Options) -> None:
    for row in rows if not options.fallback else ():
        if row["where"] == "cpu":
            raise NotCompiledError(
                f"{row['name']} ({row['target']}) cannot run on the NPU: {row['reason']}\n"
                "  hint: fallback=True leaves it to ONNX Runtime"
            )
