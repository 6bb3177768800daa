"""`offload`: which calls of a Relax function become programs of the NPU."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sw.compiler.frontend.quantization.samples import split_calls
from sw.compiler.frontend.threads import one_thread
from sw.frontends.delegates.options import all_options
from sw.frontends.delegates.search import Search, require_npu
from sw.frontends.tvm.errors import TvmError
from sw.frontends.tvm.host import Host
from sw.frontends.tvm.offloaded import Offloaded
from sw.frontends.tvm.reading import parameters_of, read
from sw.frontends.tvm.records import Function
from sw.frontends.tvm.rewriting import offloaded_module
from sw.frontends.tvm.survey import example_of, loaded, survey
from sw.frontends.tvm.values import Calibration
from sw.torch_backend.options import Options

Array = NDArray[Any]


def offload(
    module: Any, inputs: Any = None, *, function: str = "main", **options: Any
) -> Offloaded:
    """The module with what the NPU takes of a function as programs.

    module: an IRModule with Relax operators, which is not changed. inputs: a call: an array of
    NumPy, PyTorch or TVM, a sequence in the order of the parameters, or arrays by name. Sizes that
    the function leaves open are those of the call, and it calibrates the model unless
    `calibration` has calls. Without it floats are random. options: config, policy, rows,
    calibration, fallback, cache, progress, device, latency, stall, seed, clock_mhz, memory, check,
    verify: as `torch.compile(backend="systola")` has them. `TvmError` for a module that cannot be
    read, `OptionError` for an option, `NotCompiledError` without fallback.
    """
    chosen = all_options(options)
    names = parameters_of(module, function)
    given = None if inputs is None else _arrays(inputs, names, function)
    shapes = {} if given is None else {n: a.shape for n, a in zip(names, given, strict=True)}
    record = read(module, function, shapes)
    example = _example(record, given)
    with one_thread():
        found = survey(record)
        calls = _calls(record, example, chosen)
        values = Calibration(record, calls)
        search = Search(found.flow, found.why, partial(loaded, found), values.of, chosen)
        programs = search.run()
    rows = search.rows([(call.name, call.op) for call in record.calls], found.folded, programs)
    require_npu(rows, chosen, "TVM")
    host = Host(
        chosen,
        [each.payload for each in programs],
        {each.payload.name: each.graph for each in programs},
    )
    made = offloaded_module(found, programs, host.name)
    return Offloaded(module=made, name=function, host=host, rows=rows)


def _arrays(given: Any, names: Sequence[str], function: str) -> list[Array]:
    """A call in the order of the parameters; `TvmError` where it does not fit them."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise TvmError(
                f"{function}: inputs {', '.join(given)} given, the function has {', '.join(names)}"
            )
        items = [given[name] for name in names]
    else:
        items = list(given) if isinstance(given, tuple | list) else [given]
    if len(items) != len(names):
        raise TvmError(
            f"{function}: {len(items)} inputs given, the function has {len(names)}: "
            f"{', '.join(names)}\n  hint: relax.transform.BindParams gives weights to a function"
        )
    return [_array(item) for item in items]


def _array(item: Any) -> Array:
    if isinstance(item, torch.Tensor):
        item = item.detach()
    return np.asarray(item.numpy() if hasattr(item, "numpy") else item)


def _example(record: Function, given: Sequence[Array] | None) -> list[Array]:
    """The call that is given, or a random one; `TvmError` for shapes that are open or others."""
    found = []
    for i, name in enumerate(record.params):
        kind = record.types[name]
        if kind.shape is None:
            raise TvmError(
                f"{record.name}: {name} has sizes that are open\n  hint: give inputs, whose shapes "
                "are taken"
            )
        array = example_of(kind, i).numpy() if given is None else given[i]
        if (array.shape, array.dtype.name) != (kind.shape, kind.dtype):
            raise TvmError(
                f"{record.name}: {name} is {array.dtype.name}{list(array.shape)}: must be {kind}"
            )
        found.append(array)
    return found


def _calls(record: Function, example: Sequence[Array], options: Options) -> list[list[Array]]:
    """The calls that calibrate: the user's, cut to the shapes of the example, or that."""
    given = options.calibration
    calls = list(given() if callable(given) else given)
    if not calls:
        return [list(example)]
    tensors = [
        [torch.from_numpy(a) for a in _arrays(call, record.params, record.name)] for call in calls
    ]
    parts = split_calls(tensors, [torch.from_numpy(array) for array in example])
    return [[t.numpy() for t in part] for part in parts]
