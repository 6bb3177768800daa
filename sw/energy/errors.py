"""What cannot be measured, and why."""

from spec.errors import SystolaError


class EnergyError(SystolaError):
    """The energy of a run cannot be told."""
