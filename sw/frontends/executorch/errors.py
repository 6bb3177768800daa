"""`ExecuTorchError`, and what to say where the package is missing."""

from spec.errors import SystolaError

MISSING = "the package executorch is missing: pip install 'systola[executorch]'"


class ExecuTorchError(SystolaError, ValueError):
    """A `.pte` file, a delegate in it, or a call of it that cannot be used."""
