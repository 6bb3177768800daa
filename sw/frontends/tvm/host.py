"""The packed function by which TVM runs the programs in a module."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.payload import IDENTITY, Payload, read_payload
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
        """One run: the payload, what the program takes, and what it writes to."""
        payload, *arguments = (torch.from_dlpack(each).numpy() for each in tensors)
        with self._lock:
            key = payload[:IDENTITY].tobytes()
            if key not in self._open:
                stored = read_payload(payload.tobytes(), self.name)
                self._open[key] = self._delegate(stored)
            self._open[key].run(arguments)
