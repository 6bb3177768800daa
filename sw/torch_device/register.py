"""The device made known to PyTorch: its name at once, its kernels at the first use."""

import atexit
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import _tensor_str
from torch.utils import backend_registration

from sw.torch_device import interface

aten = torch.ops.aten
Kernel = Callable[..., Any]

NAME = "systola"
TORCH = "2.13.0"
"""The version whose private interfaces are used."""

_PRIVATE = (
    (backend_registration, "_setup_privateuseone_for_python_backend"),
    (torch._C, "_acc"),
    (torch._C, "_to_dlpack"),
    (torch._C, "_from_dlpack"),
    (torch._C, "_AutoDispatchBelowAutograd"),
    (_tensor_str, "_tensor_str"),
    (torch.autograd, "_engine_run_backward"),
)

_TOO_LATE = (
    "systola: PyTorch's autograd began in this process before the device was registered, and it "
    "counts the devices once, when it begins; call systola.register_torch_device() before the "
    "first backward() of the process"
)


def register() -> None:
    """Make `torch.device("systola")` and `torch.systola` known. Nothing happens the second time.

    `DeviceError` for another version of PyTorch, or where another package has taken the one name
    that PyTorch keeps for devices from outside.
    """
    reason = obstacle()
    if reason:
        from sw.torch_device.errors import DeviceError

        raise DeviceError(f"systola: {reason}")
    install()


def obstacle() -> str:
    """Why the device cannot be made known, '' if it can."""
    found = torch.__version__.partition("+")[0]
    missing = [name for owner, name in _PRIVATE if not hasattr(owner, name)]
    if found != TORCH or missing:
        what = f" and lacks {', '.join(missing)}" if missing else ""
        return f"the device needs torch=={TORCH}, this is {torch.__version__}{what}"
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        return (
            f"PyTorch keeps one name for a device from outside, and {taken!r} has taken it in this "
            "process; set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and load one package only"
        )
    return ""


@functools.cache
def install() -> None:
    """`register` without its checks."""
    backend_registration._setup_privateuseone_for_python_backend(
        rename=NAME, backend_module=sys.modules[interface.__name__]
    )
    _tensor_str._tensor_str = functools.partial(_text, _tensor_str._tensor_str)
    torch.autograd._engine_run_backward = functools.partial(
        _backward, torch.autograd._engine_run_backward
    )
    _libraries()


def _text(original: Callable[[torch.Tensor, int], str], tensor: torch.Tensor, indent: int) -> str:
    """The values of a tensor for people: PyTorch computes a dozen operators to print one."""
    return original(tensor.cpu() if tensor.device.type == NAME else tensor, indent)


def _backward(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Autograd, with a sentence for people where it has no queue for the device.

    PyTorch has no call that asks whether autograd has begun; only its assertion tells.
    """
    _end_in_order()
    try:
        return original(*args, **kwargs)
    except RuntimeError as error:
        if "device_ready_queues_" not in str(error):
            raise
        from sw.torch_device.errors import DeviceError

        atexit.unregister(_wait_for_autograd)
        raise DeviceError(_TOO_LATE) from error


@functools.cache
def _end_in_order() -> None:
    """Have the process end only when autograd's thread of the device is done with what it ran.

    Behind the last step of a backward that thread frees an object of Python: the context that
    PyTorch gives it. `backward()` does not wait for that, and behind Python's end it would abort
    the process.
    """
    atexit.register(_wait_for_autograd)


def _wait_for_autograd() -> None:
    """Return when the thread has taken another task, so that it has freed the one before.

    The other task comes from a thread that has given it no object of Python.
    """
    if _kernels.cache_info().currsize == 0:
        return  # there was no tensor of the device, so there is no task

    def task() -> None:
        copy = torch.zeros(1, requires_grad=True).to(NAME)
        torch.autograd.Variable._execution_engine.run_backward(
            (copy,),
            (torch.zeros_like(copy),),
            False,
            False,
            (),
            allow_unreachable=True,
            accumulate_grad=True,
        )

    thread = threading.Thread(target=task)
    thread.start()
    thread.join()


@functools.cache
def _libraries() -> tuple[Any, ...]:
    """Registrations last as long as these objects.

    Every tensor of the device begins with one of two allocations, which register all the rest:
    registering must not wait for the compiler.
    """
    operators = torch.library.Library("aten", "IMPL")
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_fallback, "PrivateUse1")
    for op in (aten.empty.memory_format, aten.empty_strided.default):
        operators.impl(op.name(), functools.partial(_allocate, op), "PrivateUse1")
    operators.impl("empty.memory_format", _quantized, "QuantizedPrivateUse1")
    return operators, everything


def _quantized(*_: Any, dtype: Any = None, **__: Any) -> torch.Tensor:
    from sw.torch_device.errors import DeviceError

    raise DeviceError(f"systola: tensors of {dtype} cannot be on the device")


def _allocate(op: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    found: torch.Tensor = _kernels()[op](*args, **kwargs)
    return found


@functools.cache
def _kernels() -> dict[Any, Kernel]:
    """All kernels, registered but for those that allocate."""
    from sw.torch_device.kernels import memory_kernels, no_gradient, npu_operators, view_kernels

    library, _ = _libraries()
    allocations = memory_kernels()
    kernels: dict[Any, Kernel] = {**view_kernels(), **allocations}
    for op in npu_operators():
        kernels[op] = functools.partial(_functional, op)
        twin = _in_place(op)
        if twin is not None:
            kernels[twin] = functools.partial(_assigned, op)
        library.impl(op.name(), no_gradient(op), "AutogradPrivateUse1")
    for op, kernel in kernels.items():
        if op not in (aten.empty.memory_format, aten.empty_strided.default):
            library.impl(op.name(), kernel, "PrivateUse1")
    return kernels


def _in_place(op: Any) -> Any:
    """`relu_` of `relu`, None where there is none."""
    packet = getattr(torch.ops.aten, f"{op._schema.name.removeprefix('aten::')}_", None)
    return getattr(packet, op._overloadname, None)


def _functional(op: Any, *args: Any, **kwargs: Any) -> Any:
    from sw.torch_device.session import session

    return session().run(op, args, kwargs)


def _assigned(op: Any, target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """An operator whose result replaces its first operand's values."""
    return target.copy_(_functional(op, target, *args, **kwargs))


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    from sw.torch_device.session import NO_ROW, session

    return session().cpu(op, args, kwargs, NO_ROW)
