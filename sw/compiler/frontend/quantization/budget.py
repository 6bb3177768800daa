"""Which layers read 16 bits, chosen until a budget holds.

The layers' losses (`sensitivity.py`) say what each can gain; the cycles that each costs are
predicted by compiling the graph with it alone. The layers with the most gain for a cycle come
first; how many of them, a search decides that imports, runs and compiles the graph with the first k
of them. Half of the calibration data, at most `HELD` samples, calibrates nothing meanwhile:
the PCC is measured on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule

from spec.config import NpuConfig
from sw.compiler.frontend.ports import Imported, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.precision import Precision, Width
from sw.compiler.frontend.quantization.samples import Call
from sw.compiler.frontend.quantization.sensitivity import losses
from sw.compiler.tosa.interpreter import run_graph

HELD = 8
"""Samples that the PCC is measured on, at most."""

TRIED = 16
"""Layers, those that lose most, whose cycles are predicted; the others are not chosen."""

Float = NDArray[np.float64]

Make = Callable[[Precision, Sequence[Call]], Imported]
"""Imports the graph with a precision, calibrated by some calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """precision: rules without a budget. reason: what was chosen, and why, for people."""

    precision: Precision
    reason: str


def choose_layers(
    make: Make, graph: GraphModule, samples: Sequence[Call], wanted: Precision, config: NpuConfig
) -> Chosen:
    """The layers to read 16 bits so that `wanted`'s budget holds, or comes near."""
    held = list(samples[::2][:HELD])
    known = [s for i, s in enumerate(samples) if i % 2 or i // 2 >= HELD]
    if len(samples) < 4:
        known = held = list(samples)
    search = _Search(make, graph, known, held, replace(wanted, least=None, share=None), config)
    base = search.cycles(())
    order = search.order(base)
    count = len(order)
    if wanted.share is not None:
        limit = (1 + wanted.share) * base
        count = _last(lambda k: search.cycles(order[:k]) <= limit, count)
    if wanted.least is not None:
        least = wanted.least
        count = min(count, _last(lambda k: search.accuracy(order[: k - 1]) < least, count + 1))
    chosen = order[:count]
    grown = search.cycles(chosen) / base - 1
    text = (
        f"{', '.join(chosen) or 'no layer'} at int16, chosen for the budget: PCC "
        f"{search.accuracy(()):.5f} → {search.accuracy(chosen):.5f} on {len(held)} samples, "
        f"{grown:+.1%} predicted cycles"
    )
    return Chosen(precision=search.with_layers(chosen), reason=text)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """The largest k in 1…most for which `holds` is true, if it is so up to there; 0 for none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


class _Search:
    """Accuracy and cycles of the graph with some layers at int16; each is measured once."""

    def __init__(
        self, make: Make, graph: GraphModule, known: Sequence[Call], held: Sequence[Call],
        rules: Precision, config: NpuConfig,
    ) -> None:  # fmt: skip
        self.make, self.graph, self.known, self.held = make, graph, known, held
        self.rules, self.config = rules, config
        self.imported = lru_cache(maxsize=2)(self._imported)
        self.cycles = lru_cache(maxsize=None)(self._cycles)
        self.accuracy = lru_cache(maxsize=None)(self._accuracy)
        with torch.no_grad():
            self.exact = [_first(graph(*call)) for call in held]

    def with_layers(self, names: Sequence[str]) -> Precision:
        wide: tuple[tuple[str, Width], ...] = tuple((name, "int16") for name in names)
        return replace(self.rules, rules=self.rules.rules + wide)

    def order(self, base: int) -> tuple[str, ...]:
        """The layers with the most gain, those first whose gain costs the fewest cycles."""
        found = losses(self.graph, self.imported(()).layers, self.held[:4])
        found = sorted((loss for loss in found if loss.width == "int8"), key=lambda loss: loss.pcc)
        gains = {loss.name: 1 - loss.pcc for loss in found[:TRIED]}
        costs = {name: max(self.cycles((name,)) - base, 1) for name in gains}
        return tuple(sorted(gains, key=lambda name: -gains[name] / costs[name]))

    def _imported(self, names: tuple[str, ...]) -> Imported:
        return self.make(self.with_layers(names), self.known)

    def _cycles(self, names: tuple[str, ...]) -> int:
        from sw.compiler.pipeline import run_stages

        return int(sum(run_stages(self.imported(names).graph, self.config).predicted))

    def _accuracy(self, names: tuple[str, ...]) -> float:
        imported = self.imported(names)
        return float(
            np.mean(
                [_pcc(e, _run(imported, c)) for e, c in zip(self.exact, self.held, strict=True)]
            )
        )


def _run(imported: Imported, call: Call) -> Float:
    outputs = run_graph(imported.graph, pack_inputs(imported, call))
    return np.asarray(unpack_outputs(imported, outputs)[0], np.float64).reshape(-1)


def _first(outputs: object) -> Float:
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return np.asarray(next(v for v in leaves if isinstance(v, torch.Tensor)), np.float64).reshape(
        -1
    )


def _pcc(a: Float, b: Float) -> float:
    found = np.corrcoef(a, b)[0, 1] if a.std() and b.std() else 0.0
    return float(found)
