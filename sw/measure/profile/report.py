"""A profile as tables and as JSON."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.profile.layers import LayerProfile, Profile
from sw.runtime.report import Report, stall_table
from sw.runtime.tables import Column, FittedTable, left, right


def profile_json(profile: Profile, report: Report) -> dict[str, Any]:
    """The report's facts, and `layers`: per layer what the tables show, states in cycles."""
    return {
        **report.to_json(),
        "predicted_cycles": profile.predicted_cycles,
        "predicted_over_measured": profile.predicted_cycles / profile.cycles,
        "layers": [_layer_json(layer, profile) for layer in profile.layers],
    }


def _layer_json(layer: LayerProfile, profile: Profile) -> dict[str, Any]:
    return {
        "name": layer.name,
        "ops": list(layer.ops),
        "module": layer.module,
        "source": layer.source,
        "cycles": layer.cycles,
        "macs": layer.macs,
        "utilization": utilization(layer, profile),
        "read_bytes": layer.read_bytes,
        "write_bytes": layer.write_bytes,
        "bound_by": layer.bound,
        "predicted_cycles": layer.predicted_cycles,
        "predicted_over_measured": layer.ratio,
        "layer_bound": layer.layer_bound,
        "states": {engine: dict(row) for engine, row in layer.states.items()},
    }


def utilization(layer: LayerProfile, profile: Profile) -> float | None:
    """MACs over those that the array could do in the layer's cycles; None without MACs."""
    if not layer.macs or not layer.cycles:
        return None
    return layer.macs / (profile.image.config.pes * layer.cycles)


def print_profile(
    profile: Profile, report: Report, console: Console, *, predicted: bool = False
) -> None:
    """Facts of the run, layers, what engines did in each, engines over the whole run, verdict.

    predicted: nothing ran, so there is nothing to compare the prediction with.
    """
    report.print_facts(console)
    console.print(layer_table(profile))
    console.print(state_table(profile))
    console.print(stall_table(profile.result.counters))
    if predicted:
        console.print("cycles and states are the compiler's prediction; --device rtl measures them")
        return
    error = profile.predicted_cycles / profile.cycles
    console.print(
        f"cost model: {profile.predicted_cycles:,} cycles predicted, {profile.cycles:,} measured: "
        f"{error:.3f} in total"
    )
    report.print_verdict(console)


def layer_table(profile: Profile) -> FittedTable:
    """A row per layer, and their sum."""
    columns = [
        left("layer", fold=16),
        right("cycles"),
        right("share", 3),
        right("utilization", 1),
        right("predicted", 4),
        right("pred./meas.", 2),
        right("layer bound", 3),
        right("read", 5),
        right("written", 5),
        left("bound by", 1),
        left("module", 6, fold=16),
    ]
    table = FittedTable(columns, "layers")
    for layer in profile.layers:
        used = utilization(layer, profile)
        table.add_row(
            layer.name,
            f"{layer.cycles:,}",
            f"{layer.cycles / profile.cycles:.1%}",
            "" if used is None else f"{used:.1%}",
            f"{layer.predicted_cycles:,}",
            "" if layer.ratio is None else f"{layer.ratio:.2f}",
            f"{layer.layer_bound:,.0f}",
            f"{layer.read_bytes:,}",
            f"{layer.write_bytes:,}",
            layer.bound,
            layer.module,
        )
    total = report_macs(profile) / (profile.image.config.pes * profile.cycles)
    table.add_section()
    loaded = sum(layer.read_bytes for layer in profile.layers)
    table.add_row("(the program)", *[""] * 6, f"{profile.result.read_bytes - loaded:,}")
    table.add_row(
        "all",
        f"{sum(layer.cycles for layer in profile.layers):,}",
        "100.0%",
        f"{total:.1%}",
        f"{profile.predicted_cycles:,}",
        f"{profile.predicted_cycles / profile.cycles:.2f}",
        f"{sum(layer.layer_bound for layer in profile.layers):,.0f}",
        f"{profile.result.read_bytes:,}",
        f"{sum(layer.write_bytes for layer in profile.layers):,}",
    )
    return table


def report_macs(profile: Profile) -> int:
    """MACs of all layers."""
    return sum(layer.macs for layer in profile.layers)


def state_table(profile: Profile) -> FittedTable:
    """Per layer and engine: the share of the layer's cycles that it was busy, and its main wait."""
    idle = Stall.IDLE.name.lower()
    shown = [e for e, row in profile.result.counters.items() if row[idle] < profile.cycles]
    fetch = Engine.FETCH.name.lower()  # waits for the others nearly always
    engines = [
        Column(name=engine, justify="right", fold=9, rank=int(engine == fetch)) for engine in shown
    ]
    title = "in each layer's cycles: busy, longest other state"
    table = FittedTable([left("layer", fold=12), *engines], title)
    for layer in profile.layers:
        cells = [_states(layer.states[engine], layer.cycles) for engine in shown]
        table.add_row(layer.name, *cells)
    return table


_SHORT = {"semaphore": "sem", "memory": "mem", "pipeline": "pipe"}


def _states(row: Mapping[str, int], cycles: int) -> str:
    if not cycles:
        return ""
    busy = Stall.BUSY.name.lower()
    other = max((n for n in row if n != busy), key=lambda n: row[n])
    return f"{row[busy] / cycles:.0%} {_SHORT.get(other, other)} {row[other] / cycles:.0%}"
