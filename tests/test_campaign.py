"""Plans, the database and single tasks of campaigns, without the processes around them."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from campaign_helpers import Told, systola
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

from spec import Image, preset
from spec.isa import Instruction, Opcode, encode_program
from sw.campaign.measure import Bench, carry_out
from sw.campaign.progress import Bar, Lines
from sw.campaign.regress.suite import load_suite, suite_names
from sw.campaign.summary import complaints, count, exit_code, repeat_command, verdict
from sw.campaign.workloads import check_workload, network_names, split_workloads
from sw.models.catalog import MODELS
from sw.models.kernels import kernel_names
from sw.results.store import Store
from sw.results.task import CampaignError, Kind, Outcome, Status, Task
from sw.runtime.rtl import RtlDevice

TINY = preset("tiny")
SMALL_NETWORKS = {"digits", "ad", "ds_cnn", "resnet8", "vww"}


def task(number: int = 0, **values: object) -> Task:
    facts = {"kind": Kind.RUN, "workload": "matmul:3x5x7", "config": TINY, "device": "golden"}
    return Task(**{**facts, "seed": number, **values})


def suite(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


# Plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["smoke", "evening", "nightly"])
def test_suites_of_the_release_have_every_run_once_and_a_build_before_it(name: str) -> None:
    tasks = load_suite(name).tasks
    keys = [t.key for t in tasks]
    assert len(set(keys)) == len(keys) > 100
    for at, one in enumerate(tasks):
        assert set(one.needs) <= set(keys[:at])
        assert (one.device == "rtl") is bool(one.needs)
        assert Task.from_json(json.loads(json.dumps(one.to_json()))) == one
    runs = [t for t in tasks if t.kind is Kind.RUN]
    assert {t.device for t in runs} == {"golden", "rtl"}
    assert {t.kind for t in tasks} == {Kind.BUILD, Kind.RUN, Kind.PROGRAMS, Kind.CONFORMANCE}
    # Every kernel is there, and memories of several kinds.
    assert {t.memory for t in runs} > {"ideal", "ddr4"}
    assert set(kernel_names()) <= {t.workload.partition(":")[0] for t in runs}
    assert len({(t.latency, t.stall) for t in runs}) > 10


def test_networks_of_the_registry_appear_by_themselves() -> None:
    devices: dict[str, set[str]] = {}
    for task in load_suite("nightly").tasks:
        devices.setdefault(task.workload, set()).add(task.device)
    for name in network_names():
        assert devices[name] == {"golden", "rtl"}
    smoke = {t.workload for t in load_suite("smoke").tasks}
    assert smoke & set(MODELS) == set(MODELS) & SMALL_NETWORKS
    assert suite_names() == ["evening", "nightly", "smoke"]


def test_the_plan_is_the_product_of_its_lists(tmp_path: Path) -> None:
    path = suite(
        tmp_path,
        """
limit_s: 7
entries:
  - configs: [tiny, default+bus_bytes=32]
    workloads: [add, matmul:8x8x8]
    memories: [{latency: 5}, {stall: 0.25}, {kind: ddr4}, {kind: lpddr4, stall: 0.5}]
    seeds: [3]
  - {configs: [tiny], workloads: [add:c=32], devices: [golden], seeds: [3], limit_s: 9}
""",
    )
    tasks = load_suite(path).tasks
    assert [t.title for t in tasks if t.config_name == "tiny"] == [
        "build tiny",
        "add tiny golden seed 3",
        "matmul:8x8x8 tiny golden seed 3",
        "add tiny rtl seed 3 latency 5 stall 0",
        "add tiny rtl seed 3 latency 100 stall 0.25",
        "add tiny rtl seed 3 ddr4",
        "add tiny rtl seed 3 lpddr4 stall 0.5",
        "matmul:8x8x8 tiny rtl seed 3 latency 5 stall 0",
        "matmul:8x8x8 tiny rtl seed 3 latency 100 stall 0.25",
        "matmul:8x8x8 tiny rtl seed 3 ddr4",
        "matmul:8x8x8 tiny rtl seed 3 lpddr4 stall 0.5",
    ]
    # add:c=32 is what add alone is: one run, the first one's.
    assert {t.limit_s for t in tasks if t.kind is Kind.RUN} == {7}
    assert tasks[1].config is not None and tasks[1].config.bus_bytes == 32
    only = load_suite(path, only="matmul:8x8x8 tiny rtl", limit_s=3).tasks
    assert [t.title for t in only[:1]] == ["build tiny"] and len(only) == 5
    assert {t.limit_s for t in only} == {3, 1800}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "must be a mapping of keys to values"),
        ("", "must be a mapping of keys to values"),
        ("description: 2024-13-45\nentries: []", "mine.yaml: a value that cannot be read: month"),
        ("limit_s: !!int 'abc'", "mine.yaml, line 1: tag tag:yaml.org,2002:int: tags are not"),
        ("limit_s: !!python/object:os.system {}", "tags are not supported"),
        ("entries: " + "[" * 20_000, "mine.yaml, line 1: more than 32 levels deep"),
        ("entries: " + "{a: " * 20_000, "mine.yaml, line 1: more than 32 levels deep"),
        ("limit_s: " + "9" * 5000, "mine.yaml: a value that cannot be read: Exceeds the limit"),
        ("limit_s: 1" + "0" * 400, "limit_s 1000"),
        ("limit_s: .inf\nentries: []", "limit_s inf: must be a number from 0"),
        ("limit_s: .nan\nentries: []", "limit_s nan: must be a number from 0"),
        ("a: &a [1]\nb: *a", "mine.yaml, line 1: anchors and aliases are not supported"),
        ("a: 1\na: 2", "mine.yaml, line 2: key 'a' is given twice"),
        ("1: 2", "mine.yaml, line 1: key '1': must be a text"),
        ("? [a]\n: 1", "must be a text"),
        ("on: 1", "mine.yaml, line 1: key 'on': must be a text"),
        ("entries: 1\x00", "no YAML: "),
        ("x" * 2**20 + ": 1", "mine.yaml: more than 1,048,576 bytes: no file of this kind"),
        (
            "entries: [{configs: [tiny], workloads: [add], seeds: 1000000000}]",
            "mine.yaml: entries[0]: seeds 1000000000: at most 20,000",
        ),
        (
            "entries: [{configs: [tiny], workloads: [add], seeds: 20000, devices: [golden, rtl]}]",
            "mine.yaml: entries[0]: more than 20,000 runs",
        ),
        (
            "entries: [{configs: [tiny], random: 1000000000}]",
            "mine.yaml: entries[0]: random 1000000000: at most 20,000",
        ),
        (
            "entries: [{configs: [tiny], workloads: [add], seeds: １２}]",
            "seeds '１２': must be a lis",
        ),
        ("entries: [{configs: [tiny], workloads: ['add:h=８']}]", "h='８' is not a whole number"),
        ("entries: [", "no YAML: "),
        ("entries: []", "mine.yaml: entries []: must be a list that is not empty"),
        ("entries: [{configs: [tiny], workloads: [add], size: 3}]", "'size': no such key; keys"),
        ("entries: [{configs: [tiny]}]", "entries[0]: has no workloads, networks, random, prog"),
        ("entries: [{workloads: [add]}]", "mine.yaml: entries[0]: configs is missing"),
        ("entries: [{configs: [vast], workloads: [add]}]", "config 'vast': no such preset"),
        ("entries: [{configs: [tiny+rows=99], workloads: [add]}]", "acc_kib=4: must hold"),
        (
            "entries: [{configs: [tiny], workloads: [sub]}]",
            "workload 'sub': no such kernel, network",
        ),
        ("entries: [{configs: [tiny], workloads: ['add:c=0']}]", "dimension c=0 is illegal"),
        ("entries: [{configs: [tiny], networks: [lenet]}]", "workload 'lenet': no such"),
        ("entries: [{configs: [tiny], workloads: ['digits:8']}]", "digits has its own shape"),
        ("entries: [{configs: [tiny], workloads: [add], devices: [fpga]}]", "device 'fpga': must"),
        ("entries: [{configs: [tiny], workloads: [add], seeds: [-1]}]", "must be a whole number"),
        ("entries: [{configs: [tiny], workloads: [add], memories: [slow]}]", "must be random or"),
        ("entries: [{configs: [tiny], workloads: [add], memories: [{latency: 0}]}]", "latency mu"),
        ("entries: [{configs: [tiny], workloads: [add], memories: [{kind: ddr5}]}]", "must be one"),
        (
            "entries: [{configs: [tiny], workloads: [add], memories: [{kind: ddr4, latency: 9}]}]",
            "latency 9: ddr4 has its own latency; leave it out",
        ),
        (
            "entries: [{configs: [tiny], networks: [nets], without: [vgg]}]",
            "entries[0]: without 'vgg': not among the networks",
        ),
        ("entries: [{configs: [tiny], conformance: [vision_1]}]", "begins with no operator"),
        ("entries: [{configs: [tiny+taps=5], conformance: 1}]", "tiny+taps=5: only presets can"),
        ("entries: [{configs: [tiny], conformance: 1, operators: [sin]}]", "OPS=sin: no operator"),
        (
            "entries: [{configs: [tiny], conformance: [add_1_i32], operators: [add]}]",
            "operators: conformance has names of tests",
        ),
        ("limit_s: -1\nentries: [{configs: [tiny], workloads: [add]}]", "limit_s -1: must be a n"),
    ],
)
def test_a_suite_that_is_wrong_says_where(tmp_path: Path, text: str, message: str) -> None:
    text = text.replace("rows=99", "cols=12")
    with pytest.raises(Exception) as error:
        load_suite(suite(tmp_path, text))
    assert message in str(error.value)


def test_a_suite_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"description: \xff\xfe")
    with pytest.raises(CampaignError, match=r"mine\.yaml: cannot read: no UTF-8 text: "):
        load_suite(path)
    with pytest.raises(CampaignError, match="cannot read: it is no file"):
        load_suite(tmp_path)


def test_an_unknown_suite_lists_the_known_ones() -> None:
    with pytest.raises(CampaignError, match="suite 'weekly': no such suite or file; suites are"):
        load_suite("weekly")


def test_lists_of_workloads_split_at_workloads() -> None:
    text = "matmul:8x8x8,conv2d:h=8,w=8,c=3,digits add"
    assert split_workloads(text) == ["matmul:8x8x8", "conv2d:h=8,w=8,c=3", "digits", "add"]
    assert split_workloads("") == []
    assert check_workload("conv2d:h=14,c=3,k=3") == "conv2d:c=3"
    assert check_workload("matmul:8x64x8") == "matmul:8x64x8"
    assert check_workload("add:h=14") == "add"


# Tasks ----------------------------------------------------------------------------------------


def test_a_task_that_cannot_be_carried_out_is_an_error_with_its_reason() -> None:
    bench = Bench(Told())
    outcome = carry_out(task(workload="matmul:3x5x0"), bench)
    assert outcome.status is Status.ERROR and "n=0 is illegal" in outcome.message
    outcome = carry_out(task(workload=7), bench)
    assert outcome.status is Status.ERROR and "AttributeError" in outcome.message


def test_golden_is_compared_with_the_reference_model(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Told())
    good = carry_out(task(), bench)
    assert good.status is Status.PASSED and good.compared == 21 and good.macs == 105
    assert good.cycles is None and len(good.image_digest) == 16
    monkeypatch.setattr(
        "sw.runtime.golden.GoldenDevice.read", lambda self, name: np.zeros((1, 3, 7), np.int8)
    )
    bad = carry_out(task(), bench)
    assert bad.status is Status.FAILED
    assert "of 21 elements differ from the TOSA reference model; first: y[0, 0, 0]" in bad.message


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_a_wrong_rtl_fails_with_layer_instruction_and_element(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told()
    bench = Bench(told)
    rtl = task(device="rtl", latency=37, stall=0.2)
    good = carry_out(rtl, bench)
    assert good.status is Status.PASSED and good.cycles and good.compared == 21
    assert sum(good.counters["matrix"].values()) == good.cycles
    load = RtlDevice.load

    def corrupt(self: RtlDevice, image: Image) -> None:
        """Every product goes wrong by its zero point."""
        program = [
            Instruction(x.opcode, {**x.values, "act_zp": x["act_zp"] + 1})
            if x.opcode is Opcode.MATRIX
            else x
            for x in image.instructions()
        ]
        load(self, replace(image, program=np.frombuffer(encode_program(program), np.uint8)))

    monkeypatch.setattr(RtlDevice, "load", corrupt)
    bad = carry_out(rtl, bench)
    assert bad.status is Status.FAILED and bad.mismatch is not None
    assert bad.mismatch["layer"] == "matmul" and bad.mismatch["text"].startswith("matrix ")
    assert bad.mismatch["element"].startswith("accumulator vector 0 lane ")
    assert bad.mismatch["expected"] != bad.mismatch["got"]
    assert "of 21 elements differ from the golden model; first: y[0, 0, " in bad.message
    assert "it arises in layer matmul, instruction " in bad.message
    # It was told before the search for the cause, which may take long.
    (early,) = told.outcomes
    assert early.status is Status.FAILED and set(early.mismatch or ()) == {"element"}
    # The next task has a new simulator.
    monkeypatch.undo()
    assert carry_out(rtl, bench).status is Status.PASSED
    bench.drop()


# The summary ----------------------------------------------------------------------------------


def runs_with(tmp_path: Path, *outcomes: Status) -> list:
    with Store(tmp_path / "results.sqlite") as store:
        tasks = [task(i) for i in range(len(outcomes))]
        campaign = store.campaign("regress", "mine", tasks, options={}, fresh=True)
        for run, status in zip(campaign.runs(), outcomes, strict=True):
            if status is not Status.WAITING:
                campaign.finish(run.id, Outcome(status=status, message="why\nso"))
        return campaign.runs()


def test_the_verdict_counts_everything(tmp_path: Path) -> None:
    passed, waiting = Status.PASSED, Status.WAITING
    runs = runs_with(tmp_path, *Status)
    assert sum(count(runs).values()) == len(Status)
    assert verdict("x", runs, 3.4, "db") == (
        "FAIL  x: 1 passed, 1 failed, 1 timed out, 1 error, 3 did not run, 1 illegal of 8, 3 s; db"
    )
    assert exit_code(runs) == 1
    lines = complaints(runs)
    assert lines[:4] == [
        "FAILED  matmul:3x5x7 tiny golden seed 3",
        *("    why", "    so"),
        "    repeat: systola sim matmul --shape 3x5x7 --seed 3 --config tiny --device golden "
        "--verify",
    ]
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == (
        ["FAILED", "TIMED", "ERROR", "DID", "ILLEGAL"]
    )
    for outcomes, code, word in (
        ([passed, passed], 0, "PASS"),
        ([passed, Status.ILLEGAL], 0, "PASS"),
        ([Status.ILLEGAL], 1, "INCOMPLETE"),
        ([passed, waiting], 1, "INCOMPLETE"),
        ([passed, Status.BLOCKED], 1, "INCOMPLETE"),
        ([passed, Status.ERROR], 1, "FAIL"),
    ):
        runs = runs_with(tmp_path, *outcomes)
        assert exit_code(runs) == code and verdict("x", runs, 0, "db").startswith(f"{word}  ")


def test_the_command_that_repeats_a_run_is_one_that_works() -> None:
    for workload in ("add:c=3", "add"):
        command = repeat_command(task(2, workload=workload, config=preset("tiny")))
        code, text = systola(*command.split()[1:])
        assert code == 0 and "PASS  golden model = TOSA reference model" in text
    big = preset("default").with_settings({"bus_bytes": "32"})
    rtl = task(1, device="rtl", config=big, latency=5, stall=0.25, workload="digits")
    assert repeat_command(rtl) == (
        "systola run digits --limit 2 --config default --set bus_bytes=32 --device rtl "
        "--latency 5 --stall 0.25"
    )
    dram = replace(rtl, memory="lpddr4")
    assert repeat_command(dram).endswith("--device rtl --memory lpddr4 --stall 0.25")
    assert dram.key != rtl.key and dram.key == replace(dram, latency=9).key


def test_regress_on_the_command_line(tmp_path: Path) -> None:
    path = suite(tmp_path, "entries: [{configs: [tiny], workloads: [add:c=3], seeds: 2}]")
    database, report = tmp_path / "r.sqlite", tmp_path / "r.json"
    arguments = ["regress", path, "--only", "golden", "--db", database, "--json", report]
    code, text = systola(*arguments, "--jobs", 1)
    assert code == 0, text
    assert "[2/2] passed   add:c=3 tiny golden seed 1" in text
    assert "PASS  regress mine: 2 passed, 0 failed, 0 timed out, 0 error, 0 did not run" in text
    facts = json.loads(report.read_text())
    assert [f["status"] for f in facts] == ["passed"] * 2 and facts[0]["compared"] > 0
    # A simulator that cannot be built: what needs it did not run.
    code, text = systola(
        *("regress", path, "--db", database, "--jobs", 1), env={"CXX": "no-such-compiler"}
    )
    assert code == 1
    assert "FAIL  regress mine: 2 passed, 0 failed, 0 timed out, 1 error, 2 did not run" in text
    assert "ERROR  build tiny\n    no-such-compiler: not found" in text
    assert "DID NOT RUN  add:c=3 tiny rtl seed 1\n    did not run: build tiny error" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["weekly"], "suite 'weekly': no such suite or file"),
        (["smoke", "--only", "nothing like it"], "regress smoke: no run is left of it"),
        (["smoke", "--time-limit", "0"], "--time-limit 0: must be above 0 seconds"),
        (["smoke", "--db", "/dev/null/x"], "choose another file with --db"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    place = [] if "--db" in arguments else ["--db", str(tmp_path / "r.sqlite")]
    code, text = systola("regress", *arguments, *place)
    assert code == 2 and message in text and "Traceback" not in text


def test_on_a_terminal_a_bar_goes_on_and_only_what_is_bad_is_a_line() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=200, highlight=False)
    with Progress(TextColumn("{task.description}"), MofNCompleteColumn(), console=console) as rich:
        bar = Bar(rich)
        bar.begin(3, 9)
        bar.team(["a", "b"])
        bar.tick([(task(0, device="rtl"), 2.0), (task(1), 0.4)], 130.0)
        bar.end(task(0), Outcome(status=Status.PASSED, cycles=1234), 0.5)
        bar.end(task(1), Outcome(status=Status.FAILED, message="wrong [0, 1]\nmore"), 1.5)
        rich.refresh()
    text = out.getvalue()
    assert "2 workers, 2 min left: matmul tiny rtl 2 s, matmul tiny golden 0 s" in text
    assert "5/9" in text and "1 bad" not in text  # the next tick says so
    assert "failed   matmul:3x5x7 tiny golden seed 1  1.5 s  wrong [0, 1]" in text
    assert "passed" not in text and "more" not in text


def test_elsewhere_every_run_is_a_line_and_silence_is_broken(monkeypatch) -> None:
    out = StringIO()
    lines = Lines(out)
    lines.begin(1, 3)
    lines.tick([(task(0), 2.0)])  # something was said a moment ago
    lines.end(task(0), Outcome(status=Status.PASSED, cycles=1234), 0.5)
    lines.end(task(1), Outcome(status=Status.BLOCKED, message="did not run: x error"), 0.0)
    monkeypatch.setattr("sw.campaign.progress._SILENCE_S", -1.0)
    lines.team(["a"])
    lines.team(["a"])
    lines.tick([(task(2), 61.2)], 7000.0)
    lines.say("worker a is gone")
    assert out.getvalue().splitlines() == [
        "1 of 3 are there from before",
        "[2/3] passed   matmul:3x5x7 tiny golden seed 0  1,234 cycles  0.5 s",
        "[3/3] blocked  matmul:3x5x7 tiny golden seed 1  did not run: x error",
        "1 worker: a",
        "running: matmul:3x5x7 tiny golden seed 2 (61 s); about 1.9 h left",
        "worker a is gone",
    ]
