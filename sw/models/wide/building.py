"""A wide network becomes a quantized model, which the cache keeps."""

import hashlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.quantization.values import Policy
from sw.compiler.frontend.quantized import QuantizedModel
from sw.models.store import load_network
from sw.models.wide.table import WIDE, WideSpec

if TYPE_CHECKING:
    from sw.models.build import Built

_WEIGHTS = "seeded; batch norms: statistics of the calibration data"


def load_wide(name: str, policy: Policy = "auto", precision: Precision = PLAIN) -> QuantizedModel:
    """The quantized network called `name`, from the cache where it is known."""
    precise = "" if precision.is_default else f"{precision.text} "
    return load_network(
        WIDE[name],
        lambda _: build_wide(name, policy, precision).model,
        variant=f"{policy} {precise}{_sources()}",
    )


def build_wide(name: str, policy: Policy = "auto", precision: Precision = PLAIN) -> "Built":
    """Build, quantize and import a network. policy: `auto` chooses as for a user's model."""
    from sw.compiler.frontend.capture import capture
    from sw.compiler.frontend.threads import one_thread
    from sw.models.build import build

    spec: WideSpec = WIDE[name]
    file = importlib.import_module(f"sw.models.wide.{spec.file}")
    with one_thread():
        network = getattr(file, name)(spec.seed)
        captured = capture(network.module, network.samples[0])
    facts = {
        "name": name,
        "seed": spec.seed,
        "shape": spec.shape,
        "family": spec.family,
        "weights": _WEIGHTS,
        "runs": 1,
    }
    return build(
        captured,
        [captured.flat(call) for call in network.samples],
        [captured.flat(call) for call in network.calibration],
        facts=facts,
        policy=policy,
        precision=precision,
    )


def _sources() -> str:
    """A digest of this folder, which decides the integers beside what `store.py` knows of."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
