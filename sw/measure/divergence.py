"""Where a device first leaves the golden model: layer, instruction, element.

A program cut off after any of its instructions is a program too: the order in the image is a
correct order, so that no instruction waits for a later one. Both sides run such prefixes, all
that they hold (output and temporary memory, scratchpad, accumulator) is compared, and the first
instruction after which they differ is found by bisection. What a later instruction overwrites with
equal bits before anyone reads it is not seen; nor is a difference that depends on the timing of the
instructions after it (`find_divergence` then returns None or a later instruction).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from golden_model.machine import execute_program
from golden_model.memory import fill_inputs
from golden_model.program import Program
from golden_model.state import State
from spec.errors import SystolaError
from spec.isa import REGIONS, Instruction, Opcode, encode_program
from spec.program import (
    REGION_CONST,
    REGION_INPUT,
    REGION_OUTPUT,
    REGION_TEMP,
    Image,
)
from sw.measure.onchip import dump_image
from sw.runtime.rtl import RtlDevice
from sw.runtime.simulator.layout import POISON

Arrays = Mapping[str, NDArray[Any]]
Known = tuple[NDArray[Any], NDArray[np.bool_]]
"""Values, and which of them do not depend on what the chip held before."""
OUTPUT, TEMP, ACC, SPAD = "output memory", "temporary memory", "accumulator", "scratchpad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first instruction after which a device holds something else than the golden model.

    layer: its name, as in the image's `info`. instruction: index, BEGIN being 0; `text` is its
    disassembly. element: what differs first, e.g. `output memory: conv1[0, 3, 2, 17]`; or the
    message of a fault, and then there are no values.
    """

    layer: str
    instruction: int
    text: str
    element: str
    expected: int | None = None
    got: int | None = None

    def __str__(self) -> str:
        values = "" if self.expected is None else f": expected {self.expected}, got {self.got}"
        return (
            f"layer {self.layer or '?'}, instruction {self.instruction} `{self.text}`, "
            f"{self.element}{values}"
        )


class Probe(Protocol):
    """A device seen from inside."""

    def after(self, image: Image, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Everything that `image` leaves: OUTPUT, TEMP, SPAD in bytes, ACC in int32 vectors."""


class RtlProbe:
    """The RTL; its on-chip memories are read by a second program that stores them."""

    def __init__(self, device: RtlDevice) -> None:
        self._device = device

    def after(self, image: Image, inputs: Arrays) -> dict[str, NDArray[Any]]:
        device = self._device
        device.load(image)
        for name, array in inputs.items():
            device.write(name, array)
        device.run()
        found = {OUTPUT: device.memory(REGION_OUTPUT), TEMP: device.memory(REGION_TEMP)}
        device.load(dump_image(device.config))
        device.run()
        return {**found, SPAD: device.read("spad"), ACC: device.read("acc")}


class _Golden:
    """The golden model's state after a program, and what of it the program determines."""

    def __init__(self, image: Image, inputs: Arrays) -> None:
        self._image, self._inputs = image, inputs

    def after(self, image: Image) -> dict[str, Known]:
        """As `Probe.after`, with where the program alone decides what is there."""
        program = Program(image.program.tobytes(), image.config)
        zeros, ones = (self._run(program, fill) for fill in (0x00, 0xFF))
        return {place: (zeros[place], zeros[place] == ones[place]) for place in zeros}

    def _run(self, program: Program, fill: int) -> dict[str, NDArray[Any]]:
        state = State(self._image.config)
        for region in range(REGIONS):
            size = self._image.region_bytes(region) if region <= REGION_TEMP else 0
            state.memory[region] = np.full(size, POISON, np.uint8)
        state.memory[REGION_CONST][:] = self._image.constants
        fill_inputs(state.memory[REGION_INPUT], self._image.inputs, self._inputs)
        for part in (state.padded, state.acc.view(np.uint8)):
            part[:] = fill
        execute_program(state, program, check=False)
        return {
            OUTPUT: state.memory[REGION_OUTPUT],
            TEMP: state.memory[REGION_TEMP],
            ACC: state.acc,
            SPAD: state.spad,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    element: str
    expected: int | None = None
    got: int | None = None


def find_divergence(image: Image, inputs: Arrays, device: Probe | RtlDevice) -> Divergence | None:
    """The first divergence of `device` from the golden model on a whole program and its inputs.

    None if they agree this time. Takes about log2(instructions) runs on each side.
    """
    probe = RtlProbe(device) if isinstance(device, RtlDevice) else device
    golden = _Golden(image, inputs)
    instructions = image.instructions()

    def differs(count: int) -> _Difference | None:
        cut = prefix(image, instructions, count)
        return _compare(cut, count, golden.after(cut), probe, inputs)

    last = len(instructions) - 2
    found = differs(last)
    if found is None:
        return None
    equal, different = 0, last
    while different - equal > 1:
        middle = (equal + different) // 2
        here = differs(middle)
        if here is None:
            equal = middle
        else:
            different, found = middle, here
    return Divergence(
        layer=layer_of(image, different),
        instruction=different,
        text=str(instructions[different]),
        element=found.element,
        expected=found.expected,
        got=found.got,
    )


def prefix(image: Image, instructions: list[Instruction], count: int) -> Image:
    """BEGIN, the `count` instructions that are executed after it, END; written out in full."""
    code = encode_program([*instructions[: count + 1], Instruction(Opcode.END)])
    return replace(image, program=np.frombuffer(code, np.uint8))


def layer_of(image: Image, instruction: int) -> str:
    """Name of the layer that an instruction belongs to; empty where the image does not say."""
    layer = _layer_index(image, instruction)
    return "" if layer is None else str(image.info["layers"][layer]["name"])


def _layer_index(image: Image, instruction: int) -> int | None:
    at = 1
    for layer, count in image.info.get("instruction_layers", ()):
        if at <= instruction < at + count:
            return int(layer)
        at += count
    return None


def _compare(
    image: Image,
    instruction: int,
    want: Mapping[str, Known],
    probe: Probe,
    inputs: Arrays,
) -> _Difference | None:
    """The first difference after `image`, whose last instruction but END is `instruction`."""
    try:
        got = probe.after(image, inputs)
    except SystolaError as error:
        return _Difference(element=str(error))
    layer = _layer_index(image, instruction)
    for place in (OUTPUT, TEMP, ACC, SPAD):
        values, known = want[place]
        different = np.argwhere((values != got[place]) & known)
        if not len(different):
            continue
        at = tuple(int(i) for i in different[0])
        if place != ACC:
            return _in_memory(image, layer, place, at[0], (values, got[place]))
        return _Difference(
            element=f"{place} vector {at[0]} lane {at[1]}",
            expected=int(values[at]),
            got=int(got[place][at]),
        )
    return None


_REGION = {OUTPUT: REGION_OUTPUT, TEMP: REGION_TEMP, SPAD: None}


def _in_memory(
    image: Image,
    layer: int | None,
    place: str,
    byte: int,
    both: tuple[NDArray[np.uint8], NDArray[np.uint8]],
) -> _Difference:
    """The tensor element that a byte belongs to.

    Tensors share memory: this layer's comes first, then those of the layers before it, the latest
    first. In the scratchpad tensors lie among tiles, and only this layer's own is told.
    """
    layers = list(image.info.get("layers", ()))[: None if layer is None else layer + 1][::-1]
    for known in layers[:1] if place == SPAD else layers:
        output = known.get("output", {"region": -1})
        index = _index(output, byte) if output["region"] == _REGION[place] else None
        if index is not None:
            item = np.dtype(output["dtype"]).itemsize
            steps = zip(index, output["strides"], strict=True)
            at = output["offset"] + sum(i * step for i, step in steps)
            values = [int(m[at : at + item].view(output["dtype"])[0]) for m in both]
            name = f"{place}: {known['name']}{list(index)}"
            return _Difference(element=name, expected=values[0], got=values[1])
    element = f"{place} byte {byte:#x}"
    return _Difference(element=element, expected=int(both[0][byte]), got=int(both[1][byte]))


def _index(output: Mapping[str, Any], byte: int) -> tuple[int, ...] | None:
    """The element of a strided tensor that holds `byte` of its region, or None."""
    rest = byte - output["offset"]
    index = []
    for size, stride in zip(output["shape"], output["strides"], strict=True):
        i = min(rest // stride, size - 1) if stride > 0 else 0
        index.append(i)
        rest -= i * stride
    item = np.dtype(output["dtype"]).itemsize
    return tuple(index) if byte >= output["offset"] and 0 <= rest < item else None
