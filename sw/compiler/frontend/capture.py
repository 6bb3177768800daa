"""Capture: a PyTorch module to a functional ATen graph that the quantizer can annotate.

`torch.export` traces it; in-place operators become functional ones, composite operators (linear,
conv2d, pools) stay whole, batch norms in inference mode are folded into their convolution or linear
layer, and max pools whose indices nobody reads lose them.
"""

import warnings
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError

aten = torch.ops.aten

_CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding, aten.linear.default)
_INDEXED_POOL = aten.max_pool2d_with_indices.default
_BATCH_NORM = aten._native_batch_norm_legit_no_training.default


def capture(module: torch.nn.Module, example_inputs: Sequence[torch.Tensor]) -> GraphModule:
    """The graph of `module` in inference mode for inputs shaped like `example_inputs`.

    The module itself is not changed (its training flag is put back). `CompileError` where
    `torch.export` cannot trace it.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with warnings.catch_warnings():
            # torch's own deprecations inside export say nothing to the user of this compiler.
            warnings.simplefilter("ignore", FutureWarning)
            program = torch.export.export(module, tuple(example_inputs), strict=False)
            # No decompositions: this only makes in-place operators functional.
            graph = program.run_decompositions({}).module(check_guards=False)
    except Exception as error:
        text = str(error).strip().splitlines()
        raise CompileError(
            f"torch.export cannot trace {type(module).__name__}: {text[0] if text else error!r}",
            hint="control flow on tensor values and calls outside PyTorch cannot be exported",
        ) from error
    finally:
        for part, training in modes:
            part.training = training
    fold_batch_norms(graph)
    drop_pool_indices(graph)
    return graph


def source_line(node: Node) -> str:
    """`file:line: code` in the user's model that `node` comes from, '' if unknown.

    The innermost frame outside the torch package.
    """
    lines = (node.meta.get("stack_trace") or "").splitlines()
    best = ""
    for i, line in enumerate(lines):
        text = line.strip()
        if text.startswith('File "') and "/torch/" not in text.replace("\\", "/"):
            path, _, rest = text[6:].partition('", line ')
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            best = f"{path}:{rest.split(',')[0]}: {code}"
    return best


def module_path(node: Node) -> str:
    """Path of the submodule of the user's model that `node` comes from, '' for the model itself."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


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
