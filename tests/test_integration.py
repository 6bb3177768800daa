"""The client of docs/integration.md: six programs under stalls, faults, the register port."""

import json
from pathlib import Path

import pytest

import cocotb_tests
from cocotb_tests.harness.bench import run_bench
from golden_model import Machine
from spec import preset
from sw.compiler import compile_graph
from sw.measure.corrupted import KERNELS
from sw.models.kernels import kernel, parse_shape
from sw.runtime.simulator.generated import generate_rtl

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "cocotb_tests" / "integration_client.py"
TINY = preset("tiny")


def test_the_client_knows_nothing_but_the_page():
    found = {
        line.split()[1].split(".")[0]
        for line in CLIENT.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    ours = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()} | {
        "spec",
        "sw",
    }
    assert found and not found & ours


def test_the_pages_diagrams_show_every_signal_of_their_sources():
    sources = sorted((ROOT / "docs" / "integration").glob("*.json"))
    assert len(sources) == 3
    page = (ROOT / "docs" / "integration.md").read_text()
    for source in sources:
        picture = source.with_suffix(".svg").read_text()
        assert f"](integration/{source.stem}.svg)" in page
        lanes = [lane for lane in json.loads(source.read_text())["signal"] if lane]
        rows = [row for lane in lanes for row in (lane[1:] if isinstance(lane, list) else [lane])]
        for row in rows:
            assert f">{row['name']}<" in picture, f"{source.name}: render it again"
            for text in row.get("data", ()):
                assert f">{text}<" in picture, f"{source.name}: render it again"


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_six_programs_run_by_the_page_alone(tmp_path):
    for name, shape in KERNELS:
        work = kernel(name, parse_shape(shape, name), seed=2)
        image = compile_graph(work.graph, TINY, name=name)
        folder = tmp_path / "jobs" / name
        folder.mkdir(parents=True)
        image.save(folder / "image")
        for port, array in work.inputs.items():
            (folder / f"in_{port}").write_bytes(array.tobytes())
        for port, array in Machine(TINY).run(image, work.inputs).items():
            (folder / f"out_{port}").write_bytes(array.tobytes())
    run_bench(
        "cocotb_tests.integration_client",
        "systola_npu",
        generate_rtl(TINY, tmp_path / "rtl"),
        public=Path(cocotb_tests.__file__).parent / "npu_ports.vlt",
        env={"SYSTOLA_JOBS": str(tmp_path / "jobs")},
        at_least=2 + 1 + 1,
    )
