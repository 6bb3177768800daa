"""Places that stay free on an ECP5, and what nextpnr is asked and says."""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from sw.synth.errors import SynthError
from sw.synth.fpga import ecp5, nextpnr, placement
from sw.synth.fpga.spread import TABLES, free_sites, spread
from sw.synth.tools import GivenUpError, Run, Tool, find_nextpnr, run_side_by_side

PACKED = """Info: Device utilisation:
Info: \t          TRELLIS_IO:     3/  365     0%
Info: \t        TRELLIS_COMB: 92028/83640   110%
ERROR: Unable to place cell 'x', no BELs remaining to implement cell type 'TRELLIS_COMB'
"""


PATH = {
    "from": "posedge clk",
    "to": "posedge clk",
    "path": [
        {"type": kind, "delay": delay, "from": {"cell": f"inner.{a}"}, "to": {"cell": f"inner.{b}"}}
        for kind, delay, a, b in (
            ("clk-to-q", 0.5, "a.q", "a.q"),
            ("routing", 2.0, "a.q", "b.and"),
            ("logic", 0.5, "b.and", "b.and"),
            ("routing", 1.5, "b.and", "b.r"),
            ("setup", 0.5, "b.r", "b.r"),
        )
    ],
}


@pytest.mark.parametrize(
    ("luts", "slices"), [(1_000, 0), (27_000, 3), (37_600, 2), (52_000, 1), (75_000, 0)]
)
def test_places_stay_free_where_there_is_room(luts, slices) -> None:
    """In each tile of two of three rows; the third one stays whole, for carries."""
    sites = [re.fullmatch(r"X(\d+)/Y(\d+)/SLICE([A-D]).K([01])", site) for site in free_sites(luts)]
    tiles = Counter((int(site[1]), int(site[2])) for site in sites)
    assert set(tiles.values()) == ({2 * slices} if slices else set())
    rows = sorted({y for _, y in tiles})
    assert len(tiles) == 123 * len(rows)
    whole = [y for y in range(2, 94) if y not in rows and (y - 10) % 12]
    assert len(rows) == (56 if slices else 0) and len(whole) == 85 - len(rows)
    assert not slices or {b - a for a, b in itertools.pairwise(whole)} == {3, 4}
    assert TABLES - len(sites) >= 1.3 * luts or not sites


def test_free_places_are_cells_of_the_netlist_and_no_part_of_the_result(tmp_path) -> None:
    netlist = tmp_path / "flat.json"
    modules = {
        "cell": {"ports": {}, "cells": {}},
        "top": {"ports": {}, "cells": {"one": {"type": "LUT4"}}, "netnames": {}},
        "empty": {"ports": {}, "cells": {}, "netnames": {}},
    }
    for top in ("top", "empty"):
        netlist.write_text(json.dumps({"modules": modules}, indent=2).replace("{}", "{\n      }"))
        count = spread(netlist, top, 27_000)
        written = json.loads(netlist.read_text())["modules"]
        cells = written[top].pop("cells")
        added = [cell for name, cell in cells.items() if name.startswith("free_")]
        assert len(added) == count == len(free_sites(27_000))
        assert len({cell["attributes"]["BEL"] for cell in added}) == count
        assert len(cells) - count == len(modules[top]["cells"])
        assert written["cell"] == modules["cell"]
    report = tmp_path / "report.json"
    used = {"TRELLIS_COMB": {"used": count + 30, "available": TABLES}}
    facts = {"utilization": used, "fmax": {"clk": {"achieved": 31.2}}, "critical_paths": []}
    report.write_text(json.dumps(facts))
    (tmp_path / "log").write_text("")
    assert nextpnr.read_result(report, tmp_path / "log", count).used == {
        "TRELLIS_COMB": (30, TABLES)
    }


def test_a_design_too_large_for_the_device_is_said_to_be(tmp_path) -> None:
    report, log = tmp_path / "nextpnr.json", tmp_path / "nextpnr.log"
    log.write_text(PACKED)
    found = nextpnr.read_result(report, log)
    assert found.problem == "does not fit: TRELLIS_COMB 92,028 of 83,640"
    assert found.used["TRELLIS_IO"] == (3, 365) and found.fmax_mhz is None
    log.write_text("ERROR: out of memory\n")
    with pytest.raises(SynthError, match="ended without a result:\nERROR: out of memory"):
        nextpnr.read_result(report, log)
    report.write_text(
        json.dumps(
            {
                "critical_paths": [PATH, {**PATH, "from": "<async>"}],
                "fmax": {"$glbnet$clk": {"achieved": 31.25, "constraint": 50}},
                "utilization": {"TRELLIS_FF": {"used": 12, "available": 83640}},
            }
        )
    )
    found = nextpnr.read_result(report, log)
    assert (found.fmax_mhz, found.used) == (31.25, {"TRELLIS_FF": (12, 83640)})
    ends = {"start": "a.q", "end": "b.r"}
    assert found.critical_path == {**ends, "ns": 5.0, "routing_ns": 3.5, "steps": 1}


def test_a_grade_that_there_is_not_is_refused() -> None:
    with pytest.raises(SynthError, match="--grade 9: an ECP5 has the speed grades 6, 7, 8"):
        nextpnr.largest("9")


def test_a_result_of_an_earlier_run_is_none_of_this_one(tmp_path) -> None:
    source = tmp_path / "inverter.v"
    source.write_text("module inverter(input clk, input a, output y); assign y = !a; endmodule")
    ecp5.map_to_ecp5([source], "inverter", tmp_path, lambda text: None)
    (tmp_path / "nextpnr.json").write_text('{"fmax": {}, "utilization": {}, "critical_paths": []}')
    with pytest.raises(SynthError, match="nextpnr-ecp5 ended without a result:\nno device"):
        tool = Tool(("echo", "no device", "#"), "a nextpnr that does nothing")
        ecp5.place_and_route(tool, nextpnr.largest(), "inverter", 0, tmp_path, lambda text: None)


def test_a_counter_is_placed_and_routed(tmp_path) -> None:
    """By the real nextpnr, which sees all options and constraints; faster on a faster grade."""
    try:
        tool = find_nextpnr()
    except SynthError as missing:
        pytest.skip(str(missing))
    source = tmp_path / "counter.v"
    source.write_text(
        "module counter(input clk, input up, output reg [15:0] q);"
        " always @(posedge clk) q <= q + up; endmodule"
    )
    blocks, _ = ecp5.map_to_ecp5([source], "counter", tmp_path, lambda text: None)
    luts, clocks = blocks[""].luts, []
    for grade in ("8", "6"):
        device = nextpnr.largest(grade)
        found = ecp5.place_and_route(tool, device, "counter", luts, tmp_path, lambda text: None)
        clocks.append(found.fmax_mhz)
    assert clocks[0] > clocks[1]
    assert found.problem == ""
    assert found.fmax_mhz is not None and found.fmax_mhz > 60
    assert found.used["TRELLIS_FF"][0] >= 16
    assert (tmp_path / placement.CONFIG).stat().st_size > 0
    assert "Running router2" in (tmp_path / "nextpnr.log").read_text()
    flat = json.loads((tmp_path / placement.FLAT).read_text())["modules"]
    assert [module.get("settings") for module in flat.values()].count(None) == len(flat) - 1


def _nextpnr(tmp_path, routes: str) -> Tool:
    """A nextpnr that routes placements `routes` alone, to 40 MHz and their number; it finds no way
    with placement 2, and goes in circles with the others. Placement 4 has the shortest wires, then
    3."""
    script = tmp_path / "nextpnr.sh"
    script.write_text(
        f"""seed="${{@: -1}}"
        case "$*" in *"--router router2"*) ;; *) exit 1; esac
        case "$*" in *--no-route*)
            echo "Info: at iteration #1: wirelen = 90"
            echo "Info: at iteration #2: wirelen = $((50 - 10 * seed))"
            touch placed_$seed.json; exit;; esac
        [ -f placed_$seed.json ] || exit 1
        [[ {routes} = *$seed* ]] && echo '{{"utilization": {{}}, "critical_paths": [],
            "fmax": {{"clk": {{"achieved": 4'$seed'}}}}}}' > nextpnr_$seed.json &&
            echo $seed > npu_$seed.config && exit
        [ $seed = 2 ] && echo "ERROR: Failed to route arc 0.0 of net clk" && exit 1
        for step in $(seq 1 90); do
            echo "Info: iter=$step wires=9000 overused=$((step < 9 ? 90 : 85))"
        done; sleep 60"""
    )
    return Tool(("bash", str(script)), "a nextpnr")


def test_placements_are_routed_until_one_is_the_shortest_wires_first(tmp_path) -> None:
    said: list[str] = []
    found = nextpnr.run_nextpnr(_nextpnr(tmp_path, "1"), (), "", 0, tmp_path, said.append)
    assert (found.fmax_mhz, found.problem) == (41, "")
    assert "routing, placements 4 (10), 3 (20), 2 (30), 1 (40) …" in said
    problems = [text for text in said if "shared wires are left" in text or "ERROR" in text]
    circles = "85 shared wires are left, and do not get fewer"
    assert sorted(problems[:2]) == [f"placement {seed}: {circles}" for seed in (3, 4)]
    assert problems[2:] == ["placement 2: ERROR: Failed to route arc 0.0 of net clk"]
    assert not list(tmp_path.glob("placed_*"))
    found = nextpnr.run_nextpnr(_nextpnr(tmp_path, "9"), (), "", 0, tmp_path, said.append)
    assert (found.fmax_mhz, found.problem) == (None, "none of 4 placements was routed")
    assert not (tmp_path / placement.CONFIG).exists()


@pytest.mark.parametrize(("routes", "taken"), [("134", "4"), ("13", "3"), ("12", "2")])
def test_of_two_placements_that_are_routed_the_faster_one_is_taken(tmp_path, routes, taken) -> None:
    tool, said = _nextpnr(tmp_path, routes), []
    found = nextpnr.run_nextpnr(tool, (), "", 0, tmp_path, said.append)
    assert found.fmax_mhz == 40 + int(taken)
    assert (tmp_path / placement.CONFIG).read_text() == f"{taken}\n"
    assert not list(tmp_path.glob("npu_*"))


@pytest.mark.parametrize("missing", [1, 4])
def test_a_placement_that_is_not_made_is_left_out(tmp_path, missing) -> None:
    """The first that ends, or the one with the shortest wires."""
    tool, said = _nextpnr(tmp_path, "3"), []
    script = tmp_path / "nextpnr.sh"
    script.write_text(f'[ "${{@: -1}}" = {missing} ] && exit 1\n{script.read_text()}')
    found = nextpnr.run_nextpnr(tool, (), "", 0, tmp_path, said.append)
    assert (found.fmax_mhz, found.problem) == (43, "")
    assert any(text.startswith(f"placement {missing}: nextpnr-ecp5 ended") for text in said)
    assert "placement 3: wires of 20 tiles …" in said


def test_a_router_is_given_up_where_a_crowded_device_gets_hardly_emptier(tmp_path) -> None:
    """Not where few wires are shared, or where a step leaves many fewer."""

    def routed(*shared: int) -> str:
        news = placement.Placement((), tmp_path, 1).routing().news
        lines = [f"Info: iter={n} wires=1000 overused={s}" for n, s in enumerate(shared, 1)]
        try:
            return [news(line) for line in lines][-1]
        except GivenUpError as problem:
            return str(problem)

    crowded = "21 of 1,000 wires are shared after step 3, 23 before it: "
    assert routed(30, 23, 21) == f"{crowded}there are too few wires for this design"
    assert routed(30, 25, 20, 20) == "placement 1: 20 wires are shared after step 4"
    assert routed(90, 80, 71, 63) == "placement 1: 63 wires are shared after step 4"


def test_a_router_that_fails_does_not_lose_the_other_placement(tmp_path) -> None:
    tool, said = _nextpnr(tmp_path, "3"), []
    script = tmp_path / "nextpnr.sh"
    fails = 'case "$*" in *"--no-pack"*"--seed 4") echo "no memory is left"; exit 1; esac'
    script.write_text(f"{fails}\n{script.read_text()}")
    assert nextpnr.run_nextpnr(tool, (), "", 0, tmp_path, said.append).fmax_mhz == 43
    assert any(text.startswith("placement 4:") and "no memory" in text for text in said)


def test_tools_run_side_by_side_and_end_together(tmp_path) -> None:
    """Two that wait for each other come to their end; what a message raises ends both."""
    said: list[str] = []
    meet = "touch {}; while [ ! -f {} ]; do sleep 0.05; done; printf {}"
    runs = [
        Run(["sh", "-c", meet.format(mine, other, mine)], tmp_path / f"{mine}.log", str.strip)
        for mine, other in ("ab", "ba", "ca")
    ]
    ended = list(run_side_by_side(runs, 2, said.append, cwd=tmp_path))
    assert sorted(ended) == [(0, 0), (1, 0), (2, 0)]
    assert sorted(said) == ["a …", "b …", "c …"]
    assert (tmp_path / "c.log").read_text() == "c\n"

    def stop(text: str) -> None:
        raise RuntimeError(text)

    asleep = [
        Run(["sh", "-c", f"echo $$ > {n}; echo {n}; exec sleep 60"], tmp_path / "log", str.strip)
        for n in "de"
    ]
    with pytest.raises(RuntimeError, match=r"[de] …"):
        list(run_side_by_side(asleep, 2, stop, cwd=tmp_path))
    for n in "de":
        started = tmp_path / n
        assert not started.exists() or not Path(f"/proc/{started.read_text().strip()}").exists()
