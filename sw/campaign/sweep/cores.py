"""A FuseSoC core of a sweep's points."""

import re
from collections.abc import Sequence
from pathlib import Path

from sw.campaign.sweep.result import PointResult
from sw.results.task import CampaignError
from sw.runtime.simulator.fusesoc_core import core_of, text_of
from sw.runtime.simulator.generated import ROOT


def write_core(points: Sequence[PointResult], name: str, path: Path) -> int:
    """Write targets `lint_DIGEST`, `sim_DIGEST` and `synth_DIGEST` of every legal point; how many.

    name: of the core, `systola_NAME`. `CampaignError` if the file cannot be written.
    """
    configs = {p.config.digest_hex: p.config for p in points if p.config is not None}
    plain = re.sub(r"\W+", "_", name)
    core = core_of(f"::systola_{plain}:0.1.0", configs, folder=str(ROOT / "rtl"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("CAPI=2:\n" + text_of(core), encoding="utf-8")
    except OSError as error:
        raise CampaignError(f"--out {path}: cannot write: {error.strerror}") from None
    return len(configs)
