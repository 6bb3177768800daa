"""`torch.systola`: what a program asks of the device and tells it."""

import contextlib
from typing import Any

import torch


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: "int | str | torch.device") -> None:
    """Choose device 0; `DeviceError` for any other: there is one."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0):
        from sw.torch_device.errors import DeviceError

        raise DeviceError(f"systola: device index {index}: there is one device, systola:0")


def device(device: "int | str | torch.device") -> contextlib.AbstractContextManager[None]:
    """`with torch.systola.device(0):` as for other devices; see `set_device`."""
    set_device(device)
    return contextlib.nullcontext()


def synchronize(device: Any = None) -> None:
    """Return when the device is idle, which it always is: an operator ends before its call."""
    set_device(0 if device is None else device)


def memory_allocated(device: Any = None) -> int:
    """Bytes of all tensors on the device."""
    return int(_allocator().systola_used())


def max_memory_allocated(device: Any = None) -> int:
    """The largest that `memory_allocated` was since the start or the last reset."""
    return int(_allocator().systola_peak())


def reset_peak_memory_stats(device: Any = None) -> None:
    """`max_memory_allocated` begins anew."""
    _allocator().systola_reset_peak()


def manual_seed_all(seed: int) -> None:
    """Nothing: random numbers come from the generator of the CPU, which `manual_seed` sets."""


def manual_seed(seed: int) -> None:
    """The same as `manual_seed_all`."""


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of the generator of the CPU, from which random numbers of the device come."""
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Set the state that `get_rng_state` gave."""
    torch.set_rng_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """None: the NPU quantizes float32."""
    return []


def _is_in_bad_fork() -> bool:
    return False


def set_options(**options: Any) -> None:
    """Options from now on, by the words of `torch.compile(…, backend="systola", options=…)`.

    What is not given takes its default. `OptionError` for an option that does not exist.
    """
    _session().set_options(options)


def report() -> Any:
    """A `DeviceReport`: by operator, calls on the NPU and on the CPU with the reason, cycles."""
    return _session().report()


def reset_report() -> None:
    """Start counting anew."""
    _session().reset_report()


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the CPU on the memory of one of the device: a view, not a copy."""
    from sw.torch_device.memory import host

    return host(tensor)


def _session() -> Any:
    from sw.torch_device.session import session

    return session()


def _allocator() -> Any:
    from sw.torch_device.allocator import allocator

    return allocator()
