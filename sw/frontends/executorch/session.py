"""Delegates of this process: opened, run and closed by ExecuTorch through `delegate.cpp`."""

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.frontend.threads import quiet
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.errors import DelegateError
from sw.frontends.delegates.options import run_options
from sw.frontends.delegates.payload import read_payload
from sw.frontends.executorch.errors import MISSING, ExecuTorchError
from sw.frontends.executorch.library import load_library
from sw.torch_backend.options import Options

BACKEND = b"SystolaBackend"
"""The name of `SystolaBackend`, by which a file asks for the delegate."""

DTYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 6: "float32", 11: "bool"}
"""ExecuTorch's scalar types that delegates have."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("strides", ctypes.POINTER(ctypes.c_int32)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


_Open = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_Run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(_Tensor), ctypes.c_int32)
_Close = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Callbacks(ctypes.Structure):
    _fields_ = (("open", _Open), ("run", _Run), ("close", _Close))


class Session:
    """What the callbacks work on. Errors cannot cross ExecuTorch: they wait in `error`.

    options: what delegates that are opened from now on run with.
    """

    def __init__(self) -> None:
        self.options = run_options({})
        self.error: BaseException | None = None
        self._delegates: dict[int, Delegate] = {}
        self._opened: list[Delegate] = []
        self._numbers = itertools.count(1)
        self._callbacks = _Callbacks(_Open(self._open), _Run(self._run), _Close(self._close))
        code = load_library().systola_register(BACKEND, ctypes.byref(self._callbacks))
        if code:
            raise ExecuTorchError(f"ExecuTorch refused {BACKEND.decode()}: its error {code:#x}")

    @contextmanager
    def opening(self, options: Options) -> Iterator[list[Delegate]]:
        """Within it, delegates are opened with `options`; they are in the list."""
        before = self.options
        self.options, self._opened = options, []
        try:
            yield self._opened
        finally:
            self.options, self._opened = before, []

    def checked(self, what: str, call: Callable[[], Any]) -> Any:
        """What `call` of ExecuTorch returns; the error that a delegate had, else ExecuTorch's."""
        self.error = None
        try:
            return call()
        except Exception as error:
            cause, self.error = self.error, None
            if isinstance(cause, DelegateError):
                raise ExecuTorchError(str(cause)) from None
            if cause is not None:
                raise cause from None
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise ExecuTorchError(f"{what}: ExecuTorch: {text[0]}") from None

    def _open(self, data: int, size: int) -> int:
        try:
            where = f"delegate {len(self._opened)}"
            payload = read_payload(ctypes.string_at(data, size) if size else b"", where)
            delegate = Delegate(payload, self.options)
        except BaseException as error:  # nothing may cross the C++ frames above
            self.error = error
            return 0
        number = next(self._numbers)
        self._delegates[number] = delegate
        self._opened.append(delegate)
        return number

    def _run(self, number: int, tensors: Any, count: int) -> int:
        try:
            self._delegates[number].run([_view(tensors[i]) for i in range(count)])
        except BaseException as error:
            self.error = error
            return 1
        return 0

    def _close(self, number: int) -> None:
        self._delegates.pop(number, None)


def _view(tensor: _Tensor) -> NDArray[Any]:
    """The tensor's memory as an array of its shape and type."""
    if tensor.dtype not in DTYPES:
        raise ExecuTorchError(f"a tensor of ExecuTorch's type {tensor.dtype}: delegates have none")
    dtype = np.dtype(DTYPES[tensor.dtype])
    shape = tuple(tensor.sizes[: tensor.rank])
    if not tensor.bytes:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * tensor.bytes).from_address(tensor.data)
    flat: NDArray[Any] = np.frombuffer(memory, dtype)
    steps = tuple(tensor.strides[: tensor.rank])
    last = sum(step * (size - 1) for step, size in zip(steps, shape, strict=True))
    if min((0, *steps)) < 0 or last >= flat.size:
        raise ExecuTorchError(
            f"a tensor {list(shape)} with strides {list(steps)}: larger than it is"
        )
    strides = [dtype.itemsize * step for step in steps]
    return np.lib.stride_tricks.as_strided(flat, shape, strides)


@functools.cache
def session() -> Session:
    """The process's; ExecuTorch has one registry, and lets nobody leave it."""
    try:
        with quiet():
            import executorch.runtime  # noqa: F401 (the registry comes with it)
    except ImportError as error:
        raise ExecuTorchError(f"{MISSING} ({error})") from None
    return Session()
