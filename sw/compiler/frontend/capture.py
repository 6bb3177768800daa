"""Capture: a PyTorch module to a functional ATen graph that the quantizer can annotate.

`torch.export` traces it; in-place operators become functional ones, composite operators (linear,
conv2d, pools) stay whole, batch norms in inference mode are folded into their convolution or linear
layer (`batch_norms.py`), sums of convolutions of one value become one (`rewrites/branches.py`), and
what has no rule is rewritten (`normalize.py`).
"""

import contextlib
import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend.batch_norms import fold_batch_norms, parameters_of
from sw.compiler.frontend.dynamic_shapes import dynamic_dims
from sw.compiler.frontend.normalize import normalize
from sw.compiler.frontend.quantization.quantize_nodes import is_quantize
from sw.compiler.frontend.rewrites.branches import join_branches
from sw.compiler.frontend.rewrites.single import compute_in_single


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A model's graph, and how calls of the model become calls of the graph.

    example: the tensors of the example call that the graph reads, in its order. used: which of the
    call's tensors those are. keywords: the names of the keyword arguments, in that order. results:
    how the graph's outputs make up what the model returns. notes: what was changed on the way, for
    people.
    """

    graph: GraphModule
    name: str
    example: tuple[torch.Tensor, ...]
    used: tuple[int, ...]
    keywords: tuple[str, ...] = ()
    results: Any = None
    notes: tuple[str, ...] = ()

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """Of the graph's outputs, in order."""
        (output,) = (n for n in self.graph.graph.nodes if n.op == "output")
        leaves = torch.utils._pytree.tree_leaves(output.args)
        return [tuple(leaf.meta["val"].shape) for leaf in leaves if isinstance(leaf, Node)]

    def flat(self, call: Any) -> tuple[torch.Tensor, ...]:
        """The tensors of a call, in the graph's order.

        call: a tensor, a sequence of arguments, a mapping of keyword arguments, or a pair of both.
        Arrays of NumPy are as good as tensors.
        """
        args, keywords = torch.utils._pytree.tree_map(_as_tensor, call_arguments(call))
        tensors = flat_tensors(args, keywords, self.keywords)
        if len(tensors) <= max(self.used, default=-1):
            raise CompileError(
                f"{len(tensors)} tensors given, the model takes at least {max(self.used) + 1}"
            )
        return tuple(tensors[i] for i in self.used)

    def returned(self, outputs: Sequence[Any]) -> Any:
        """What the model returns, made of the graph's outputs: a tensor, tuple, dictionary, …"""
        if self.results is None:
            return tuple(outputs)
        return torch.utils._pytree.tree_unflatten(list(outputs), self.results)


def call_arguments(call: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(positional, keyword) arguments of a call as users write it; see `Captured.flat`."""
    if isinstance(call, torch.Tensor | np.ndarray):
        return (call,), {}
    if isinstance(call, Mapping):
        return (), dict(call)
    items = tuple(call)
    pair = len(items) == 2 and isinstance(items[0], tuple | list) and isinstance(items[1], Mapping)
    return (tuple(items[0]), dict(items[1])) if pair else (items, {})


def _as_tensor(leaf: Any) -> Any:
    return torch.as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf


def flat_tensors(
    args: Sequence[Any], keywords: Mapping[str, Any], order: Sequence[str]
) -> tuple[torch.Tensor, ...]:
    """Every tensor of a call: positional arguments, then keywords in `order`; as float32."""
    return tuple(_single(leaf.detach()) for leaf in tensors_of(args, keywords, order))


def tensors_of(
    args: Sequence[Any], keywords: Mapping[str, Any], order: Sequence[str]
) -> list[torch.Tensor]:
    """`flat_tensors` as they were given."""
    if set(keywords) != set(order):
        raise CompileError(
            f"keyword arguments {', '.join(keywords) or 'none'}: the model was captured with "
            f"{', '.join(order) or 'none'}",
            hint="give the same keyword arguments as the example call",
        )
    leaves = torch.utils._pytree.tree_leaves((tuple(args), [keywords[k] for k in order]))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _single(tensor: torch.Tensor) -> torch.Tensor:
    """Floats as float32; integers as they are."""
    return tensor.float() if tensor.is_floating_point() else tensor


def capture(
    model: Any,
    example_inputs: Sequence[Any],
    example_keywords: Mapping[str, Any] | None = None,
    *,
    convert: bool = True,
    whole: bool = True,
) -> Captured:
    """The graph of `model` in inference mode for inputs like the examples.

    model: a module, which is not changed (its training flag is put back); an `ExportedProgram`; a
    graph that PT2E has converted. `convert`: parameters and inputs of half and double precision
    become float32. `whole`: the model is compiled as a whole, so that floats inside it become
    float32 too; a part keeps its types, because others read its results.
    `CompileError` where `torch.export` cannot trace it.
    """
    keywords = dict(example_keywords or {})
    args = tuple(example_inputs)
    name = type(model).__name__
    if isinstance(model, torch.export.ExportedProgram):
        args, keywords = _example_call(model, args, keywords)
        name = "program"
    if isinstance(model, GraphModule) and _is_functional(model):
        graph, notes = model, list[str]()
    else:
        graph, notes = _exported(model, args, keywords, name, convert, whole)
    tensors = flat_tensors(args, keywords, tuple(keywords))
    results = _flattened(graph)
    if convert and whole:
        compute_in_single(graph)
    fold_batch_norms(graph)
    join_branches(graph, parameters_of(graph))
    normalize(graph)
    used, unused = _drop_unused(graph)
    if unused:
        notes = [*notes, f"inputs that are not used: {', '.join(unused)}"]
    return Captured(
        graph=graph,
        name=name,
        example=tuple(tensors[i] for i in used),
        used=used,
        keywords=tuple(keywords),
        results=results,
        notes=tuple(notes),
    )


def _flattened(graph: GraphModule) -> Any:
    """Make the graph a function of tensors that returns a tuple; the structure of its results."""
    info = getattr(graph.graph._codegen, "pytree_info", None)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    graph._forward_pre_hooks.clear()  # those of export check the model's own arguments
    for node in list(graph.graph.nodes):
        if node.op == "placeholder" and not isinstance(node.meta.get("val"), torch.Tensor):
            if node.users:
                raise CompileError(
                    f"argument {node.name} is {type(node.meta.get('val')).__name__} and computed "
                    "with: only tensors can be inputs of a program",
                    hint="make it a constant of the module",
                )
            graph.graph.erase_node(node)
    graph.recompile()
    return None if info is None else info.out_spec


def _drop_unused(graph: GraphModule) -> tuple[tuple[int, ...], list[str]]:
    """(positions of the inputs that are read, names of the others), which are removed."""
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    used = tuple(i for i, node in enumerate(nodes) if node.users)
    unused = [node for node in nodes if not node.users]
    for node in unused:
        graph.graph.erase_node(node)
    graph.recompile()
    return used, [node.name for node in unused]


def _example_call(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The given call, or the one that the program was exported with."""
    if args or keywords:
        return args, keywords
    if program.example_inputs is None:
        raise CompileError(
            "the exported program has no example inputs", hint="give example inputs with it"
        )
    args, keywords = program.example_inputs
    return tuple(args), dict(keywords)


def _is_functional(module: GraphModule) -> bool:
    """Whether a graph is what export gives: ATen operators with shapes and types noted."""
    calls = [n for n in module.graph.nodes if n.op not in ("get_attr", "output")]
    flat = isinstance(module.graph._codegen, torch.fx.graph._PyTreeCodeGen) is False
    plain = all(n.op in ("placeholder", "call_function") and "val" in n.meta for n in calls)
    return plain and (flat or any(map(is_quantize, calls)))


def _exported(
    model: Any, args: tuple[Any, ...], keywords: dict[str, Any], name: str, convert: bool,
    whole: bool,
) -> tuple[GraphModule, list[str]]:  # fmt: skip
    """(functional graph, notes) of a module or program through `torch.export`."""
    is_module = isinstance(model, torch.nn.Module)
    modes = [(part, part.training) for part in model.modules()] if is_module else []
    notes: list[str] = []
    try:
        with warnings.catch_warnings():
            # torch's own deprecations inside export say nothing to the user of this compiler.
            warnings.simplefilter("ignore", FutureWarning)
            module = model
            if convert:
                module, args, keywords, notes = _single_precision(model, args, keywords, whole)
            if isinstance(module, torch.export.ExportedProgram) and dynamic_dims(module):
                notes.append(
                    "exported with dynamic shapes, compiled for those of the example: "
                    + "; ".join(dynamic_dims(module))
                )
                module = module.module(check_guards=False)
            if not isinstance(module, torch.export.ExportedProgram):
                _to_inference(module)
                module = torch.export.export(module, args, keywords, strict=False)
            # No decompositions: this only makes in-place operators functional.
            graph = module.run_decompositions({}).module(check_guards=False)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"torch.export cannot trace {name}: {_first_line(error)}", hint=_export_hint(error)
        ) from error
    finally:
        for part, training in modes:
            part.training = training
    return graph, notes


def _to_inference(module: torch.nn.Module) -> None:
    """Inference mode; programs of `torch.export` are in it, and refuse to be switched."""
    if not (isinstance(module, GraphModule) and hasattr(module, "_guards_fn")):
        with contextlib.suppress(NotImplementedError):
            module.eval()


def _single_precision(
    model: Any, args: tuple[Any, ...], keywords: dict[str, Any], whole: bool
) -> tuple[Any, tuple[Any, ...], dict[str, Any], list[str]]:
    """Model and call with every float as float32, and a note where that changed something."""
    is_module = isinstance(model, torch.nn.Module)
    tensors = [*model.parameters(), *model.buffers()] if is_module else []
    leaves = torch.utils._pytree.tree_leaves((args, keywords))
    tensors += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if isinstance(model, torch.export.ExportedProgram):
        tensors += model.state_dict.values()
    others = {t.dtype for t in tensors if t.is_floating_point()} - {torch.float32}
    if others and not whole and isinstance(model, torch.export.ExportedProgram):
        raise CompileError(
            f"the exported program computes in {', '.join(map(str, others))}",
            hint="export the module in float32: module.float()",
        )
    if not others:
        return model, args, keywords, []
    if is_module:
        model = copy.deepcopy(model).float()
    args, keywords = torch.utils._pytree.tree_map_only(torch.Tensor, _single, (args, keywords))
    names = ", ".join(sorted(str(d).removeprefix("torch.") for d in others))
    return model, args, keywords, [f"converted from {names} to float32"]


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else repr(error)


def _export_hint(error: Exception) -> str:
    """A way out that fits what went wrong."""
    text = f"{type(error).__name__} {error}"
    if any(word in text for word in ("DataDependent", "data-dependent", "GuardOn", "Constrain")):
        return "control flow on tensor values cannot be exported; use torch.where, or torch.cond"
    if isinstance(error, TypeError) and "argument" in text:
        return "the example inputs must be the arguments of forward(), in its order"
    if "shape" in text or "size" in text or "dimension" in text:
        return "the example inputs have to fit the model: check their shapes and order"
    if "dtype" in text or "type" in text:
        return "the example inputs have to fit the model: check their types"
    return "run the model on the example inputs without this compiler first"
