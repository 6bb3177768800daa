"""Capture: a PyTorch module to a functional ATen graph that the quantizer can annotate.

`torch.export` traces it; in-place operators become functional ones, composite operators (linear,
conv2d, pools) stay whole, batch norms in inference mode are folded into their convolution or linear
layer, and max pools whose indices nobody reads lose them.
"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend.dynamic_shapes import dynamic_dims
from sw.compiler.frontend.normalize import normalize
from sw.compiler.frontend.quantization.quantize_nodes import is_quantize
from sw.compiler.frontend.sources import source_line

aten = torch.ops.aten

_CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding, aten.linear.default)
_INDEXED_POOL = aten.max_pool2d_with_indices.default
_BATCH_NORM = aten._native_batch_norm_legit_no_training.default


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
        """
        args, keywords = call_arguments(call)
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
    if isinstance(call, torch.Tensor):
        return (call,), {}
    if isinstance(call, Mapping):
        return (), dict(call)
    items = tuple(call)
    pair = len(items) == 2 and isinstance(items[0], tuple | list) and isinstance(items[1], Mapping)
    return (tuple(items[0]), dict(items[1])) if pair else (items, {})


def flat_tensors(
    args: Sequence[Any], keywords: Mapping[str, Any], order: Sequence[str]
) -> tuple[torch.Tensor, ...]:
    """Every tensor of a call: positional arguments, then keywords in `order`; as float32."""
    unknown = sorted(set(keywords) ^ set(order))
    if unknown:
        raise CompileError(
            f"keyword arguments {', '.join(keywords) or 'none'}: the model was captured with "
            f"{', '.join(order) or 'none'}",
            hint="give the same keyword arguments as the example call",
        )
    leaves = torch.utils._pytree.tree_leaves((tuple(args), [keywords[k] for k in order]))
    return tuple(_single(leaf.detach()) for leaf in leaves if isinstance(leaf, torch.Tensor))


def _single(tensor: torch.Tensor) -> torch.Tensor:
    """Floats as float32; integers as they are."""
    other = tensor.is_floating_point() and tensor.dtype is not torch.float32
    return tensor.float() if other else tensor


def capture(
    model: Any,
    example_inputs: Sequence[Any],
    example_keywords: Mapping[str, Any] | None = None,
    *,
    convert: bool = True,
) -> Captured:
    """The graph of `model` in inference mode for inputs like the examples.

    model: a module, which is not changed (its training flag is put back); an `ExportedProgram`; a
    graph that PT2E has converted. Modules of half or double precision become float32, unless
    `convert` is False.
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
        graph, notes = _exported(model, args, keywords, name, convert)
    tensors = flat_tensors(args, keywords, tuple(keywords))
    results = _flattened(graph)
    fold_batch_norms(graph)
    drop_pool_indices(graph)
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
    model: Any, args: tuple[Any, ...], keywords: dict[str, Any], name: str, convert: bool
) -> tuple[GraphModule, list[str]]:
    """(functional graph, notes) of a module or program through `torch.export`."""
    modes = [(part, part.training) for part in model.modules()] if _is_module(model) else []
    notes: list[str] = []
    try:
        with warnings.catch_warnings():
            # torch's own deprecations inside export say nothing to the user of this compiler.
            warnings.simplefilter("ignore", FutureWarning)
            module = model
            if convert:
                module, args, keywords, notes = _single_precision(model, args, keywords)
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


def _is_module(model: Any) -> bool:
    return isinstance(model, torch.nn.Module)


def _to_inference(module: torch.nn.Module) -> None:
    """Inference mode; programs of `torch.export` are in it, and refuse to be switched."""
    if not (isinstance(module, GraphModule) and hasattr(module, "_guards_fn")):
        try:
            module.eval()
        except NotImplementedError:
            return


def _single_precision(
    model: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any], list[str]]:
    """Model and call with every float as float32, and a note where that changed something."""
    tensors: list[torch.Tensor] = []
    if _is_module(model):
        tensors = [*model.parameters(), *model.buffers()]
    leaves = torch.utils._pytree.tree_leaves((args, keywords))
    tensors += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    others = {t.dtype for t in tensors if t.is_floating_point()} - {torch.float32}
    if isinstance(model, torch.export.ExportedProgram):
        inside = {t.dtype for t in model.state_dict.values() if t.is_floating_point()}
        if inside - {torch.float32}:
            raise CompileError(
                f"the exported program computes in {', '.join(map(str, inside))}",
                hint="export the module in float32: module.float()",
            )
    if not others:
        return model, args, keywords, []
    if _is_module(model):
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


def batch_norm_error(node: Node) -> CompileError:
    """What to say about a batch norm that could not be folded."""
    return CompileError(
        "a batch norm that follows no convolution or linear layer, or one that is used twice, or "
        "whose parameters are computed in forward()",
        node=node.name,
        source=source_line(node),
        hint="only a batch norm right behind such a layer can be folded into its weights",
    )


def fold_batch_norms(graph: GraphModule) -> int:
    """Fold each inference batch norm into the convolution or linear layer before it, in place.

    Returns how many were folded. A batch norm behind anything else stays.
    """
    folded = 0
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is _BATCH_NORM and _foldable(node):
            _fold(graph, node)
            folded += 1
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    graph.recompile()
    return folded


def drop_pool_indices(graph: GraphModule) -> None:
    """Replace max pools with indices by plain ones, in place, where only the values are used.

    PT2E cannot observe an operator that returns a tuple.
    """
    for node in list(graph.graph.nodes):
        results = list(node.users)
        if node.target is not _INDEXED_POOL or any(user.args[1] != 0 for user in results):
            continue
        with graph.graph.inserting_before(node):
            pool = graph.graph.call_function(aten.max_pool2d.default, node.args, node.kwargs)
        pool.meta = {**node.meta, "val": node.meta["val"][0]}
        for user in results:
            user.replace_all_uses_with(pool)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _foldable(norm: Node) -> bool:
    """`CompileError` for a batch norm whose parameters are no constants."""
    layer = norm.args[0]
    if not isinstance(layer, Node) or layer.target not in _CONVOLUTIONS or len(layer.users) != 1:
        return False
    if not isinstance(layer.args[1], Node) or layer.args[1].op != "get_attr":
        return False
    # Parameters that forward() computes have no value yet; PT2E would fail on them.
    for parameter in (*layer.args[2:3], *norm.args[1:5]):
        if isinstance(parameter, Node) and parameter.op != "get_attr":
            raise batch_norm_error(norm)
    return True


def _fold(graph: GraphModule, norm: Node) -> None:
    layer, gamma, beta, mean, variance = (_node(a) for a in norm.args[:5])
    eps = norm.args[6]
    assert layer is not None and isinstance(eps, int | float)
    weight = _tensor(graph, _node(layer.args[1]))
    assert weight is not None
    bias_node = _node(layer.args[2]) if len(layer.args) > 2 else None
    count = weight.shape[0]
    one, zero = torch.ones(count).double(), torch.zeros(count).double()
    # In float64: folding must not be what costs accuracy.
    g, b = _double(graph, gamma, one), _double(graph, beta, zero)
    m, v = _double(graph, mean, zero), _double(graph, variance, one)
    factor = g / torch.sqrt(v + eps)
    new_weight = weight.double() * factor.reshape(-1, *[1] * (weight.dim() - 1))
    new_bias = (_double(graph, bias_node, zero) - m) * factor + b
    with graph.graph.inserting_before(layer):
        args = list(layer.args)
        args[1] = _add(graph, f"{layer.name}_folded_weight", new_weight.to(weight.dtype))
        args[2:3] = [_add(graph, f"{layer.name}_folded_bias", new_bias.to(weight.dtype))]
        layer.args = tuple(args)
    for user in list(norm.users):
        if user.args[1] == 0:  # getitem 0 is the result; the saved statistics are unused
            user.replace_all_uses_with(layer)


def _node(value: object) -> Node | None:
    return value if isinstance(value, Node) else None


def _double(graph: GraphModule, node: Node | None, default: torch.Tensor) -> torch.Tensor:
    value = _tensor(graph, node)
    return default if value is None else value.double()


def _tensor(graph: GraphModule, node: Node | None) -> torch.Tensor | None:
    """The tensor behind a get_attr node."""
    if node is None:
        return None
    value: object = graph
    for part in str(node.target).split("."):
        value = getattr(value, part)
    assert isinstance(value, torch.Tensor)
    return value.detach()


def _add(graph: GraphModule, name: str, value: torch.Tensor) -> Node:
    graph.register_buffer(name, value)
    node = graph.graph.get_attr(name)
    node.meta["val"] = value
    return node
