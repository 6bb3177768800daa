"""Tables on narrow terminals: nothing is wider than the terminal, and what matters is shown."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from spec.config import PRESETS, preset
from spec.isa import Engine
from spec.memmap import Stall
from sw.campaign.summary import status_table
from sw.campaign.sweep.points import points_table
from sw.campaign.sweep.result import Measured, PointResult
from sw.cli.environment import preset_table
from sw.cli.output import console
from sw.measure.conformance.chunk import Status as Conformance
from sw.measure.conformance.summary import table as conformance_table
from sw.measure.pages.bench import result_table
from sw.measure.profile.layers import LayerProfile
from sw.measure.profile.report import layer_table, state_table
from sw.results.store import Run
from sw.results.task import Kind, Outcome, Status, Task
from sw.runtime.report import stall_table
from sw.runtime.tables import FittedTable, left, right

STATES = [stall.name.lower() for stall in Stall]
COUNTERS = {
    engine.name.lower(): dict(zip(STATES, range(10_000_000, 99_000_000, 14_000_000)))
    for engine in Engine
}
MODULE = "encoder.layer.11.attention.output.dense"


def layer(name):
    return LayerProfile(
        name=name,
        ops=("CONV2D",),
        module=MODULE,
        source="model.py:7",
        macs=1_234_567_890,
        cycles=12_345_678,
        predicted_cycles=11_345_678,
        layer_bound=9_876_543.0,
        read_bytes=123_456_789,
        write_bytes=98_765_432,
        states=COUNTERS,
        bound="depthwise",
    )


PROFILE = SimpleNamespace(
    image=SimpleNamespace(config=preset("default")),
    result=SimpleNamespace(counters=COUNTERS, read_bytes=234_567_890),
    layers=(layer("conv2d_3_with_a_rather_long_name_of_its_own"), layer("add_7")),
    cycles=124_691_356,
    predicted_cycles=22_691_356,
)
ROW = {
    "name": "transformer_decode_behind_16_tokens", "cycles": 123_456_789, "macs": 12_345_678_901,
    "utilization": 0.5, "bit_exact": True, "reference_exact": False, "elements": 64,
    "wall_s": 1234.5, "sim_cycles_per_s": 123_456.0,
    "dram_read_bytes": 1_234_567_890, "dram_write_bytes": 123_456_789,
}  # fmt: skip
RUN = Run(
    id=1,
    task=Task(
        kind=Kind.RUN,
        config=preset("large"),
        workload="digits",
        device="rtl",
        label="large+spad_kib=512+acc_kib=128+bus_bytes=64",
    ),
    status=Status.PASSED,
    started_at=None,
    finished_at=None,
    outcome=Outcome(status=Status.PASSED),
)
POINT = PointResult(
    label="rows=16 cols=16 spad_kib=512",
    config=preset("default"),
    reason="",
    verilog_lines=123_456,
    build_s=123.0,
    results=tuple(
        Measured(
            workload=f"matmul:{n}x64x64",
            status="passed",
            cycles=1_234_567,
            utilization=0.97,
            read_bytes=1,
            write_bytes=1,
            bit_exact=True,
            reference_exact=True,
        )
        for n in (64, 128, 256, 512)
    ),
)
ILLEGAL = PointResult(
    label="rows=1",
    config=None,
    reason="rows=1: must lie in 2…128",
    verilog_lines=None,
    build_s=None,
    results=(),
)
CONFORMANCE = {
    "arithmetic_right_shift": {
        **{str(status): 123 for status in Conformance},
        "seconds": 1234.5,
        "reasons": {"unsupported: shapes of more than # dimensions": 12},
    }
}

TABLES = {
    "run": (lambda: stall_table(COUNTERS), [*COUNTERS, *STATES]),
    "profile layers": (lambda: layer_table(PROFILE), ["12,345,678", "24,691,356", "add_7"]),
    "profile states": (lambda: state_table(PROFILE), ["add_7", *list(COUNTERS)[1:]]),
    "bench": (lambda: result_table([ROW]), ["123,456,789", "FAIL"]),
    "regress": (lambda: status_table([RUN]), ["rtl", "timed out", "did not run"]),
    "sweep": (lambda: points_table([POINT, ILLEGAL]), ["1,234,567", "2…128"]),
    "config list": (preset_table, [config.digest_hex for config in PRESETS.values()]),
    "conformance": (lambda: conformance_table(CONFORMANCE), ["unsupported", "missing", "123"]),
}


def rendered(table, width):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TABLES)
def test_tables_fit_and_keep_what_matters(name, width):
    make, wanted = TABLES[name]
    text = rendered(make(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text.replace("2…128", "")
    for item in wanted:
        assert item in text, text


def test_wide_tables_have_every_column():
    for make, _ in TABLES.values():
        assert "not shown" not in rendered(make(), 400)
    assert MODULE in rendered(layer_table(PROFILE), 400)


def test_columns_of_the_highest_rank_go_first_and_are_named():
    table = FittedTable([left("name"), right("a", 1), right("b", 2), right("c", 2)])
    table.add_row("x" * 10, "1" * 10, "2" * 10, "3" * 10)
    names = [[column.name for column in table.shown(width)] for width in (53, 52, 39, 26, 5)]
    assert names == [["name", "a", "b", "c"], ["name", "a", "b"], ["name", "a"], ["name"], ["name"]]
    assert rendered(table, 26).splitlines()[-2:] == ["not shown in 26 columns: ", "a, b, c"]


def test_a_folding_column_gives_way_before_one_is_left_out():
    table = FittedTable([left("name", fold=8), right("a", 1)])
    table.add_row("x" * 40, "12,345")
    assert [column.name for column in table.shown(21)] == ["name", "a"]
    assert "12,345" in rendered(table, 21)


def test_rows_may_be_short_and_sections_are_lines():
    table = FittedTable([left("name"), right("a")])
    table.add_row("x")
    table.add_section()
    table.add_row("all", "1")
    lines = rendered(table, 40).splitlines()
    assert lines[4].startswith("├")


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("", 120), ("wide", 120)])
def test_the_width_is_that_of_columns_where_there_is_no_terminal(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width
