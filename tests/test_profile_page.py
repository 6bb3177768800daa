"""`systola profile --html`: one file, figures that agree, views that are linked."""

import json
import re
from html import unescape

import pytest
from browser_helpers import opened

from spec import preset
from sw.compiler.tosa.graph import Graph
from sw.measure.html import write_page
from sw.measure.profile.page.build import profile_page
from sw.measure.profile.page.data import MOST_BINS, layer_rows
from sw.measure.profile.run import profile_graph, profile_target, target_graph
from sw.runtime.session import DeviceOptions

TINY = preset("tiny")
GOLDEN = DeviceOptions(device="golden")


@pytest.fixture(scope="module")
def run():
    return profile_target("digits", None, TINY, GOLDEN)


@pytest.fixture(scope="module")
def text(run):
    return profile_page(run)


def data_of(text, name):
    (block,) = re.findall(rf'<script type="application/json" id="data-{name}">(.*?)</script>', text)
    return json.loads(block)


def test_the_page_is_one_file_without_a_network(text):
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|\bfetch\(|XMLHttpRequest""", text)
    assert len(text) < 1_500_000


def test_figures_of_the_page_are_those_of_the_profile(run, text):
    time, layers = data_of(text, "time"), data_of(text, "layers")
    assert time["cycles"] == run.profile.cycles
    assert time["count"] <= MOST_BINS
    assert [row["cycles"] for row in layers] == [x.cycles for x in run.profile.layers]
    assert all(sum(engine) == row["cycles"] for row in layers for engine in row["states"])
    assert text.count("<tr data-layer=") == len(layers)
    assert "Predicted by the compiler. Nothing ran" in text
    assert "predicted cycles" in text
    spans = time["spans"]
    assert len({len(spans[key]) for key in ("engine", "start", "length", "layer", "note")}) == 1
    assert spans["left_out"] == 0 and max(spans["note"]) == len(spans["notes"]) - 1


def test_losses_of_layers_sum_to_what_the_run_takes_above_its_bound(run):
    rows = layer_rows(run.profile, run.compilation)
    above = run.profile.cycles - sum(row["least"] for row in rows)
    assert sum(row["loss"] for row in rows) == pytest.approx(above, abs=len(rows))
    assert all(row["why"] and row["mend"] for row in rows)


def test_names_of_a_model_are_text(run):
    graph, arrays, shape = target_graph("matmul", "4x5x6", 0)
    bad = "<img src=x onerror=alert(1)></script>"
    named = Graph(name=graph.name, ops=graph.ops, tensors=graph.tensors, inputs=graph.inputs,
                  outputs=graph.outputs)  # fmt: skip
    found = profile_graph(named, arrays, bad, shape, TINY, GOLDEN)
    text = profile_page(found)
    assert "<img" not in text and "</script></" not in text
    assert unescape(re.search(r"<title>(.*?)</title>", text)[1]) == f"{bad} on tiny"


@pytest.mark.rtl
def test_a_measured_page_says_what_was_compared():
    text = profile_page(profile_target("matmul", "9x10x7", TINY, DeviceOptions()))
    assert "PASS  RTL = golden model: 63 elements, 0 differences" in text
    assert 'class="verdict measured"' in text


def selected(tab):
    """The layer that each view shows as selected."""
    table = tab.eval_on_selector_all("#layers tr.selected", "r => r.map(x => +x.dataset.layer)")
    pressed = tab.eval_on_selector_all(
        "#graph g", "g => g.flatMap((x, n) => x.getAttribute('aria-pressed') === 'true' ? [n] : [])"
    )
    return table, pressed, tab.evaluate("views.selected()")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_selection_is_one_in_all_views_by_keyboard_and_pointer(run, text, tmp_path, theme):
    path = tmp_path / "p.html"
    write_page(text, path)
    names = [layer.name for layer in run.profile.layers]
    with opened(path, theme) as tab:
        assert "No layer selected" in tab.inner_text("#details")
        tab.focus("#timeline")
        before = tab.evaluate("document.getElementById('memory').toDataURL()")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        assert selected(tab) == ([1], [1], 1)
        assert tab.inner_text("#details").startswith(f"{names[1]}: ")
        tab.wait_for_function("before => memory.toDataURL() !== before", arg=before)
        for _ in names[2:]:
            tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")  # The last layer takes a part of the run.
        near = tab.evaluate("views.range()")
        assert 0 <= near[0] < near[1] and near[1] - near[0] < run.profile.cycles
        tab.keyboard.press("Home")
        assert tab.evaluate("views.range()") == [0, run.profile.cycles]
        tab.focus("#graph g[tabindex='0']")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        assert selected(tab) == ([2], [2], 2)
        tab.focus("#layers tr[data-layer='0'] button")
        tab.keyboard.press("Enter")
        assert selected(tab) == ([0], [0], 0)
        tab.evaluate("timeline.scrollIntoView({block: 'center'})")
        box = tab.locator("#timeline").bounding_box()
        tab.mouse.click(box["x"] + box["width"] - 4, box["y"] + 14)
        assert selected(tab)[2] == len(names) - 1
        tab.focus("#memory")
        tab.keyboard.press("Escape")
        assert selected(tab) == ([], [], None)


def test_dragging_zooms_and_the_tip_names_what_is_under_the_pointer(run, text, tmp_path):
    path = tmp_path / "p.html"
    write_page(text, path)
    with opened(path) as tab:
        box = tab.locator("#timeline").bounding_box()
        y = box["y"] + 14
        tab.mouse.move(box["x"] + 300, y)
        assert "cycles are charged to it" in tab.inner_text("#tip")
        tab.mouse.down()
        tab.mouse.move(box["x"] + 500, y)
        tab.mouse.up()
        first, last = tab.evaluate("views.range()")
        share = 200 / (box["width"] - 110)
        assert last - first == pytest.approx(run.profile.cycles * share, rel=0.05)
        tab.keyboard.press("-")
        wider = tab.evaluate("views.range()")
        assert wider[1] - wider[0] == pytest.approx(min(2 * (last - first), run.profile.cycles))
        tab.dblclick("#timeline")
        assert tab.evaluate("views.range()") == [0, run.profile.cycles]
        tab.locator("#memory").scroll_into_view_if_needed()
        memory = tab.locator("#memory").bounding_box()
        tips = set()
        for x in range(120, int(memory["width"]), 40):
            tab.mouse.move(memory["x"] + x, memory["y"] + 210)
            tips.add(tab.inner_text("#tip") if tab.is_visible("#tip") else "")
        assert any(re.search(r"layer \w+\n0x[0-9a-f]+ to 0x", tip) for tip in tips)
