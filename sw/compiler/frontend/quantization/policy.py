"""How a model's values become integers: the policies, and which one `auto` takes.

auto: `pt2e` for convolutional networks whose operators all have an int8 form there, else `wide`.

pt2e: int8 between operators, with the scales of PyTorch's own quantization (torchao's PT2E). A
model that is quantized already keeps its scales. wide: int16 between operators, int8 operands of
products with scales per channel or per row (`formats.py`).
"""

from collections import Counter
from dataclasses import dataclass
from typing import get_args

from torch.fx import GraphModule, Node

from sw.compiler.errors import CompileError
from sw.compiler.frontend.nodes import is_float
from sw.compiler.frontend.operator_sets import CONVOLUTIONS
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.quantization.quantize_nodes import is_quantize
from sw.compiler.frontend.quantization.values import Policy as Policy
from sw.compiler.frontend.quantization.values import Resolved as Resolved
from sw.compiler.frontend.threads import quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The policy that a model is imported with, and why, for people."""

    policy: Resolved
    reason: str


def check_policy(name: str) -> None:
    """`CompileError` for a policy that does not exist."""
    if name not in get_args(Policy):
        raise CompileError(f"policy {name!r}: must be one of {', '.join(get_args(Policy))}")


def is_quantized(graph: GraphModule) -> bool:
    """Whether the graph has PT2E's quantize nodes."""
    return any(is_quantize(node) for node in graph.graph.nodes)


def choose(graph: GraphModule, policy: Policy, precision: Precision = PLAIN) -> Choice:
    """The policy for a captured graph; `auto` takes `pt2e` where int8 covers every operator.

    Layers of 16 bits need `wide`. `CompileError` where `wide` is asked for, or needed, and the
    model brings its own scales.
    """
    check_policy(policy)
    if not precision.is_default and (policy == "pt2e" or is_quantized(graph)):
        raise CompileError(
            "precision: under policy pt2e every layer is int8",
            hint="policy wide, of a float model, has layers of 16 bits",
        )
    if is_quantized(graph):
        if policy == "wide":
            raise CompileError(
                "policy wide: the model is quantized already",
                hint="policy pt2e keeps its scales; give the float model for policy wide",
            )
        return Choice(policy="pt2e", reason="the model brings its own scales")
    if policy != "auto":
        return Choice(policy=policy, reason="as asked for")
    if not precision.is_default:
        return Choice(policy="wide", reason="only there layers can read 16 bits")
    if not any(node.target in CONVOLUTIONS for node in graph.graph.nodes):
        return Choice(policy="wide", reason="a network without convolutions")
    left = left_in_float(graph)
    if not left:
        return Choice(policy="pt2e", reason="every operator has an int8 form in PT2E")
    counts = Counter(_name(node) for node in left)
    names = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.most_common(4))
    more = f" and {len(counts) - 4} more" if len(counts) > 4 else ""
    return Choice(policy="wide", reason=f"PT2E has no int8 form of {names}{more}")


def _name(node: Node) -> str:
    """An operator as people call it: `softmax` for `aten.softmax.int`."""
    name = str(node.target)
    parts = name.split(".")
    if name.startswith("<"):  # a result of an operator with several
        parts = str(node.all_input_nodes[0].target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def left_in_float(graph: GraphModule) -> list[Node]:
    """The operators on floats that the PT2E quantizer would leave in float."""
    with quiet():
        from sw.compiler.frontend.quantization.quantizer import covers

    fixed = fixed_nodes(graph)
    return [
        node
        for node in graph.graph.nodes
        if node.op == "call_function"
        and node not in fixed
        and is_float(node)
        and not covers(node, fixed)
    ]
