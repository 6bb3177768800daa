"""The bound of a program as tables and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from spec.config import NpuConfig
from spec.notebook import summary
from sw.compiler.compilation import Compilation
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.graph import Graph
from sw.measure.bound.causes import Cause, cause, operators
from sw.measure.bound.groups import Group, grouped
from sw.measure.bound.layers import layer_facts
from sw.models.supplied import NOTHING, Supplied
from sw.runtime.tables import FittedTable, left, right
from sw.runtime.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Groups that lose cycles for the same reason, which is that of the worst of them.

    whole: all of them as one group.
    """

    count: int
    whole: Group
    worst: Group
    cause: Cause

    @staticmethod
    def of(groups: Sequence[Group], config: NpuConfig) -> "Loss":
        """The loss of groups of one kind."""
        worst = max(groups, key=lambda group: group.loss)
        whole = Group(layers=tuple(layer for group in groups for layer in group.layers))
        return Loss(count=len(groups), whole=whole, worst=worst, cause=cause(worst, config))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A compiled network against its bound; groups in the order of the program."""

    name: str
    config: NpuConfig
    timing: Timing
    groups: tuple[Group, ...]

    def _repr_html_(self) -> str:
        """What a notebook shows: the prediction against the bound, group by group."""
        facts = [("configuration", self.config.name), *self.timing.facts()]
        rows = [
            [
                group.name,
                round(group.cycles),
                round(group.bound),
                round(group.loss),
                cause(group, self.config).why,
            ]
            for group in self.groups
        ]
        head = ("layers", "predicted cycles", "bound", "lost", "why")
        return summary(f"Bound of {self.name}", facts, head, rows)

    def losses(self, count: int) -> list["Loss"]:
        """Where most cycles above the bounds are, groups of a kind together, and why."""
        alike: dict[tuple[str, ...], list[Group]] = {}
        for group in self.groups:
            layer = group.worst
            key = (cause(group, self.config).engine, layer.kind, operators(layer))
            alike.setdefault(key, []).append(group)
        found = [Loss.of(groups, self.config) for groups in alike.values()]
        return sorted(found, key=lambda loss: -loss.whole.loss)[:count]

    def by_engine(self) -> dict[str, float]:
        """Lost cycles by the engine that explains them, the most first."""
        total: dict[str, float] = {}
        for group in self.groups:
            name = cause(group, self.config).engine
            total[name] = total.get(name, 0.0) + group.loss
        return dict(sorted(total.items(), key=lambda item: -item[1]))


def bound_of(graph: Graph, config: NpuConfig, name: str, clock_mhz: float | None = None) -> Bound:
    """Compile `graph` and compare what is predicted with the bound."""
    return of_compilation(run_stages(graph, config, name=name), clock_mhz)


def of_compilation(compilation: Compilation, clock_mhz: float | None = None) -> Bound:
    """The bound of a compilation."""
    return Bound(
        name=compilation.name,
        config=compilation.config,
        timing=Timing.of(compilation.image, clock_mhz=clock_mhz),
        groups=tuple(grouped(layer_facts(compilation))),
    )


def bound_target(
    name: str,
    shape: str | None,
    config: NpuConfig,
    supplied: Supplied = NOTHING,
    clock_mhz: float | None = None,
) -> Bound:
    """The bound of a kernel, a model or a TOSA file."""
    from sw.measure.targets import target_source

    return bound_of(target_source(name, shape, supplied), config, name, clock_mhz)


def bound_json(found: Bound, count: int) -> dict[str, Any]:
    """Figures of the whole, of each group, and the `count` largest losses."""
    return {
        "name": found.name,
        "config": found.config.name,
        "config_digest": found.config.digest_hex,
        **found.timing.to_json(),
        "lost_by": {name: round(cycles) for name, cycles in found.by_engine().items()},
        "groups": [_group_json(group) for group in found.groups],
        "losses": [_loss_json(loss) for loss in found.losses(count)],
    }


def _figures(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "cycles": round(group.cycles),
        "layer_bound": round(group.bound, 2),
        "share": group.share,
        "loss": round(group.loss),
    }


def _loss_json(loss: Loss) -> dict[str, Any]:
    layer = loss.worst.worst
    return {
        **_figures(loss.whole),
        "name": loss.worst.name,
        "count": loss.count,
        "kind": layer.kind,
        "operators": operators(layer),
        "shape": layer.shape,
        **asdict(loss.cause),
    }


def _group_json(group: Group) -> dict[str, Any]:
    layers = [
        {**asdict(x), "cycles": round(x.cycles), "busy": _rounded(x.busy)} for x in group.layers
    ]
    return {**_figures(group), "busy": _rounded(group.busy), "layers": layers}


def _rounded(busy: Any) -> dict[str, int]:
    return {name: round(cycles) for name, cycles in busy.items()}


def print_bound(found: Bound, count: int, console: Console) -> None:
    """The facts of the whole, the layers, the losses by engine, the largest losses."""
    console.print(f"{found.name} on {found.config.name}")
    for label, text in found.timing.facts():
        console.print(f"  {label}: {text}")
    console.print(layer_table(found.groups))
    total = sum(max(loss, 0.0) for loss in found.by_engine().values()) or 1.0
    lost = (f"{name} {loss / total:.0%}" for name, loss in found.by_engine().items() if loss > 0)
    console.print(f"lost, by what works most meanwhile: {', '.join(lost)}")
    for number, loss in enumerate(found.losses(count), 1):
        layer, why = loss.worst.worst, loss.cause
        times = "" if loss.count == 1 else f"{loss.count} rows like "
        console.print(
            f"{number}. {times}{loss.worst.name} ({layer.kind} {operators(layer)}, {layer.shape}): "
            f"{loss.whole.cycles:,.0f} cycles, bound {loss.whole.bound:,.0f}\n"
            f"   why: {why.why}\n   what would mend it: {why.mend}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def layer_table(groups: Sequence[Group]) -> FittedTable:
    """A row per group, and their sum."""
    columns = [
        left("layers", fold=20),
        right("predicted"),
        right("bound"),
        right("share"),
        right("lost"),
        left("busy", 2, fold=16),
        left("shape", 1, fold=16),
    ]
    table = FittedTable(columns, "cycles against the layer bound")
    for group in groups:
        table.add_row(*_cells(group), _busiest(group), group.worst.shape)
    table.add_section()
    whole = Group(layers=tuple(layer for group in groups for layer in group.layers))
    table.add_row("all", *_cells(whole)[1:])
    return table


def _cells(group: Group) -> list[str]:
    share = "" if group.share is None else f"{group.share:.0%}"
    return [
        group.name,
        f"{group.cycles:,.0f}",
        f"{group.bound:,.0f}",
        share,
        f"{group.loss:,.0f}",
    ]


def _busiest(group: Group) -> str:
    """The two engines that work most, with their share of the cycles."""
    if not group.cycles:
        return ""
    most = sorted(group.busy.items(), key=lambda item: -item[1])[:2]
    return " ".join(f"{name} {cycles / group.cycles:.0%}" for name, cycles in most)
