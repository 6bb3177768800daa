"""`TvmError`, and what to say where TVM is missing."""

from typing import Any

from spec.errors import SystolaError


class TvmError(SystolaError, ValueError):
    """A Relax function, a library with programs in it, or a call of it that cannot be used."""


def tvm() -> Any:
    """The package tvm; `TvmError` where it is missing."""
    try:
        import tvm as package
        import tvm.relax
    except ImportError as error:
        raise TvmError(f"TVM is needed ({error}): pip install 'systola[tvm]'") from None
    return package


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
