"""`_repr_html_` of what `import systola` returns: tables that are well formed, without scripts."""

from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import systola
from spec.notebook import MOST_ROWS, summary
from sw.measure.bound.report import of_compilation
from sw.measure.profile.run import profile_target
from sw.runtime.session import DeviceOptions, run_program

TINY = systola.preset("tiny")
EXAMPLE = (torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(0)),)


class Checked(HTMLParser):
    """Collects text; every tag is closed in order, and none can do anything."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(text)
        assert self.open == [], "tags that are not closed"
        assert self.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "p", "pre"}

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(thing):
    return Checked(thing._repr_html_()).texts


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU()).eval()


def test_names_are_text_and_numbers_have_separators():
    texts = Checked(summary("<b>", [("n", 1234567)], ("<i>",), [["<script>"], [None]])).texts
    assert texts == ["<b>", "n", "1,234,567", "<i>", "<script>"]


def test_long_tables_are_cut_and_say_so():
    texts = Checked(summary("t", [], ("n",), [[n] for n in range(MOST_ROWS + 5)])).texts
    assert texts[-1] == "… and 5 more rows" and "60" not in texts


def test_a_compiled_module_shows_its_policy_its_figures_and_its_layers(module):
    program = systola.compile(module, EXAMPLE, TINY)
    texts = shown(program)
    assert "Compiled module" in texts and program.image.info["policy"] in texts
    assert f"{program.image.info['predicted_cycles']:,}" in texts
    assert program.image.info["layers"][0]["name"] in texts
    report, _ = run_program(
        program.image, program.inputs(*EXAMPLE), TINY, DeviceOptions(device="golden")
    )
    assert "golden" in shown(report) and f"{report.macs:,}" in shown(report)


def test_an_image_without_facts_is_shown(tmp_path):
    bytes_ = np.zeros(16, np.uint8)
    image = systola.Image(config=TINY, program=bytes_, constants=bytes_, inputs=(), outputs=())
    assert "Program" in shown(image)


def test_partitions_and_reports_of_torch_compile_are_shown(module):
    assert "conv" in "".join(shown(systola.partition(module, EXAMPLE, TINY)))
    assert "npu nodes" in shown(systola.compile_report())


def test_profiles_and_bounds_show_every_layer():
    run = profile_target("digits", None, TINY, DeviceOptions(device="golden"))
    texts = shown(run)
    assert all(layer.name in texts for layer in run.profile.layers)
    assert f"{run.profile.cycles:,}" in texts
    bound = of_compilation(run.compilation)
    assert all(group.name in shown(bound) for group in bound.groups)
