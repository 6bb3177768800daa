"""`load` a `.pte` file and run it in ExecuTorch's runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.frontends.delegates.delegate import Delegate
from sw.frontends.delegates.options import run_options
from sw.frontends.delegates.report import DelegateReport, make_report
from sw.frontends.executorch.errors import ExecuTorchError
from sw.frontends.executorch.identify import is_executorch
from sw.frontends.executorch.session import DTYPES, session
from sw.torch_backend.options import Options


class Program:
    """A method of a `.pte` file that is loaded: call it with the method's tensors."""

    def __init__(self, path: Path, method: str, options: Options) -> None:
        host = session()
        from executorch.runtime import Runtime

        self.path, self.options = path, options
        with host.opening(options) as opened:
            runtime = Runtime.get()
            self._program = host.checked(str(path), lambda: runtime.load_program(path))
            names = sorted(self._program.method_names)
            if method not in names:
                raise ExecuTorchError(
                    f"{path}: has no method {method!r}; it has {', '.join(names)}"
                )
            self._method = host.checked(str(path), lambda: self._program.load_method(method))
            self._delegates: list[Delegate] = list(opened)

    def __call__(self, *tensors: Any) -> list[Any]:
        """The method's results. tensors: its inputs in order, keyword arguments behind the others.

        `ExecuTorchError` where they do not fit; the error of the device where the program fails.
        """
        found = session().checked(str(self.path), lambda: self._method.execute(list(tensors)))
        return list(found)

    def random_inputs(self, seed: int = 0) -> list[NDArray[Any]]:
        """Arrays as the method takes them: floats are normal, integers and bools are 0."""
        facts = self._method.metadata
        rng = np.random.default_rng(seed)
        arrays = []
        for i in range(facts.num_inputs()):
            tensor = facts.input_tensor_meta(i)
            dtype = np.dtype(DTYPES.get(int(tensor.dtype()), "float32"))
            shape = tuple(tensor.sizes())
            values = rng.standard_normal(shape) if dtype.kind == "f" else np.zeros(shape)
            arrays.append(values.astype(dtype))
        return arrays

    @property
    def delegates(self) -> Sequence[Delegate]:
        """The NPU's programs, in the order that the file has them."""
        return self._delegates

    @property
    def report(self) -> DelegateReport:
        """What the delegates have done so far."""
        return make_report(str(self.path), self.options.device, self._delegates)


def load(path: str | Path, method: str = "forward", **options: Any) -> Program:
    """A method of a `.pte` file, ready to run in ExecuTorch's runtime.

    options: those of `torch.compile(backend="systola")` that are decided here: device ("golden",
    "rtl"), latency, stall, seed, clock_mhz, memory, check; verify compares the RTL of each run with
    the golden model. `ExecuTorchError` for a file that is damaged or made for another release.
    """
    chosen = run_options(options)
    path = Path(path)
    if not is_executorch(path):
        raise ExecuTorchError(f"{path}: no such file, or no program of ExecuTorch")
    return Program(path, method, chosen)


def register(**options: Any) -> None:
    """Register the delegate with ExecuTorch's runtime, for programs that are loaded without `load`.

    options: as of `load`; a later call changes them for what is loaded after it.
    """
    chosen = run_options(options)
    session().options = chosen
