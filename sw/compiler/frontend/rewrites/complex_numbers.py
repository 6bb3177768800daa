"""Complex values become pairs of real ones: rotated positions, products of spectra, transforms.

The NPU computes with real numbers. Each operator with a complex operand or result is replaced by
what it does to real and imaginary parts. What only the imaginary part needs is dropped where
nobody reads it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule, Node, map_arg
from torch.utils import _pytree as pytree

from sw.compiler.frontend.nodes import aten, result, shape
from sw.compiler.frontend.operator_sets import REFUSED
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.rewrites import fourier
from sw.compiler.frontend.rewrites.tracing import called, copied, inline, traced


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor."""

    re: Any
    im: Any


Value = Any
"""A tensor, a number, or Parts."""


def compute_in_reals(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same.

    An operator that has no form for parts stays as it is, with the reason.
    """
    _open_transforms(module)
    fixed = fixed_nodes(module)
    known: dict[Node, Parts] = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node in fixed or not _concerns(node):
            continue
        operands = [n for n in node.all_input_nodes if _is_complex(n)]
        for operand in operands:
            if operand in fixed and operand not in known:
                known[operand] = _parts_of_constant(operand)
        if all(operand in known for operand in operands):
            _replace(module, node, known)
    module.graph.eliminate_dead_code()
    _explain(module, fixed)


def _explain(module: GraphModule, fixed: set[Node]) -> None:
    """Complex operators that stayed only because of others say which one."""
    left = [n for n in module.graph.nodes if n.op == "call_function" and n not in fixed]
    left = [n for n in left if _concerns(n)]
    refused = [n for n in left if REFUSED in n.meta]
    for node in left if refused else ():
        node.meta.setdefault(REFUSED, f"complex numbers: {refused[0].meta[REFUSED]}")


def _is_complex(node: Node) -> bool:
    value = result(node)
    return value is not None and value.dtype.is_complex


def _concerns(node: Node) -> bool:
    return _is_complex(node) or any(_is_complex(n) for n in node.all_input_nodes)


def _open_transforms(module: GraphModule) -> None:
    """`fft_rfft2` and its kin, and einsum, as the operators that they are made of; of a view as
    real numbers the part that is read.
    """
    for node in list(module.graph.nodes):
        if node.target is aten.select.int and node.args[0].target is aten.view_as_real.default:
            _, dim, index = node.args
            if dim in (-1, len(shape(node))) and index in (0, 1):
                node.target = (aten.real.default, aten.imag.default)[index]
                node.args = (node.args[0].args[0],)
            continue
        target: Any = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        whole = target._opname.startswith("fft_")
        if whole or (target is aten.einsum.default and _concerns(node)):
            inline(module, node, traced(node, target, (), whole=False))


def _parts_of_constant(node: Node) -> Parts:
    with node.graph.inserting_after(node):
        im = called(node, aten.imag.default, node)
        return Parts(called(node, aten.real.default, node), im)


def _replace(module: GraphModule, node: Node, known: dict[Node, Parts]) -> None:
    """`node` by what it does to parts; those of its result are `known` then."""
    target: Any = node.target
    function = _FUNCTIONS.get(target._opname) or partial(_by_parts, target)

    def run(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if isinstance(made, Parts) != _is_complex(node):
            raise ValueError(f"{target._opname} that changes the type of complex numbers")
        return tuple(made) if isinstance(made, Parts) else made

    args, kwargs = map_arg((node.args, node.kwargs), lambda leaf: known.get(leaf, leaf))
    with module.graph.inserting_before(node):
        call = module.graph.call_function(target, args, kwargs)
        call.meta = {key: value for key, value in node.meta.items() if key != "val"}
        try:
            made = copied(module, traced(call, run, ()), call)
        except Exception as error:  # whoever meets the operator must know why it stayed
            node.meta[REFUSED] = f"{type(error).__name__}: {error}".splitlines()[0]
            made = None
    module.graph.erase_node(call)
    if isinstance(made, Node):
        node.replace_all_uses_with(made)
    elif made is not None:
        known[node] = Parts(*made)


# What operators do to parts -----------------------------------------------------------------------


def _re(value: Value) -> Any:
    return value.re if isinstance(value, Parts) else value.real if _is_number(value) else value


def _im(value: Value) -> Any:
    if isinstance(value, Parts):
        return value.im
    return value.imag if _is_number(value) else torch.zeros_like(value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | complex)


def _by_parts(target: Any, *args: Any, **kwargs: Any) -> Parts:
    """An operator that does the same to both parts: sums, moves, negation.

    Real tensors are values of an operator in `_JOINS`, without an imaginary part; elsewhere they
    are indices.
    """
    name = str(target._opname)
    if name not in _MOVES | _JOINS:
        raise ValueError(f"{name} of complex numbers")

    def taken(leaf: Any, take: Callable[[Value], Any]) -> Any:
        is_value = isinstance(leaf, Parts) or (name in _JOINS and isinstance(leaf, Tensor))
        return take(leaf) if is_value else leaf

    def is_leaf(leaf: Any) -> bool:
        return isinstance(leaf, Parts)

    made = []
    for take in (_re, _im):
        part = partial(taken, take=take)
        mine, named = pytree.tree_map(part, (args, kwargs), is_leaf=is_leaf)
        made.append(target(*mine, **named))
    return Parts(*made)


_MOVES = {
    *("_unsafe_view", "alias", "clone", "contiguous", "cumsum", "detach", "diagonal", "expand"),
    *("flatten", "flip", "index", "index_select", "lift_fresh_copy", "mean", "movedim", "narrow"),
    *("neg", "permute", "repeat", "reshape", "roll", "select", "slice", "squeeze", "sum", "t"),
    *("transpose", "tril", "triu", "unflatten", "unsqueeze", "view"),
}
_JOINS = {"cat", "copy", "select_scatter", "slice_scatter", "stack"}


def _add(a: Value, b: Value, alpha: float = 1) -> Parts:
    re, im = (_re(b), _im(b)) if alpha == 1 else (_re(b) * alpha, _im(b) * alpha)
    return Parts(_re(a) + re, _im(a) + im)


def _pad(x: Parts, pads: Any, value: float = 0.0) -> Parts:
    return Parts(torch.constant_pad_nd(x.re, pads, value), torch.constant_pad_nd(x.im, pads))


def _where(condition: Tensor, a: Value, b: Value) -> Parts:
    return Parts(torch.where(condition, _re(a), _re(b)), torch.where(condition, _im(a), _im(b)))


def _mul(a: Value, b: Value) -> Value:
    if not isinstance(a, Parts):
        a, b = b, a
    if not isinstance(b, Parts | complex):
        return Parts(_re(a) * b, _im(a) * b)
    return Parts(_re(a) * _re(b) - _im(a) * _im(b), _re(a) * _im(b) + _im(a) * _re(b))


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Parts, b: Parts) -> Parts:
    return Parts(
        multiply(a.re, b.re) - multiply(a.im, b.im), multiply(a.re, b.im) + multiply(a.im, b.re)
    )


def _div(a: Value, b: Value) -> Parts:
    if not isinstance(b, Parts | complex):
        return Parts(_re(a) / b, _im(a) / b)
    size = _re(b) * _re(b) + _im(b) * _im(b)
    inverse = Parts(_re(b) / size, -_im(b) / size)
    return _mul(a if isinstance(a, Parts | Tensor) else Parts(a, 0.0), inverse)


def _abs(x: Parts) -> Tensor:
    return torch.sqrt(x.re * x.re + x.im * x.im)


def _exp(x: Parts) -> Parts:
    size = torch.exp(x.re)
    return Parts(size * torch.cos(x.im), size * torch.sin(x.im))


def _view_as_complex(x: Tensor) -> Parts:
    return Parts(x.select(-1, 0), x.select(-1, 1))


def _to(x: Value, *args: Any, **given: Any) -> Value:
    """A change of type: to a complex one, or of complex numbers."""
    types = [v for v in (*args, *given.values()) if isinstance(v, torch.dtype)]
    if types and not types[0].is_complex:
        return x.re.to(types[0])
    return x if isinstance(x, Parts) else Parts(x, torch.zeros_like(x))


def _zeros_like(x: Value, **_: Any) -> Parts:
    return Parts(torch.zeros_like(_re(x)), torch.zeros_like(_re(x)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "real": lambda x: _re(x),
    "imag": lambda x: _im(x),
    "abs": _abs,
    "exp": _exp,
    "add": _add,
    "sub": lambda a, b, alpha=1: _add(a, b, -alpha),
    "rsub": lambda a, b, alpha=1: _add(b, a, -alpha),
    "constant_pad_nd": _pad,
    "where": _where,
    "mul": _mul,
    "div": _div,
    "mm": partial(_product, torch.mm),
    "bmm": partial(_product, torch.bmm),
    "matmul": partial(_product, torch.matmul),
    "square": lambda x: _mul(x, x),
    "complex": lambda re, im: Parts(re, im),
    "polar": lambda size, angle: Parts(size * torch.cos(angle), size * torch.sin(angle)),
    "view_as_complex": _view_as_complex,
    "view_as_real": lambda x: torch.stack([x.re, x.im], -1),
    "_conj": lambda x: Parts(x.re, -x.im),
    "conj": lambda x: Parts(x.re, -x.im),
    "_conj_physical": lambda x: Parts(x.re, -x.im),
    "conj_physical": lambda x: Parts(x.re, -x.im),
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
    "to": _to,
    "_to_copy": _to,
    "zeros_like": _zeros_like,
    "_fft_r2c": lambda x, *given: Parts(*fourier.of_real(x, *given)),
    "_fft_c2c": lambda x, *given: Parts(*fourier.of_complex(x.re, x.im, *given)),
    "_fft_c2r": lambda x, *given: fourier.to_real(x.re, x.im, *given),
    "stft": lambda *given, **named: Parts(*fourier.of_frames(*given, **named)),
}
"""What operators do to parts, by their names."""
