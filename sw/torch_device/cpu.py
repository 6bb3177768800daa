"""Operators on the CPU that read and write the device's memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from sw.torch_device.memory import allocate, host


def to_device(value: Any) -> Any:
    """A tensor of the CPU as a new one of the device; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    tensor = allocate(value.shape, torch.empty_like(value).stride(), value.dtype)
    host(tensor).copy_(value)
    return tensor


def on_cpu(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `op` gives for tensors of the device; what it writes to is written to."""
    written = _written(op, args, kwargs)
    outs = {id(t): torch.empty(0, dtype=t.dtype) for t in _outs(op, kwargs)}

    def leaf(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return outs[id(value)] if id(value) in outs else host(value)
        on_device = isinstance(value, torch.device) and value.type == "systola"
        return torch.device("cpu") if on_device else value

    host_args, host_kwargs = tree_map(leaf, (tuple(args), dict(kwargs)))
    results = op(*host_args, **host_kwargs)
    for out in _outs(op, kwargs):
        found = outs[id(out)]
        if out.shape != found.shape:
            out.resize_(found.shape)
        host(out).copy_(found)
    if written:
        return _returned(op, written, results)
    return tree_map(lambda value: to_device(value), results)


def _outs(op: OpOverload, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors that keywords `out…` give for results."""
    names = [a.name for a in op._schema.arguments if a.is_out]
    return [kwargs[n] for n in names if isinstance(kwargs.get(n), torch.Tensor)]


def _written(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[frozenset[str], Any]:
    """The arguments that `op` writes to, by their marks in the schema."""
    found = {}
    for i, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found[frozenset(argument.alias_info.before_set)] = value
    return found


def _returned(op: OpOverload, written: Mapping[frozenset[str], Any], results: Any) -> Any:
    """The results, those that are arguments of the call as these arguments."""
    returns = op._schema.returns
    if not returns:
        return None
    several = len(returns) > 1
    found = []
    for each, value in zip(returns, results if several else [results], strict=True):
        alias = each.alias_info
        marks = frozenset(alias.before_set) if alias is not None else frozenset[str]()
        found.append(written[marks] if marks in written else to_device(value))
    return tuple(found) if several else found[0]
