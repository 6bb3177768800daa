"""What can be wrong with a report that is asked for."""

from spec.errors import SystolaError


class ReportError(SystolaError, ValueError):
    """A campaign that is not there, a file that cannot be written, an address that is taken."""
