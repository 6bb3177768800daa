"""`OnnxRuntimeError`, and what to say where a package is missing."""

from typing import Any

from spec.errors import SystolaError

MISSING = "a package is missing: pip install 'systola[onnxruntime]'"


class OnnxRuntimeError(SystolaError, ValueError):
    """A model, a stored program in it, or a call of it that ONNX Runtime cannot use."""


def runtime() -> Any:
    """The package onnxruntime; `OnnxRuntimeError` where it, or its extensions, are missing."""
    try:
        import onnxruntime
        import onnxruntime_extensions  # noqa: F401 (operators in Python)
    except ImportError as error:
        raise OnnxRuntimeError(f"{MISSING} ({error})") from None
    return onnxruntime
