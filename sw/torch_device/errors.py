"""Errors of the device. They are RuntimeErrors as well: PyTorch's users catch those."""

from spec.errors import SystolaError


class DeviceError(SystolaError, RuntimeError):
    """A device that there is not, or that cannot be made known to this PyTorch."""
