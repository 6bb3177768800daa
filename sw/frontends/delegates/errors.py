"""`DelegateError`: a compiled program that another framework calls, and that cannot be used."""

from spec.errors import SystolaError


class DelegateError(SystolaError, ValueError):
    """A stored program that is damaged, or a call of it with tensors that do not fit."""
