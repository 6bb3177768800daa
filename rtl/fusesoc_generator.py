"""FuseSoC generator: the RTL of one configuration as a core.

FuseSoC calls it with a YAML file that names parameters, the core's folder and its name.
"""

import json
import sys
from pathlib import Path

import yaml


def main() -> int:
    request = yaml.safe_load(Path(sys.argv[1]).read_text())
    parameters = request.get("parameters") or {}
    # A core elsewhere may call this one: the sources are those around this file.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from spec.config import parse_settings, preset
    from spec.errors import SystolaError
    from sw.runtime.simulator.generated import generate_rtl

    try:
        config = preset(str(parameters.get("config", "default")))
        settings = parse_settings([str(setting) for setting in parameters.get("set", [])])
        loops = bool(parameters.get("loops", False))
        files = generate_rtl(config.with_settings(settings), Path.cwd(), loops=loops)
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    listed = [
        {p.name: {"file_type": "systemVerilogSource" if p.suffix == ".sv" else "verilogSource"}}
        for p in files
    ]
    core = {
        "name": request["vlnv"],
        "filesets": {"rtl": {"files": listed}},
        "targets": {"default": {"filesets": ["rtl"]}},
    }
    # JSON is YAML.
    name = request["vlnv"].replace(":", "_").strip("_")
    Path(f"{name}.core").write_text("CAPI=2:\n" + json.dumps(core, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
