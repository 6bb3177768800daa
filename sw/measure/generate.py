"""Greedy generation on a device: one run reads the prompt, then one makes a token each.

Both programs are compiled once, and the second is loaded once: its weights stay where they are from
token to token. Between runs only the new keys and values are put behind those of the tokens before,
in a state of fixed size whose mask says how much of it counts.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.program import Image
from sw.compiler.frontend.ports import Imported, dequantize_output, quantize_input
from sw.compiler.frontend.threads import one_thread
from sw.models.catalog import pcc
from sw.models.gpt2 import Generator, build_generator, state_mask
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Comparison, compare
from sw.runtime.session import DeviceOptions, open_device

if TYPE_CHECKING:
    from sw.runtime.device import Device, RunResult

Array = NDArray[Any]
Row = dict[str, Any]
Say = Callable[[str], None]


def stream_bytes(imported: Imported) -> dict[str, int]:
    """Bytes that a run must read: `weights` of the linear layers, `state` of keys and values."""
    graph = imported.graph
    weights = {op.inputs[1] for op in graph.ops if op.kind == "CONV2D"}
    sizes = [graph.tensors[name] for name in weights if graph.tensors[name].is_constant]
    state = sum(int(np.prod(p.shape)) for p in imported.inputs[3:])
    return {"weights": sum(int(np.prod(t.shape)) for t in sizes), "state": state}


@dataclass(slots=True)
class _Floats:
    """The float network on the tokens that the device chose, token by token."""

    model: Any
    cache: Any = None

    def logits(self, ids: torch.Tensor) -> NDArray[np.float32]:
        """What follows `ids`, which come behind all earlier ones."""
        with torch.no_grad(), one_thread():
            out = self.model(ids, past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        return np.asarray(out.logits[0, -1].numpy(), np.float32)


@dataclass(slots=True)
class _Program:
    """An image on the device, and on a golden model of its own where the device is another one."""

    image: Image
    device: "Device"
    golden: list[GoldenDevice] = field(default_factory=list)

    def load(self, config: NpuConfig, alone: bool) -> None:
        self.device.load(self.image)
        if not alone:
            # Hazards do not depend on data: the first run looks for them.
            self.golden = [GoldenDevice(config), GoldenDevice(config, check=False)]
            for golden in self.golden:
                golden.load(self.image)

    def run(
        self, inputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], "RunResult", Comparison | None]:
        """The device's outputs and figures, and how they compare with the golden model's."""
        outputs, result = _run(self.device, self.image, inputs)
        if not self.golden:
            return outputs, result, None
        expected, _ = _run(self.golden[0], self.image, inputs)
        del self.golden[: len(self.golden) - 1]
        return outputs, result, compare(expected, outputs)


def _run(
    device: "Device", image: Image, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], "RunResult"]:
    for name, array in inputs.items():
        device.write(name, array)
    result = device.run()
    return {port.name: device.read(port.name) for port in image.outputs}, result


class Generation:
    """A prompt and its greedy continuation. Rows of `steps` are what `to_json` documents."""

    def __init__(self, name: str, prompt: int, tokens: int, say: Say = lambda _: None) -> None:
        say(f"{name}: calibrating and importing…")
        self.made: Generator = build_generator(name, prompt, tokens)
        self.count = tokens
        self.steps: list[Row] = []
        ports = self.made.decode.inputs[3:]
        self.caches: list[Array] = [np.zeros(p.layout.memory_shape, p.dtype) for p in ports]
        self.bytes = stream_bytes(self.made.decode)

    def run(self, config: NpuConfig, options: DeviceOptions, say: Say) -> Iterator[Row]:
        """Every run as it ends: the prompt, then `count` tokens."""
        from sw.compiler import compile_graph

        made, alone = self.made, options.device == "golden"
        say(f"{made.name}: compiling for {config.name}…")
        images = [compile_graph(part.graph, config) for part in (made.prefill, made.decode)]
        floats = _Floats(made.model)
        with open_device(config, options) as device:
            for kind, image in zip(("prefill", "decode"), images, strict=True):
                program = _Program(image, device)
                program.load(config, alone)
                runs = self._prefill() if kind == "prefill" else self._decode()
                for number, (inputs, ids, take) in enumerate(runs):
                    what = f"token {number + 1} of {self.count}" if kind == "decode" else "prompt"
                    say(f"{made.name}: {what} on {options.device}…")
                    start = time.perf_counter()
                    outputs, result, comparison = program.run(inputs)
                    row = self._row(kind, outputs, floats.logits(ids), comparison)
                    row |= self._figures(kind, result, config)
                    row["wall_s"] = time.perf_counter() - start
                    take(outputs)
                    self.steps.append(row)
                    yield row

    # Inputs of the runs, and where their results go ----------------------------------------------

    def _prefill(self) -> Iterator[tuple[dict[str, Array], torch.Tensor, Callable[..., None]]]:
        ids, made = self.made.prompt, self.made
        port = made.prefill.inputs[0]
        yield {port.name: quantize_input(port, ids)}, ids, lambda o: self._keep(made.prefill, o, 0)

    def _decode(self) -> Iterator[tuple[dict[str, Array], torch.Tensor, Callable[..., None]]]:
        made, prompt = self.made, self.made.prompt.shape[1]
        for step in range(self.count):
            valid = prompt + step
            ids = torch.tensor([[self.steps[-1]["token"]]])
            given = (ids, torch.tensor([[valid]]), state_mask(made.state, valid))
            ports = made.decode.inputs
            inputs = {
                port.name: quantize_input(port, t) for port, t in zip(ports[:3], given, strict=True)
            }
            inputs |= {p.name: c for p, c in zip(ports[3:], self.caches, strict=True)}
            yield inputs, ids, lambda o, at=valid: self._keep(made.decode, o, at)

    def _keep(self, program: Imported, outputs: Mapping[str, Array], at: int) -> None:
        """Put new keys and values behind the `at` that are there."""
        for cache, port in zip(self.caches, program.outputs[1:], strict=True):
            rows = outputs[port.name]
            cache[:, :, at : at + rows.shape[2]] = rows

    # Figures -------------------------------------------------------------------------------------

    def _row(
        self,
        kind: str,
        outputs: Mapping[str, Array],
        exact: NDArray[np.float32],
        comparison: Comparison | None,
    ) -> Row:
        port = (self.made.prefill if kind == "prefill" else self.made.decode).outputs[0]
        logits = dequantize_output(port, outputs[port.name]).reshape(-1)
        best = np.sort(exact)[-2:]
        return {
            "run": kind,
            "token": int(logits.argmax()),
            "float_token": int(exact.argmax()),
            "float_margin": float(best[1] - best[0]),
            "step": port.scale,
            "pcc": pcc(logits, exact),
            "bit_exact": None if comparison is None else comparison.exact,
            "elements": 0 if comparison is None else comparison.elements,
            "difference": "" if comparison is None else comparison.first,
        }

    def _figures(self, kind: str, result: "RunResult", config: NpuConfig) -> Row:
        found: Row = {"cycles": result.cycles, "predicted_cycles": result.predicted_cycles}
        if result.cycles is None:
            return found
        found["dram_read_bytes"] = result.read_bytes
        found["dram_write_bytes"] = result.write_bytes
        found["counters"] = {name: dict(row) for name, row in result.counters.items()}
        if kind == "decode":
            bound = sum(self.bytes.values()) / config.bus_bytes
            found |= {"bound_cycles": bound, "share_of_bound": bound / result.cycles}
        return found

    def float_tokens(self, count: int) -> list[int]:
        """What the float network says by itself."""
        floats, ids, out = _Floats(self.made.model), self.made.prompt, []
        for _ in range(count):
            out.append(int(floats.logits(ids).argmax()))
            ids = torch.tensor([out[-1:]])
        return out

    def to_json(self, config: NpuConfig, options: DeviceOptions) -> Row:
        """What there is so far.

        steps: of each run `token`, its own choice; `float_token`, the float network's behind the
        same tokens, and `float_margin`, by how much it prefers it to the second; `step`, of the
        integers of the logits; `pcc` of the logits with the float network's; `bit_exact`: every
        output is the golden model's (null on golden). bound_cycles: (weights + state) bytes over
        the width of the bus. float_tokens: the float network's own continuation.
        """
        return {
            "name": self.made.name,
            "config": config.name,
            "config_digest": config.digest_hex,
            "device": options.device,
            "latency": options.latency,
            "prompt": self.made.prompt.shape[1],
            "state": self.made.state,
            "bytes": self.bytes,
            "tokens": [row["token"] for row in self.steps],
            "float_tokens": self.float_tokens(len(self.steps)),
            "steps": self.steps,
        }


def failed(rows: list[Row]) -> bool:
    """Whether a run differed from the golden model."""
    return any(row["bit_exact"] is False for row in rows)
