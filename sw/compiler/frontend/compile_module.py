"""`compile_module`: a PyTorch model to a program image, quantizing it on the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.notebook import summary
from spec.program import Image
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importing import import_captured
from sw.compiler.frontend.ports import Imported, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.policy import Policy
from sw.compiler.frontend.quantization.precision import precision as parsed
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.compiler.frontend.threads import one_thread

if TYPE_CHECKING:
    from torchao.quantization.pt2e.quantizer import Quantizer


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModule:
    """A compiled model: its image, its TOSA graph with ports, and how calls become runs.

    `imported` says under which policy its values became integers, and why.
    """

    image: Image
    imported: Imported
    captured: Captured

    @property
    def quantized(self) -> Any:
        """The graph of PyTorch that was imported: with quantize nodes under policy `pt2e`."""
        return self.imported.source

    def _repr_html_(self) -> str:
        """What a notebook shows: the policy, and the image."""
        facts = [
            ("policy", self.image.info.get("policy", "")),
            ("why", self.image.info.get("policy_reason", "")),
        ]
        return summary("Compiled module", facts) + self.image._repr_html_()

    def inputs(self, *args: Any, **keywords: Any) -> dict[str, NDArray[Any]]:
        """The arguments of a call of the model as the program's integers, by port."""
        args, keywords = torch.utils._pytree.tree_map(torch.as_tensor, (args, keywords))
        return pack_inputs(self.imported, self.captured.flat((args, keywords)))

    def outputs(self, arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The program's outputs as float arrays of the model's shapes, in its order."""
        return unpack_outputs(self.imported, arrays)

    def returned(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """The program's outputs as what the model returns: a tensor, a tuple, a dictionary, …"""
        return self.captured.returned([torch.as_tensor(a) for a in self.outputs(arrays)])


def compile_module(
    model: Any,
    example_inputs: Sequence[Any] = (),
    config: NpuConfig | None = None,
    *,
    example_keywords: Mapping[str, Any] | None = None,
    calibration: Iterable[Any] | None = None,
    policy: Policy = "auto",
    quantizer: "Quantizer | None" = None,
    rows: Rows = "auto",
    precision: Iterable[str] | Mapping[str, str] = (),
    precision_budget: str = "",
    name: str = "",
    seed: int | None = None,
    dump_after: Sequence[str] = (),
) -> CompiledModule:
    """Compile `model` for inputs shaped like the examples.

    model: a module, an `ExportedProgram`, or a graph of PT2E. Floats are float32, half and double
    precision are converted; integers and bools stay what they are. calibration: calls (a tensor, a
    sequence of arguments, a mapping of keyword arguments, or a pair of both), each a whole multiple
    of the examples' batch; without it the examples calibrate. policy: see `policy.py`. quantizer:
    of PT2E, for policy `pt2e`. precision, precision_budget: layers of 16 bits, by name
    (`{"features.3.*": "int16"}`, or `NAME=int16`), or until a PCC or for more cycles; see
    `precision.py`. `seed`, where calibration data is random, is recorded in the image
    together with the number of samples. `CompileError` on anything that cannot be captured,
    quantized or compiled.
    """
    from sw.compiler.pipeline import compile_graph

    with one_thread():
        captured = capture(model, example_inputs, example_keywords)
        imported = import_captured(
            captured, calibration=calibration, policy=policy, quantizer=quantizer, rows=rows,
            name=name, config=config, precision=parsed(precision, precision_budget),
        )  # fmt: skip
    info = {
        "calibration_samples": imported.samples,
        "calibration_seed": seed,
        "policy": imported.policy,
    }
    config = config if config is not None else NpuConfig()
    title = imported.graph.name
    image = compile_graph(imported.graph, config, name=title, dump_after=dump_after, info=info)
    return CompiledModule(image=image, imported=imported, captured=captured)
