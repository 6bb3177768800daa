"""Sessions of ONNX Runtime whose operators are programs of the NPU.

The operators are written in Python (onnxruntime-extensions): an execution provider of our own would
be compiled against headers that ONNX Runtime's wheel does not have.
"""

import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.errors import DelegateError
from sw.frontends.delegates.payload import Payload
from sw.frontends.onnxruntime.errors import OnnxRuntimeError, runtime
from sw.frontends.onnxruntime.rewriting import OPERATOR, domain_of
from sw.torch_backend.options import Options

Array = NDArray[Any]


class Host:
    """The open programs of a model. An operator finds them by `name`, an attribute of its node.

    Errors cannot cross ONNX Runtime: they wait for `checked`.
    """

    def __init__(
        self, payloads: Mapping[str, Payload], options: Options, graphs: Mapping[str, Graph]
    ) -> None:
        self.options = options
        self.delegates = {
            name: Delegate(payload, options, graphs.get(name)) for name, payload in payloads.items()
        }
        self._call = threading.local()
        hosts = _hosts()
        self.name = str(next(hosts.numbers))
        hosts.open[self.name] = self
        for payload in payloads.values():
            types = tuple(
                tuple(a.dtype for a in arguments) for arguments in (payload.inputs, payload.outputs)
            )
            _register(domain_of(payload), *types)

    def run(self, program: str, tensors: tuple[Array, ...]) -> list[Array]:
        """The results of a program for the operator's tensors."""
        delegate = self.delegates.get(program)
        if delegate is None:
            raise OnnxRuntimeError(f"no program {program} was opened with this model")
        outputs = [np.empty(a.port.shape, a.dtype) for a in delegate.payload.outputs]
        with _hosts().lock:  # devices have one memory, and sessions run in several threads
            delegate.run([*tensors, *outputs])
        return outputs

    def checked(self, call: Callable[[], Any]) -> Any:
        """What `call` of ONNX Runtime returns; the error that a program had, else its own."""
        errors: list[BaseException] = []
        self._call.errors = errors
        try:
            return call()
        except Exception:
            if not errors:
                raise
            cause = errors[0]
            if isinstance(cause, DelegateError):
                cause = OnnxRuntimeError(str(cause))
            raise cause from None
        finally:
            del self._call.errors

    def failed(self, error: BaseException) -> None:
        """Keep an error for this thread's `checked`; without one it is shown on stderr."""
        errors = getattr(self._call, "errors", None)
        if errors is None:
            _say(error)
        else:
            errors.append(error)


class _Hosts:
    def __init__(self) -> None:
        self.open: weakref.WeakValueDictionary[str, Host] = weakref.WeakValueDictionary()
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()


@functools.cache
def _hosts() -> _Hosts:
    """The process's, for onnxruntime-extensions has one table of operators."""
    return _Hosts()


@functools.cache
def _register(domain: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Give onnxruntime-extensions an operator, which stays as long as the process."""
    runtime()
    from onnxruntime_extensions import PyOp, onnx_op

    def compute(*tensors: Array, session: str, program: str) -> Any:
        made = _computed(session, program, tensors)
        if made is None:
            made = [np.empty(0, dtype) for dtype in outputs]
        return made[0] if len(made) == 1 else tuple(made)

    def kind(dtype: str) -> Any:
        return getattr(PyOp, "dt_float" if dtype == "float32" else f"dt_{dtype}")

    onnx_op(
        op_type=f"{domain}::{OPERATOR}",
        inputs=[kind(d) for d in inputs],
        outputs=[kind(d) for d in outputs],
        attrs={"session": PyOp.dt_string, "program": PyOp.dt_string},
    )(compute)


def _computed(session: str, program: str, tensors: tuple[Array, ...]) -> list[Array] | None:
    """What the program computes; None where that fails: nothing may be raised from here."""
    host = _hosts().open.get(session)
    if host is None:
        _say(
            OnnxRuntimeError(
                f"{program}: the model is not open in this process; open its file with "
                "systola.onnx.load, and make sessions with its model and session_options()"
            )
        )
        return None
    try:
        return host.run(program, tensors)
    except BaseException as error:
        host.failed(error)
        return None


def _say(error: BaseException) -> None:
    sys.stderr.write(f"systola: {type(error).__name__}: {error}\n")


@functools.cache
def session_classes() -> tuple[Any, Any]:
    """(options, session): classes of onnxruntime that keep a host open, and raise its errors."""
    ort = runtime()
    from onnxruntime_extensions import get_library_path

    class SessionOptions(ort.SessionOptions):  # type: ignore[name-defined]
        """ONNX Runtime's, with the operators of the NPU."""

        def __init__(self, host: Host) -> None:
            super().__init__()
            self.systola = host
            self.register_custom_ops_library(get_library_path())

    class InferenceSession(ort.InferenceSession):  # type: ignore[name-defined]
        """ONNX Runtime's; errors of programs are raised as they are."""

        def __init__(self, model: Any, sess_options: Any, **keywords: Any) -> None:
            super().__init__(model, sess_options, **keywords)
            self._systola: Host = sess_options.systola

        def run(self, *args: Any, **keywords: Any) -> Any:
            return self._checked(super().run, args, keywords)

        def run_with_iobinding(self, *args: Any, **keywords: Any) -> Any:
            return self._checked(super().run_with_iobinding, args, keywords)

        def run_with_ort_values(self, *args: Any, **keywords: Any) -> Any:
            return self._checked(super().run_with_ort_values, args, keywords)

        def _checked(self, call: Any, args: Any, keywords: Any) -> Any:
            return self._systola.checked(lambda: call(*args, **keywords))

    return SessionOptions, InferenceSession
