"""The packed function by which TVM runs the programs in a module."""

import contextlib
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from spec.errors import SystolaError
from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.payload import IDENTITY, Payload, read_payload
from sw.frontends.tvm.errors import TvmError, tvm
from sw.torch_backend.options import Options

PREFIX = "systola.program."
"""What names of packed functions begin with; a name of its own follows for each module."""


class Host:
    """Programs that are open, by what they are. `name`: of the packed function.

    graphs: what programs were compiled of, by their names. A program that is not open yet is opened
    when it is called.
    """

    def __init__(
        self,
        options: Options,
        payloads: Sequence[Payload] = (),
        graphs: Mapping[str, Graph] | None = None,
        name: str = "",
    ) -> None:
        self.name = name or f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self.options, self._graphs = options, dict(graphs or {})
        self._lock = threading.Lock()
        self._open: dict[bytes, Delegate] = {}
        for payload in payloads:
            data = payload.to_bytes()
            self._open[data[:IDENTITY]] = self._delegate(payload)

    @property
    def delegates(self) -> list[Delegate]:
        return list(self._open.values())

    def _delegate(self, payload: Payload) -> Delegate:
        return Delegate(payload, self.options, self._graphs.get(payload.name))

    def run(self, *tensors: Any) -> None:
        """One run: the payload, what the program takes, and what it writes to.

        Errors reach whoever called the machine as `TvmError`, the one class that TVM is told of.
        """
        try:
            self._run(tensors)
        except SystolaError as error:
            raise TvmError(str(error)) from error

    def _run(self, tensors: Sequence[Any]) -> None:
        payload, *arguments = (torch.from_dlpack(each).numpy() for each in tensors)
        with self._lock:
            key = payload[:IDENTITY].tobytes()
            if key not in self._open:
                stored = read_payload(payload.tobytes(), self.name)
                self._open[key] = self._delegate(stored)
            self._open[key].run(arguments)

    def found(self) -> contextlib.ExitStack:
        """Let TVM find the function by its name, until what is returned is closed.

        A machine keeps what it finds while it is made. What had the name before has it again.
        """
        tvm()
        import tvm_ffi

        tvm_ffi.register_error(TvmError.__name__, TvmError)
        before = tvm_ffi.get_global_func(self.name, allow_missing=True)
        tvm_ffi.register_global_func(self.name, self.run, override=True)
        stack = contextlib.ExitStack()
        if before is None:
            stack.callback(tvm_ffi.registry.remove_global_func, self.name)
        else:
            stack.callback(tvm_ffi.register_global_func, self.name, before, True)
        return stack
