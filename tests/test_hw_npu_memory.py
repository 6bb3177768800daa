"""The generated NPU moves memory: random copies, faults, resets, with cocotbext-axi models."""

from pathlib import Path

import pytest

import cocotb_tests
from cocotb_tests.harness.bench import run_bench
from spec import preset
from sw.runtime.simulator.generated import generate_rtl


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["tiny"])
def test_npu_moves_memory_and_recovers_from_faults(tmp_path, name):
    sources = generate_rtl(preset(name), tmp_path)
    run_bench(
        "cocotb_tests.npu_memory_bench",
        "systola_npu",
        sources,
        public=Path(cocotb_tests.__file__).parent / "npu_ports.vlt",
        env={"SYSTOLA_PRESET": name},
        at_least=9 + 20 + 1 + 2,
    )
