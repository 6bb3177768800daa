"""A configuration without optional functions: an operator is exact, or refused with the reason."""

import re

import pytest
from compiler_graphs import assert_compiles_exactly
from test_compiler_operators import KINDS, _case

from spec.config import preset
from spec.optional import FUNCTIONS
from sw.compiler.errors import CompileError
from sw.compiler.pipeline import compile_graph

MICRO = preset("micro")
REFUSAL = re.compile(
    r"^\w+: [\w, ]+: needs (?P<what>.+); configuration micro has (?P<flag>\w+)=False\n"
    r"  hint: choose a configuration that has it \(--set (?P=flag)=true\), or leave these "
    r"operators to the host$"
)
WHAT = {function.flag: function.what for function in FUNCTIONS}
NEEDS = {
    "ARITHMETIC_RIGHT_SHIFT": "shifts",
    "CLZ": "shifts",
    "GATHER": "indexed_dma",
    "INTDIV": "shifts",
    "LOGICAL_LEFT_SHIFT": "shifts",
    "LOGICAL_RIGHT_SHIFT": "shifts",
    "SCATTER": "indexed_dma",
}
"""Operators that need a function whatever their shape, type and attributes are."""
SOMETIMES = {
    "RESIZE": "indexed_dma",
    "TABLE": "table_int16",
    **dict.fromkeys(("ARGMAX", "REDUCE_ALL", "REDUCE_ANY"), "lane_reductions"),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"), "lane_reductions"),
}
"""Operators that need one for some."""


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_is_exact_or_refused(kind: str) -> None:
    for seed in range(3):
        g, inputs = _case(kind, seed)
        try:
            assert assert_compiles_exactly(g, MICRO, inputs) > 0
            assert kind not in NEEDS
        except CompileError as error:
            found = REFUSAL.fullmatch(str(error))
            assert found and found["what"] == WHAT[found["flag"]], str(error)
            assert found["flag"] == {**NEEDS, **SOMETIMES}.get(kind)


def test_one_flag_gives_back_what_needs_it() -> None:
    for kind, flag in NEEDS.items():
        g, inputs = _case(kind, 0)
        assert assert_compiles_exactly(g, MICRO.with_settings({flag: "true"}), inputs) > 0


def test_a_refusal_is_of_the_operator_that_needs_the_function() -> None:
    g, _ = _case("GATHER", 0)
    name = next(op.name for op in g.ops if op.kind == "GATHER")
    with pytest.raises(CompileError) as caught:
        compile_graph(g, MICRO)
    assert caught.value.node == name
