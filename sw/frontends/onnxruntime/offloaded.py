"""`Offloaded`: a model with programs of the NPU, its sessions, its file; `load` for such files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.errors import DelegateError
from sw.frontends.delegates.options import run_options
from sw.frontends.delegates.report import DelegateReport, make_report
from sw.frontends.onnx.reading import read
from sw.frontends.onnx.weights import join_weights
from sw.frontends.onnxruntime.errors import OnnxRuntimeError
from sw.frontends.onnxruntime.rewriting import payloads_of, rows_of, with_session
from sw.frontends.onnxruntime.session import Host, session_classes
from sw.torch_backend.options import Options


class Offloaded:
    """`model` is a ModelProto in which each region on the NPU is one operator with its program.

    `session()` runs it. Sessions of one's own are made with `model` and `session_options()`.
    """

    def __init__(
        self, *, model: Any, name: str, options: Options, graphs: Mapping[str, Graph] | None = None
    ) -> None:
        self.name, self.options = name, options
        self._rows = rows_of(model, name)
        try:
            payloads = payloads_of(model, name)
        except DelegateError as error:
            raise OnnxRuntimeError(str(error)) from None
        self._host = Host(payloads, options, graphs or {})
        self.model = with_session(model, self._host.name)

    def session_options(self) -> Any:
        """New `onnxruntime.SessionOptions` that know the operators, to be changed at will."""
        options, _ = session_classes()
        return options(self._host)

    def session(self, **keywords: Any) -> Any:
        """An `onnxruntime.InferenceSession` of the model, which raises errors of programs.

        keywords: those of `InferenceSession`; providers is the CPU's without it, sess_options
        are those that `session_options()` gave.
        """
        options, session = session_classes()
        keywords = {"providers": ["CPUExecutionProvider"], **keywords}
        keywords.setdefault("sess_options", self.session_options())
        if not isinstance(keywords["sess_options"], options):
            raise OnnxRuntimeError(
                f"{self.name}: sess_options must be what session_options() gave: the operators of "
                "the NPU are registered in it"
            )
        try:
            return session(self.model.SerializeToString(), **keywords)
        except Exception as error:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise OnnxRuntimeError(f"{self.name}: ONNX Runtime: {text}") from None

    def save(self, path: str | Path) -> None:
        """Write the model with its programs, for `load` in this or another process."""
        import onnx

        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        onnx.save(with_session(copy, ""), str(path))

    @property
    def delegates(self) -> Sequence[Delegate]:
        """The NPU's programs, in an order of execution."""
        return list(self._host.delegates.values())

    def report(self) -> DelegateReport:
        """Where each node runs and why, and what the programs have done so far."""
        return make_report(self.name, self.options.device, self.delegates, self._rows)


def load(path: str | Path, **options: Any) -> Offloaded:
    """A model that `Offloaded.save` wrote.

    options: device, latency, stall, seed, clock_mhz, memory, check; verify compares the RTL of each
    run with the golden model. `OnnxRuntimeError` for a file that is damaged or made by another
    release, `OnnxError` for one that is no ONNX model.
    """
    chosen = run_options(options)
    model, file, folder = read(path)
    join_weights(model, file, folder)
    return Offloaded(model=model, name=file, options=chosen)
