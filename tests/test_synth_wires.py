"""Wire-load models: what the wires of a net weigh by how many inputs it drives."""

import re

import numpy as np
import pytest

from sw.synth.errors import SynthError
from sw.synth.generic import generic_library
from sw.synth.liberty import Group, parse
from sw.synth.library import make_library
from sw.synth.wires import NO_WIRES, wire_load

MODELS = """
  wire_load (near) { capacitance : 2; slope : 3; fanout_length (1, 10); fanout_length (5, 30); }
  wire_load ("far") { capacitance : 4; slope : 1; fanout_length (2, 8); }
  wire_load (bare) { capacitance : 1; }
  default_wire_load : "near";
}
"""


def tree(models: str = MODELS) -> Group:
    text = generic_library()
    return parse(text[: text.rindex("}")] + models, "file.lib")


def test_lengths_lie_between_the_points_and_go_on_with_the_slope() -> None:
    model = wire_load(tree())
    assert model is not None and model.name == "near"
    unit = model.capacitance / 2
    found = model.loads(np.array([0, 1, 3, 5, 7])) / (2 * unit)
    assert found.tolist() == pytest.approx([0, 10, 20, 30, 36])
    far = wire_load(tree(), "far")
    assert far is not None
    assert (far.loads(np.array([1, 2, 4])) / (4 * unit)).tolist() == pytest.approx([7, 8, 10])


def test_the_unit_is_that_of_the_library() -> None:
    text = generic_library()
    assert "capacitive_load_unit (1, ff);" in text
    model = wire_load(tree())
    assert model is not None and model.capacitance == pytest.approx(0.002)


def test_wires_weigh_nothing_where_nobody_says_what() -> None:
    assert wire_load(tree(), NO_WIRES) is None
    assert wire_load(tree("}")) is None
    assert wire_load(tree('default_wire_load : "gone"; }')) is None
    assert make_library(tree(), "file.lib").wires is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "neer",
            "Liberty file file.lib: --wire-load neer: no such model in systola_generic (did "
            "you mean 'near'?); there are near, far, bare, none",
        ),
        (
            "bare",
            "Liberty file file.lib: wire_load (bare) of systola_generic: it has no "
            "fanout_length (N, LENGTH)",
        ),
    ],
)
def test_models_that_cannot_be_used(name: str, message: str) -> None:
    with pytest.raises(SynthError, match=f"^{re.escape(message)}$"):
        make_library(tree(), "file.lib", wires=name)
