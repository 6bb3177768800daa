"""The mapped netlist: Yosys writes one module after another, here they become one flat netlist.

Nets are numbered; net 0 is constant 0 (or of no value), net 1 constant 1. Gates are kept by type
as arrays of nets, one column a pin, so that a netlist of a million gates is a few dozen arrays.
Names are looked up only for what a report shows.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sw.synth.errors import SynthError

Nets = npt.NDArray[np.int32]

CONSTANTS = 2
"""Nets 0 and 1."""

MEMORY = "$mem_v2"
SRAM = "systola_sram"
MACROS = (MEMORY, SRAM)
"""Cells that are memories: small ones, and the wrapper that a macro replaces."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a net or cell is called in the source, and where: `file:line`, or nothing."""

    name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A memory: its parameters and the nets of each port."""

    name: str
    kind: str
    parameters: dict[str, Any]
    ports: dict[str, Nets]
    instance: int = -1


@dataclass(slots=True, kw_only=True)
class Module:
    """A module as Yosys wrote it; nets are numbered within it, from 2 (see above)."""

    ports: dict[str, tuple[str, Nets]]
    gates: dict[str, Nets]
    gate_sources: dict[str, list[str]]
    macros: list[Macro]
    children: list[tuple[str, str, dict[str, Nets]]]
    nets: int
    names: dict[int, Named]
    anonymous: dict[int, str]
    """What Verilog calls nets that the generator has no name for; simulators know it too."""

    def wave_name(self, net: int) -> str:
        """The name of a net in this module that a simulator has, or nothing."""
        named = self.names.get(net)
        return named.name if named else self.anonymous.get(net, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A module in its place. nets: the number in the whole netlist of each of its nets."""

    path: str
    module: Module
    nets: Nets
    first: int
    own: Nets


@dataclass(slots=True)
class Gates:
    """All gates of a type: nets by pin, and for each run of rows the instance that it is from."""

    pins: tuple[str, ...]
    nets: Nets
    instances: Nets
    starts: list[int] = field(default_factory=list)

    def place(self, row: int) -> tuple[int, int]:
        """The instance of a gate and its row among that module's gates of the type."""
        start = self.starts[bisect_right(self.starts, row) - 1]
        return int(self.instances[row]), row - start


@dataclass(slots=True, kw_only=True)
class Netlist:
    """Everything below the top module."""

    gates: dict[str, Gates]
    macros: list[Macro]
    instances: list[Instance]
    nets: int
    inputs: dict[str, Nets]
    outputs: dict[str, Nets]
    _firsts: list[int] = field(default_factory=list)

    def net_name(self, net: int) -> Named:
        """What a net is called where it was made; empty for one that synthesis has made."""
        if not self._firsts:
            self._firsts = [instance.first for instance in self.instances]
        instance = self.instances[bisect_right(self._firsts, net) - 1]
        at = net - instance.first
        if net < CONSTANTS or not 0 <= at < len(instance.own):
            return Named("", "")
        return instance.module.names.get(int(instance.own[at]), Named("", ""))

    def wave_name(self, kind: str, row: int, pin: str) -> tuple[str, str]:
        """The path of the gate's instance and the name of the net at `pin` in a simulator."""
        gates = self.gates[kind]
        number, at = gates.place(row)
        instance = self.instances[number]
        local = int(instance.module.gates[kind][at, gates.pins.index(pin)])
        return instance.path, instance.module.wave_name(local)

    def gate_name(self, kind: str, row: int, pin: str) -> tuple[str, Named]:
        """The path of the gate's instance and the name of the net at `pin`, as known there.

        The line is the generator's where Amaranth has left it, else that of the Verilog.
        """
        gates = self.gates[kind]
        number, at = gates.place(row)
        instance = self.instances[number]
        local = int(instance.module.gates[kind][at, gates.pins.index(pin)])
        sources = instance.module.gate_sources.get(kind)
        source = sources[at] if sources else ""
        found = instance.module.names.get(local, Named("", ""))
        lines = [text for text in (source, found.source) if text]
        best = next((text for text in lines if ".py:" in text), lines[0] if lines else "")
        return instance.path, Named(found.name, best)


def read_modules(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each module of a JSON netlist of Yosys, without the others in memory."""
    name, lines = "", list[str]()
    with path.open() as file:
        for line in file:
            if line.startswith("  ") and line[2] not in ' "}':
                continue
            if line.startswith('    "') and line.rstrip().endswith("{"):
                name, lines = json.loads(line.rstrip()[:-1].rstrip().removesuffix(":")), ["{"]
            elif line.startswith("    }") and lines:
                yield name, json.loads("".join([*lines, "}"]))
                lines = []
            elif lines:
                lines.append(line)
    if lines or not name:
        raise SynthError(f"netlist {path}: it ends too early; Yosys did not finish")


def load_netlist(path: Path, pins: dict[str, tuple[str, ...]], top: str) -> Netlist:
    """The flat netlist of `top`. pins: the pins of every cell of the library, by its name."""
    modules: dict[str, Module] = {}
    for name, data in read_modules(path):
        if "cells" in data and name not in MACROS:
            modules[name] = _module(name, data, pins)
    if top not in modules:
        raise SynthError(f"netlist {path}: it has no module {top}")
    return _Flattener(modules, pins).netlist(top)


def _net(bit: int | str) -> int:
    """Yosys numbers nets from 2; a text is a constant."""
    return bit if isinstance(bit, int) else int(bit == "1")


def _bits(bits: list[Any]) -> Nets:
    return np.array([_net(bit) for bit in bits], np.int32)


def _module(name: str, data: dict[str, Any], pins: dict[str, tuple[str, ...]]) -> Module:
    gates: dict[str, list[list[int]]] = {}
    sources: dict[str, list[str]] = {}
    macros: list[Macro] = []
    children: list[tuple[str, str, dict[str, Nets]]] = []
    for cell_name, cell in data["cells"].items():
        kind, connections = cell["type"], cell["connections"]
        if kind in pins:
            bits = [(connections.get(pin) or "0")[0] for pin in pins[kind]]
            gates.setdefault(kind, []).append([_net(bit) for bit in bits])
            sources.setdefault(kind, []).append(cell["attributes"].get("src", ""))
        elif kind in MACROS:
            ports = {port: _bits(bits) for port, bits in connections.items()}
            called = cell["parameters"].get("MEMID", cell_name).lstrip("\\")
            macros.append(Macro(name=called, kind=kind, parameters=cell["parameters"], ports=ports))
        elif kind.startswith("$") and "\\" not in kind:  # `$paramod…\\name` is a module
            if kind != "$scopeinfo":
                raise SynthError(f"module {name}: cell {cell_name} of type {kind} was not mapped")
        else:
            ports = {port: _bits(bits) for port, bits in connections.items()}
            children.append((cell_name, kind, ports))
    names, anonymous, last = _names(data)
    return Module(
        ports={n: (p["direction"], _bits(p["bits"])) for n, p in data["ports"].items()},
        gates={kind: np.array(rows, np.int32) for kind, rows in gates.items()},
        gate_sources={kind: texts for kind, texts in sources.items() if any(texts)},
        macros=macros,
        children=children,
        nets=1 + max(last, *(int(m.max(initial=0)) for m in map(np.array, gates.values())), 1),
        names=names,
        anonymous=anonymous,
    )


def _names(data: dict[str, Any]) -> tuple[dict[int, Named], dict[int, str], int]:
    """Names of nets that are in the source, the shortest of each; those of expressions of the
    generator; the largest number of a net."""
    names: dict[int, Named] = {}
    anonymous: dict[int, str] = {}
    last = 1
    for name, net in data["netnames"].items():
        bits = net["bits"]
        last = max(last, max((b for b in bits if isinstance(b, int)), default=1))
        if net["hide_name"]:
            continue
        source = net["attributes"].get("src", "")
        for i, bit in enumerate(bits):
            if isinstance(bit, int):
                text = f"{name}[{i}]" if len(bits) > 1 else name
                if name.startswith(("$", "\\$")):
                    anonymous.setdefault(bit, text.removeprefix("\\"))
                    continue
                known = names.get(bit)
                if known is None or (not known.source, len(known.name)) > (not source, len(text)):
                    names[bit] = Named(text, source)
    return names, anonymous, last


class _Flattener:
    """Numbers the nets of all instances; a net at a port has the number that it has outside."""

    def __init__(self, modules: dict[str, Module], pins: dict[str, tuple[str, ...]]) -> None:
        self._modules = modules
        self._pins = pins
        self._nets = CONSTANTS
        self._instances: list[Instance] = []
        self._macros: list[Macro] = []
        self._same: list[tuple[int, int]] = []
        self._parts: dict[str, list[tuple[int, Nets]]] = {}

    def netlist(self, top: str) -> Netlist:
        module = self._modules[top]
        number = self._place(top, "", {})
        nets = self._instances[number].nets
        replaced = self._representatives()
        return Netlist(
            gates={kind: self._joined(kind, replaced) for kind in sorted(self._parts)},
            macros=[_renumbered(m, replaced) for m in self._macros],
            instances=self._instances,
            nets=self._nets,
            inputs={n: replaced[nets[b]] for n, (d, b) in module.ports.items() if d == "input"},
            outputs={n: replaced[nets[b]] for n, (d, b) in module.ports.items() if d != "input"},
        )

    def _place(self, kind: str, path: str, outside: dict[str, Nets]) -> int:
        module = self._modules.get(kind)
        if module is None:
            raise SynthError(f"instance {path}: there is no module {kind}")
        nets = np.full(module.nets, -1, np.int32)
        nets[:CONSTANTS] = range(CONSTANTS)
        for port, outer in outside.items():
            inner = module.ports[port][1]
            self._same += _clashes(nets, inner, outer)
            free = nets[inner] < 0
            nets[inner[free]] = outer[free]
        own = np.flatnonzero(nets < 0).astype(np.int32)
        nets[own] = np.arange(self._nets, self._nets + len(own), dtype=np.int32)
        number = len(self._instances)
        self._instances.append(
            Instance(path=path, module=module, nets=nets, first=self._nets, own=own)
        )
        self._nets += len(own)
        for gate_kind, rows in module.gates.items():
            self._parts.setdefault(gate_kind, []).append((number, nets[rows]))
        for macro in module.macros:
            ports = {port: nets[bits] for port, bits in macro.ports.items()}
            self._macros.append(
                Macro(
                    name=f"{path}.{macro.name}".lstrip("."),
                    kind=macro.kind,
                    parameters=macro.parameters,
                    ports=ports,
                    instance=number,
                )
            )
        for name, child, ports in module.children:
            inside = {port: nets[bits] for port, bits in ports.items()}
            self._place(child, f"{path}.{name}".lstrip("."), inside)
        return number

    def _representatives(self) -> Nets:
        """For each net the number that stands for it: a wire through a module joins two."""
        found = np.arange(self._nets, dtype=np.int32)

        def root(net: int) -> int:
            while found[net] != net:
                found[net] = found[found[net]]
                net = int(found[net])
            return net

        for a, b in self._same:
            low, high = sorted((root(a), root(b)))
            found[high] = low
        for a, b in self._same:
            found[a], found[b] = root(a), root(b)
        return found

    def _joined(self, kind: str, replaced: Nets) -> Gates:
        parts = self._parts[kind]
        counts = [len(rows) for _, rows in parts]
        return Gates(
            pins=self._pins[kind],
            nets=replaced[np.concatenate([rows for _, rows in parts])],
            instances=np.repeat(np.array([n for n, _ in parts], np.int32), counts),
            starts=[0, *np.cumsum(counts)[:-1].tolist()],
        )


def _clashes(nets: Nets, inner: Nets, outer: Nets) -> list[tuple[int, int]]:
    """Pairs of outer nets that are one inside: a bit of `inner` that has a number already."""
    pairs = []
    seen: dict[int, int] = {}
    for i, o in zip(inner.tolist(), outer.tolist(), strict=True):
        known = seen.setdefault(i, int(nets[i]) if nets[i] >= 0 else o)
        if known != o:
            pairs.append((known, o))
    return pairs


def _renumbered(macro: Macro, replaced: Nets) -> Macro:
    return Macro(
        name=macro.name,
        kind=macro.kind,
        parameters=macro.parameters,
        ports={port: replaced[nets] for port, nets in macro.ports.items()},
        instance=macro.instance,
    )
