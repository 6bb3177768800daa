"""Where each call on the device runs: a program of the NPU by its signature, or PyTorch's CPU."""

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from spec.errors import SystolaError
from sw.torch_backend.options import parse_options
from sw.torch_backend.variant import NotCompiledError
from sw.torch_device.cpu import on_cpu, to_device
from sw.torch_device.operands import Key, Operands
from sw.torch_device.program import Program
from sw.torch_device.report import DeviceReport, Row

DEFAULTS: Mapping[str, Any] = {
    "policy": "wide",
    "variants": 256,
    "cache": False,
    "progress": False,
    "watch_results": True,
}
"""Where the device differs from `torch.compile`.

wide: an operator alone has no neighbour whose int8 scale it could share. variants: programs of one
operator. cache: entries are named by the values that calibrate, which seldom come again.
"""

_CHANGES = 8
"""Times that parameters or numbers of a call may change before it is left to the CPU."""

NO_ROW = "it writes, fills or moves values, or the compiler has no row for it"
"""Why an operator that is not in the compiler's table of computations is on the CPU."""


class Session:
    """The state of the device: its options, its programs and their figures."""

    def __init__(self) -> None:
        self.options = parse_options(DEFAULTS)
        self._lock = threading.RLock()
        self._programs: dict[OpOverload, OrderedDict[Key, Program | str]] = {}
        self._changes: dict[tuple[OpOverload, Key], int] = {}
        self._rows: dict[str, Row] = {}

    def set_options(self, given: Mapping[str, Any]) -> None:
        """Options from now on; those that are not given take their defaults."""
        self.options = parse_options({**DEFAULTS, **given})
        with self._lock:
            self._programs.clear()
            self._changes.clear()

    def report(self) -> DeviceReport:
        """What ran so far."""
        return DeviceReport(rows=tuple(self._rows.values()), options=self.options)

    def reset_report(self) -> None:
        self._rows.clear()

    # Calls ----------------------------------------------------------------------------------------

    def run(self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An operator that the compiler may take; its results are new tensors of the device."""
        operands = Operands.of(op, args, kwargs)
        row = self._row(op)
        with self._lock:
            program, results = self._program(operands, row)
            if isinstance(program, Program):
                results = results or self._run(program, operands, row)
                found = [to_device(r) for r in results]
                return found[0] if len(op._schema.returns) == 1 else tuple(found)
        return self.cpu(op, args, kwargs, program)

    def cpu(
        self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], reason: str
    ) -> Any:
        """An operator on the CPU, on the device's memory."""
        self._row(op).note_cpu(reason)
        return on_cpu(op, args, kwargs)

    def _run(self, program: Program, operands: Operands, row: Row) -> list[torch.Tensor]:
        start = time.perf_counter()
        results = program.run(operands.inputs)
        row.note_run(program.news(), time.perf_counter() - start)
        return results

    def _row(self, op: OpOverload) -> Row:
        name = op.name().removeprefix("aten::")
        return self._rows.setdefault(name, Row(name=name))

    # Programs -------------------------------------------------------------------------------------

    def _program(
        self, operands: Operands, row: Row
    ) -> tuple[Program | str, Sequence[torch.Tensor]]:
        """(The program of a call, or why there is none; its results, if it is new)."""
        if reason := operands.unfit():
            return reason, ()
        kept = self._programs.setdefault(operands.op, OrderedDict())
        key, results = operands.key(), list[torch.Tensor]()
        found = kept.get(key)
        if isinstance(found, Program) and found.versions != operands.versions:
            found = None
        if found is None:
            found = self._changed(operands) or self._compile(operands, key, row)
            if isinstance(found, Program):
                results, found.first = found.first, []
            kept[key] = found
            if len(kept) > self.options.variants:
                kept.popitem(last=False)
        kept.move_to_end(key)
        return found, results

    def _changed(self, operands: Operands) -> str:
        """Why a call whose parameters or numbers keep changing is not compiled again."""
        family = operands.op, operands.key(values=False)
        count = self._changes[family] = self._changes.get(family, -1) + 1
        if count < _CHANGES:
            return ""
        return f"parameters or numbers that change ({count} times): compiling them costs more"

    def _compile(self, operands: Operands, key: Key, row: Row) -> Program | str:
        start = time.perf_counter()
        try:
            program = Program(operands, self.options, self._forget(operands.op, key))
        except NotCompiledError:
            raise
        except SystolaError as error:
            return self._refused(operands.op, str(error).splitlines()[0])
        except Exception as error:  # whatever it is, the CPU can run the operator
            first = (str(error).splitlines() or [""])[0]
            return self._refused(operands.op, f"{type(error).__name__}: {first}")
        if program.reason:
            return self._refused(operands.op, program.reason)
        row.note_compiled(time.perf_counter() - start)
        row.note_run(program.news(), 0.0)
        return program

    def _refused(self, op: OpOverload, reason: str) -> str:
        if not self.options.fallback:
            raise NotCompiledError(f"{op}: {reason}")
        return reason

    def _forget(self, op: OpOverload, key: Key) -> Callable[[], None]:
        programs = self._programs

        def forget() -> None:
            if op in programs:
                programs[op].pop(key, None)

        return forget


@functools.cache
def session() -> Session:
    """The one device of this process."""
    return Session()
