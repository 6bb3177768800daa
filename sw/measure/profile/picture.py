"""A profile as a picture: a bar per layer, in the order of the program."""

from pathlib import Path
from typing import Any

from sw.measure.profile.layers import LATENCY, LayerProfile, Profile
from sw.measure.profile.report import utilization
from sw.runtime.report import ReportError

COLOURS = {
    "matrix": "tab:blue",
    "depthwise": "tab:cyan",
    "vector": "tab:orange",
    "load": "tab:green",
    "store": "tab:olive",
    "fetch": "tab:purple",
    LATENCY: "tab:gray",
}
"""Of what a layer is bound by."""


def write_picture(profile: Profile, title: str, path: Path) -> int:
    """A PNG (or SVG, PDF: by the name) of the layers' cycles; returns how many layers are in it.

    A bar's colour says what the layer is bound by. `ReportError` if the file cannot be written.
    """
    shown = [layer for layer in profile.layers if layer.cycles]
    figure = _draw(shown, profile, f"{title}: {profile.cycles:,} cycles")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise ReportError(f"{path}: cannot write: {error.strerror}") from None
    return len(shown)


def _draw(shown: list[LayerProfile], profile: Profile, title: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(10, 1.5 + 0.32 * max(len(shown), 2)), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    cycles = [layer.cycles for layer in shown]
    bars = axis.barh(
        range(len(shown)), cycles, color=[COLOURS.get(layer.bound, "black") for layer in shown]
    )
    axis.bar_label(bars, [_label(layer, profile) for layer in shown], padding=4, fontsize=8)
    axis.set_yticks(range(len(shown)), [layer.name for layer in shown], fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="cycles", title=title, xlim=(0, 1.3 * max(cycles, default=1)))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(visible=True, axis="x", alpha=0.3)
    bounds = dict.fromkeys(layer.bound for layer in shown)
    axis.legend(
        handles=[Patch(color=COLOURS.get(bound, "black"), label=bound) for bound in bounds],
        title="bound by",
        loc="lower right",
    )
    return figure


def _label(layer: LayerProfile, profile: Profile) -> str:
    share = f"{layer.cycles:,} ({layer.cycles / profile.cycles:.0%})"
    used = utilization(layer, profile)
    # Above 100% most products were made in cycles that an earlier layer is charged for.
    return share if used is None or used > 1 else f"{share}, array {used:.0%}"
