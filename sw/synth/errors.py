"""Errors of a synthesis."""

from spec.errors import SystolaError


class SynthError(SystolaError):
    """A tool is missing or failed, or a cell library cannot be used; the message says which."""
