"""An ONNX model with operators of the NPU in place of regions, and what is read of such a model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from spec.image_file import cut as shortened
from sw.frontends.delegates.compiling import Compiled
from sw.frontends.delegates.payload import Payload, read_payload
from sw.frontends.onnx.model import open_inputs
from sw.frontends.onnx.node import reads_of
from sw.frontends.onnx.reading import PROGRAMS, ordered
from sw.frontends.onnxruntime.errors import OnnxRuntimeError
from sw.frontends.onnxruntime.regions import initializers
from sw.frontends.onnxruntime.survey import Survey

OPERATOR = "SystolaProgram"
"""The operator that stands for a program."""

_RAW = "systola_unchecked"
_FACTS = "systola"


def domain_of(payload: Payload) -> str:
    """The domain of a program's operator, which says the types of what it takes and gives.

    onnxruntime-extensions has one list of operators for each domain. It moves in memory when it
    grows, while sessions that are open point into it: so a domain has one operator.
    """
    sides = [[a.dtype for a in each] for each in (payload.inputs, payload.outputs)]
    return f"{PROGRAMS}{'_'.join(sides[0])}.{'_'.join(sides[1])}"


def rewritten(
    proto: Any, survey: Survey, programs: Sequence[Compiled], nodes: Iterable[Mapping[str, Any]]
) -> Any:
    """The model with an operator for each program. nodes: where each node runs, for the report."""
    import onnx
    from onnx import helper

    model = onnx.ModelProto()
    model.CopyFrom(proto)
    graph = model.graph
    gone = survey.folded | {i for each in programs for i in each.region.own}
    kept = [node for i, node in enumerate(survey.graph.node) if i not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    shapes = [each for program in programs for each in _operator(graph, program, survey)]
    free = list(open_inputs(graph).values())
    del graph.input[:]
    graph.input.extend(free)
    kept_arrays = {each.name: each for each in graph.initializer}
    _drop_unread(graph)
    read = _all_read(graph)
    folded = {name for i in survey.folded for name in survey.graph.node[i].output}
    del graph.initializer[:]
    graph.initializer.extend(kept_arrays[name] for name in sorted(read & set(kept_arrays)))
    graph.initializer.extend(initializers(survey.constants, read & folded))
    graph.initializer.extend(shapes)
    del graph.value_info[:]
    domains = sorted({domain_of(each.payload) for each in programs})
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    facts = json.dumps({"nodes": list(nodes)})
    helper.set_model_props(model, {**_props(model), _FACTS: facts})
    return ordered(model)


def _operator(graph: Any, program: Compiled, survey: Survey) -> list[Any]:
    """Add the node of a program. ONNX Runtime ends with an operator of Python that raises.

    So it gives empty tensors in place of an error, and a Reshape behind each result refuses these.
    """
    from onnx import helper, numpy_helper

    payload, shapes = program.payload, []
    raw = [f"{name}/{_RAW}" for name in program.outputs]
    data = np.frombuffer(payload.to_bytes(), np.uint8)
    graph.node.append(
        helper.make_node(
            OPERATOR, program.inputs, raw, payload.name, domain=domain_of(payload),
            session="", program=payload.name, payload=numpy_helper.from_array(data, "payload"),
        )
    )  # fmt: skip
    for given, name in zip(raw, program.outputs, strict=True):
        shape = f"{name}/systola_shape"
        sizes = np.array(survey.values[name].shape, np.int64)
        shapes.append(numpy_helper.from_array(sizes, shape))
        graph.node.append(
            helper.make_node("Reshape", [given, shape], [name], f"{payload.name} failed if {name}")
        )
    return shapes


def _drop_unread(graph: Any) -> None:
    """Remove the nodes whose results nobody reads."""
    nodes = list(graph.node)
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needed, todo = set[int](), [makers[o.name] for o in graph.output if o.name in makers]
    while todo:
        i = todo.pop()
        if i not in needed:
            needed.add(i)
            todo += [makers[name] for name in reads_of(nodes[i]) if name in makers]
    copies = [nodes[i] for i in sorted(needed)]
    del graph.node[:]
    graph.node.extend(copies)


def _all_read(graph: Any) -> set[str]:
    outputs = {each.name for each in graph.output}
    return outputs.union(*(reads_of(node) for node in graph.node))


def _props(model: Any) -> dict[str, str]:
    return {each.key: each.value for each in model.metadata_props}


def operators_of(model: Any) -> list[Any]:
    """The nodes of a model that are programs of the NPU."""
    return [
        node
        for node in model.graph.node
        if node.op_type == OPERATOR and node.domain.startswith(PROGRAMS)
    ]


def payloads_of(model: Any, file: str) -> dict[str, Payload]:
    """The programs in a model, by name; `DelegateError` or `OnnxRuntimeError` for damaged ones."""
    found: dict[str, Payload] = {}
    for node in operators_of(model):
        where = f"{file}: node {node.name}"
        stored = {each.name: each for each in node.attribute}
        if not {"program", "payload", "session"} <= set(stored):
            raise OnnxRuntimeError(f"{where}: has no program; offload the model again")
        payload = read_payload(stored["payload"].t.raw_data, where)
        name = stored["program"].s.decode(errors="replace")
        fits = (name, node.domain, len(node.input), len(node.output)) == (
            payload.name, domain_of(payload), len(payload.inputs), len(payload.outputs),
        )  # fmt: skip
        if not fits or name in found:
            raise OnnxRuntimeError(
                f"{where}: its program {payload.name} belongs to another node; offload the model "
                "again"
            )
        found[name] = payload
    return found


def rows_of(model: Any, file: str) -> list[dict[str, str]]:
    """Where each node of the model that was offloaded runs, as `rewritten` was told."""
    try:
        rows = json.loads(_props(model).get(_FACTS, ""))["nodes"]
        names = ("where", "name", "target", "module", "source", "reason")
        return [{name: str(row[name]) for name in names} for row in rows]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise OnnxRuntimeError(
            f"{file}: no model that systola.onnx.offload wrote, or damaged: {shortened(error)}"
        ) from None


def with_session(model: Any, session: str) -> Any:
    """The model with the name of a session in its operators."""
    for node in operators_of(model):
        for each in node.attribute:
            if each.name == "session":
                each.s = session.encode()
    return model
