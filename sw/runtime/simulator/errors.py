"""Errors of building and running a simulation."""

from spec.errors import SystolaError


class BuildError(SystolaError):
    """The simulator cannot be built: a tool is missing or failed; the message has its output."""


class SimulationError(SystolaError):
    """The simulator died, ran out of cycles, or saw the NPU break an AXI rule."""
