"""What each layer costs in accuracy: the float graph with one layer's operands rounded.

One layer is quantized at a time, all others stay float. The loss then belongs to that layer alone;
with one layer float among quantized ones it would be a small difference of two large errors, and
what one layer repairs would depend on the others. Losses of layers add up to about the model's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from sw.compiler.frontend.nodes import arguments, name
from sw.compiler.frontend.operator_sets import CONVOLUTIONS
from sw.compiler.frontend.plan import linear_weight
from sw.compiler.frontend.ports import Operands
from sw.compiler.frontend.quantization.precise import FINE, FINER

Env = dict[Node, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """pcc: of the first output with float's, the mean over samples. sqnr: in dB, of all of them.

    work: products of one sample; read: elements of the activation.
    """

    name: str
    module: str
    kind: str
    width: str
    pcc: float
    sqnr: float
    work: int
    read: int


def losses(
    graph: GraphModule, layers: Mapping[str, Operands], samples: Sequence[Sequence[torch.Tensor]]
) -> list[Loss]:
    """The loss of each of `layers` that the float `graph` has, in its order."""
    nodes = [n for n in graph.graph.nodes if n.name in layers and _weight(n) is not None]
    ratios: dict[Node, list[tuple[float, float, float]]] = {n: [] for n in nodes}
    after = {node: list(_after(node)) for node in nodes}
    env: Env = {}
    with torch.no_grad():
        for sample in samples:
            env = _values(graph, sample)
            exact = _first(env, graph)
            for node in nodes:
                got = _first(_changed(env, node, layers[node.name], after[node]), graph)
                ratios[node].append(_compared(exact, got))
    return [_loss(node, layers[node.name], env, ratios[node]) for node in nodes]


def _values(graph: GraphModule, sample: Sequence[torch.Tensor]) -> Env:
    interpreter = Interpreter(graph, garbage_collect_values=False)
    interpreter.run(*sample)
    return dict(interpreter.env)


def _after(node: Node) -> Iterator[Node]:
    """The nodes behind `node` that its value reaches, in order."""
    reached = {node}
    at = node.next
    while at.op != "root":
        if at.op == "call_function" and not reached.isdisjoint(at.all_input_nodes):
            reached.add(at)
            yield at
        at = at.next


def _first(env: Env, graph: GraphModule) -> torch.Tensor:
    (output,) = (n for n in graph.graph.nodes if n.op == "output")
    values = (env[n] for n in output.all_input_nodes)
    return next(v for v in values if isinstance(v, torch.Tensor)).double().flatten()


def _changed(env: Env, node: Node, operands: Operands, after: Sequence[Node]) -> Env:
    """The values with `node` computed from rounded operands."""
    weight = _weight(node)
    assert weight is not None
    activation = next(n for n in node.all_input_nodes if n.meta["val"].is_floating_point())
    rounded = {
        activation: _activation(env[activation], operands),
        weight: _weights(env[weight], node, operands),
    }
    changed = dict(env)
    changed[node] = _called(node, {**env, **rounded})
    if operands.restored is not None:
        size = [-1 if i == _channel(node) % env[node].dim() else 1 for i in range(env[node].dim())]
        changed[node] = changed[node] + torch.from_numpy(operands.restored).to(env[node]).view(size)
    for each in after:
        changed[each] = _called(each, changed)
    return changed


def _called(node: Node, env: Env) -> Any:
    args, keywords = (map_arg(a, lambda n: env[n]) for a in (node.args, node.kwargs))
    return node.target(*args, **keywords)


def _weight(node: Node) -> Node | None:
    if node.target in CONVOLUTIONS:
        weight = node.args[1]
        return weight if isinstance(weight, Node) else None
    return linear_weight(node)


def _activation(x: torch.Tensor, operands: Operands) -> torch.Tensor:
    scale: Any = torch.as_tensor(np.asarray(operands.scale), dtype=torch.float64)
    values = x.double()
    if scale.dim() and operands.axis != -1:
        scale = scale.reshape(-1, *[1] * (values.dim() - operands.axis - 1))
    if operands.by_row:
        scale = scale / scale.max()
        scale = scale * (values / scale).abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    steps = (values / scale).round().clamp(*_ends(operands))
    if operands.width != "int8":
        finer = FINER[operands.width]
        rest = ((values / scale - steps) * finer).round().clamp(-finer // 2, finer // 2)
        steps = steps + rest / finer
    return (steps * scale).to(x.dtype)


def _ends(operands: Operands) -> tuple[int, int]:
    return -128 - operands.zero_point, 127 - operands.zero_point


def _weights(w: torch.Tensor, node: Node, operands: Operands) -> torch.Tensor:
    """Rounded weights; their outputs are the first dimension of `linear` and most convolutions."""
    if node.target in CONVOLUTIONS:
        first = not (arguments(node).get("transposed") or "transpose" in name(node))
    else:
        first = "linear" in str(node.target)
    values = w.double() if first else w.double().transpose(0, 1)
    if len(operands.weights) != len(values):  # those of groups of transposed convolutions
        return w
    unit: Any = torch.as_tensor(np.asarray(operands.unit), dtype=torch.float64)
    step = torch.as_tensor(operands.weights).reshape(-1, *[1] * (values.dim() - 1))
    finer = FINE if operands.width == "int16x16" else 1
    rounded = (values * unit / step * finer).round().clamp(-127 * finer, 127 * finer) / finer
    rounded = rounded * step / unit
    return (rounded if first else rounded.transpose(0, 1)).to(w.dtype)


def _compared(exact: torch.Tensor, got: torch.Tensor) -> tuple[float, float, float]:
    """(PCC, energy, energy of the error)."""
    a, b = exact - exact.mean(), got - got.mean()
    norm = float((a @ a).sqrt() * (b @ b).sqrt())
    error = got - exact
    same = not bool(error.any())
    return (
        1.0 if same else float(a @ b) / max(norm, 1e-30),
        float(exact @ exact),
        float(error @ error),
    )


def _loss(
    node: Node, operands: Operands, env: Env, ratios: Sequence[tuple[float, float, float]]
) -> Loss:
    pccs, energy, error = (np.asarray(column, np.float64) for column in zip(*ratios, strict=True))
    weight = _weight(node)
    assert weight is not None
    work = env[weight].numel() * env[node].numel() // env[node].shape[_channel(node)]
    share = float(error.sum() / max(float(energy.sum()), 1e-30))
    read = next(n for n in node.all_input_nodes if n.meta["val"].is_floating_point())
    return Loss(
        name=node.name,
        module=operands.module,
        kind=str(node.target).split(".")[1] if "." in str(node.target) else str(node.target),
        width=operands.width,
        pcc=float(pccs.mean()),
        sqnr=-10 * float(np.log10(max(share, 1e-20))),
        work=int(work),
        read=int(env[read].numel()),
    )


def _channel(node: Node) -> int:
    return 1 if node.target in CONVOLUTIONS else -1
