"""The HTML of a profile's page: facts, the table, and the places that the scripts draw in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.html import asset, escape, page, write_page
from sw.measure.profile.page.data import page_data

if TYPE_CHECKING:
    from sw.measure.profile.run import ProfiledRun

_PACKAGE = "sw.measure.profile.page"
_SCRIPTS = ("links.js", "timeline.js", "memory.js", "layers.js")
_KEYS = (
    "Drag to zoom in, double-click for the whole run, click to select a layer. With the keyboard: "
    "+ and − zoom, ← and → move, ↑ and ↓ select the layer before and behind, Enter zooms to it, "
    "Home shows the whole run, Escape selects nothing."
)


def write_profile_page(run: "ProfiledRun", path: Path) -> int:
    """Write the page; returns its bytes. `ReportError` if it cannot be written."""
    return write_page(profile_page(run), path)


def profile_page(run: "ProfiledRun") -> str:
    """The page of a profile: one HTML file."""
    data = page_data(run)
    report = run.report
    body = "".join(
        [
            _facts(run),
            '<section id="details" aria-live="polite" aria-label="Selected layer"></section>',
            _view(
                "Engines over time",
                "timeline",
                "The layer that cycles are charged to, and what each engine did. " + _KEYS,
                _legend() + _buttons(),
                _engine_table(run),
            ),
            _view(
                "Memories over time",
                "memory",
                "Addresses upwards, cycles as above; a rectangle is a tensor or a tile. " + _KEYS,
                "",
                _memory_table(data["memories"]),
            ),
            _graph(data["layers"], report.cycles or 0),
            _table(data["layers"], report.cycles or 0),
        ]
    )
    return page(
        f"{report.name} on {report.config.name}",
        body,
        [asset(_PACKAGE, name) for name in _SCRIPTS],
        data,
        styles=[asset(_PACKAGE, "page.css")],
    )


def _facts(run: "ProfiledRun") -> str:
    profile, report = run.profile, run.report
    used = report.utilization
    timing = report.timing
    rows = [
        ("predicted cycles" if run.predicted else "cycles", f"{profile.cycles:,}"),
        *([] if run.predicted else [("predicted", f"{profile.predicted_cycles:,}")]),
        ("layer bound", f"{sum(layer.layer_bound for layer in profile.layers):,.0f} cycles"),
        ("utilization", "" if used is None else f"{used:.1%}"),
        ("MACs", f"{report.macs:,}"),
        (
            "memory",
            f"{profile.result.read_bytes:,} bytes read, {profile.result.write_bytes:,} written",
        ),
        ("array", f"{report.config.rows}×{report.config.cols}, {report.config.digest_hex}"),
    ]
    if timing is not None and timing.clock_mhz:
        ms = profile.cycles / timing.clock_mhz / 1e3
        rows.append(("time", f"{ms:,.3f} ms at {timing.clock_mhz:g} MHz"))
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in rows if text
    )
    if run.predicted:
        verdict = "Predicted by the compiler. Nothing ran; --device rtl measures."
    else:
        verdict = " ".join(report.verdict())
    kind = "predicted" if run.predicted else "failed" if report.failed else "measured"
    return f'<p class="verdict {kind}">{escape(verdict)}</p><dl class="facts">{cells}</dl>'


def _view(title: str, name: str, text: str, tools: str, table: str) -> str:
    """A drawing, with its description and its figures as a table."""
    return (
        f'<section aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>'
        f'{tools}<canvas id="{name}" tabindex="0" role="application" '
        f'aria-label="{title}" aria-describedby="{name}-text"></canvas>'
        f'<p class="muted" id="{name}-text">{text}</p>'
        f"<details><summary>As a table</summary>{table}</details></section>"
    )


def _legend() -> str:
    keys = "".join(
        f'<span><i class="state-{state.name.lower()}"></i>{state.name.lower()}</span>'
        for state in Stall
    )
    return f'<p class="legend">{keys}</p>'


def _buttons() -> str:
    names = {
        "in": "Zoom in",
        "out": "Zoom out",
        "left": "Earlier",
        "right": "Later",
        "whole": "Whole run",
    }
    buttons = "".join(
        f'<button type="button" data-zoom="{key}">{text}</button>' for key, text in names.items()
    )
    return f'<p class="tools">{buttons} <output id="window"></output></p>'


def _engine_table(run: "ProfiledRun") -> str:
    """Cycles of each engine in each state."""
    states = [state.name.lower() for state in Stall]
    rows = [
        [engine, *(f"{row[state]:,}" for state in states)]
        for engine, row in run.profile.result.counters.items()
    ]
    return _plain(["engine", *states], rows, "cycles of each engine in each state")


def _memory_table(memories: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            str(each["name"]),
            f"{each['size']:,} {each['unit']}",
            f"{_most(each):,}",
            f"{sum(each['count']):,}",
        ]
        for each in memories
    ]
    head = ["memory", "size", "most in use at once", "tensors and tiles"]
    return _plain(head, rows, "the memories of the run")


def _most(memory: Mapping[str, Any]) -> int:
    """Most units that live at the same time."""
    columns = zip(memory["start"], memory["length"], memory["size_of"], strict=True)
    changes = [
        change
        for start, length, size in columns
        for change in ((start, size), (start + length, -size))
    ]
    now = most = 0
    for _, by in sorted(changes):
        now += by
        most = max(most, now)
    return min(most, int(memory["size"]))


def _plain(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table of figures behind a first column of names."""
    names = "".join(
        f'<th scope="col"{_number(column > 0)}>{escape(name)}</th>'
        for column, name in enumerate(head)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f'<td class="number">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _number(yes: bool) -> str:
    return ' class="number"' if yes else ""


def _graph(layers: Sequence[Mapping[str, Any]], cycles: int) -> str:
    worst = sorted(layers, key=lambda layer: -layer["loss"])[:3]
    loss = ", ".join(f"{x['name']} {x['loss']:,}" for x in worst if x["loss"])
    total = sum(layer["loss"] for layer in layers)
    text = (
        f"{len(layers)} layers from the inputs on top to the outputs. The redder a layer, the more "
        f"cycles it takes above its bound. Layers that run together are judged together. All "
        f"layers: {total:,} of {cycles:,}" + (f"; most of them: {escape(loss)}." if loss else ".")
    )
    return (
        '<section aria-labelledby="graph-title"><h2 id="graph-title">Layers and lost cycles</h2>'
        f'<p class="muted" id="graph-text">{text}</p>'
        '<div class="scroll" id="graph-frame"><svg id="graph" role="group" '
        'aria-labelledby="graph-title" aria-describedby="graph-text"></svg></div></section>'
    )


def _table(layers: Sequence[Mapping[str, Any]], cycles: int) -> str:
    """A row per layer; the scripts make it sortable, and its rows selectable."""
    engines = [
        engine for engine in Engine if any(_work(layer["states"][engine]) for layer in layers)
    ]
    head = [
        ("layer", False),
        ("cycles", True),
        ("share", True),
        ("bound", True),
        ("lost", True),
        ("predicted", True),
        ("utilization", True),
        ("MACs", True),
        ("read", True),
        ("written", True),
        ("bound by", False),
        *((engine.name.lower(), True) for engine in engines),
        ("operators", False),
        ("module", False),
        ("why", False),
    ]
    names = "".join(f'<th scope="col"{_number(right)}>{name}</th>' for name, right in head)
    rows = "".join(_row(i, layer, cycles, engines) for i, layer in enumerate(layers))
    return (
        '<section aria-labelledby="table-title"><h2 id="table-title">Layers</h2>'
        '<p class="muted">Under each engine: the share of the layer’s cycles in which it was busy, '
        "and the longest of its other states. Bytes are those of the bus.</p>"
        '<div class="scroll" id="table-frame"><table class="sortable" id="layers">'
        "<caption>a row per layer, in the order of the program</caption>"
        f"<thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _row(number: int, layer: Mapping[str, Any], cycles: int, engines: Sequence[Engine]) -> str:
    share = layer["cycles"] / max(cycles, 1)
    used = layer["utilization"]
    figures = [
        (layer["cycles"], f"{layer['cycles']:,}"),
        (share, f"{share:.1%}"),
        (layer["least"], f"{layer['least']:,}"),
        (layer["loss"], f"{layer['loss']:,}"),
        (layer["predicted"], f"{layer['predicted']:,}"),
        ("" if used is None else used, "" if used is None else f"{used:.1%}"),
        (layer["macs"], f"{layer['macs']:,}"),
        (layer["read"], f"{layer['read']:,}"),
        (layer["written"], f"{layer['written']:,}"),
    ]
    states = [_states(layer["states"][engine]) for engine in engines]
    return (
        f'<tr data-layer="{number}"><th scope="row" data-value="{escape(layer["name"])}">'
        f'<button type="button" class="pick" aria-pressed="false">{escape(layer["name"])}</button>'
        "</th>"
        + "".join(_cell(*figure) for figure in figures)
        + f"<td>{escape(layer['bound'])}</td>"
        + "".join(_cell(*state) for state in states)
        + "".join(_text(layer[key]) for key in ("ops", "module", "why"))
        + "</tr>"
    )


def _cell(value: object, text: str) -> str:
    return f'<td class="number" data-value="{value}">{escape(text)}</td>'


def _text(text: str) -> str:
    return f'<td class="text" title="{escape(text)}">{escape(text)}</td>'


def _work(states: Sequence[int]) -> int:
    return states[Stall.BUSY]


def _states(states: Sequence[int]) -> tuple[float | str, str]:
    """Busy as a share, and as text with the longest other state."""
    total = sum(states)
    if not total:
        return "", ""
    other = max((state for state in Stall if state is not Stall.BUSY), key=lambda s: states[s])
    text = f"{states[Stall.BUSY] / total:.0%} {other.name.lower()} {states[other] / total:.0%}"
    return states[Stall.BUSY] / total, text
