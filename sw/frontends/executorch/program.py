"""`load` a `.pte` file and run it in ExecuTorch's runtime."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.notebook import summary
from sw.frontends.executorch.delegate import Delegate
from sw.frontends.executorch.errors import ExecuTorchError
from sw.frontends.executorch.identify import is_executorch
from sw.frontends.executorch.options import run_options
from sw.frontends.executorch.session import DTYPES, session
from sw.torch_backend.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateReport:
    """What the delegates of a program did, over all calls so far. `str()` is for people.

    data: as JSON has it, with a row of figures for each delegate.
    """

    data: dict[str, Any]

    @property
    def cycles(self) -> int | None:
        """Of all runs; None where the device has no clock."""
        total: int | None = self.data["totals"]["cycles"]
        return total

    @property
    def predicted_cycles(self) -> int:
        """What the compiler predicted for the same runs."""
        return int(self.data["totals"]["predicted_cycles"])

    @property
    def bit_exact(self) -> bool | None:
        """Whether every run equalled the golden model; None where none was compared.

        A run that does not is an error, after which there is no report to ask.
        """
        totals = self.data["totals"]
        return None if not totals["verified"] else totals["verified"] == totals["runs"]

    def to_dict(self) -> dict[str, Any]:
        return self.data

    def to_json(self) -> str:
        return json.dumps(self.data, indent=1)

    def _repr_html_(self) -> str:
        """What a notebook shows: the totals."""
        facts = [(name.replace("_", " "), value) for name, value in self.data["totals"].items()]
        return summary("Delegates of ExecuTorch", facts)

    def __str__(self) -> str:
        totals = self.data["totals"]
        lines = [
            f"{self.data['file']}: {len(self.data['delegates'])} delegates on device "
            f"{self.data['device']}, {totals['runs']} runs"
        ]
        for row in self.data["delegates"]:
            cycles = "" if row["cycles"] is None else f"{row['cycles']:,} cycles, "
            exact = f", {row['verified']} compared with golden" if row["verified"] else ""
            lines.append(
                f"  {row['delegate']}  {row['config']}  {row['runs']} runs: {cycles}predicted "
                f"{row['predicted_cycles']:,}{exact}"
            )
        return "\n".join(lines)


class Program:
    """A method of a `.pte` file that is loaded: call it with the method's tensors."""

    def __init__(self, path: Path, method: str, options: Options) -> None:
        from executorch.runtime import Runtime

        host = session()
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
        rows = [_row(d) for d in self._delegates]
        cycles = [row["cycles"] for row in rows if row["cycles"] is not None]
        names = ("runs", "bytes_in", "bytes_out", "predicted_cycles", "saturated", "verified")
        totals: dict[str, Any] = {name: sum(row[name] for row in rows) for name in names}
        totals["cycles"] = sum(cycles) if cycles else None
        return DelegateReport(
            data={
                "file": str(self.path),
                "device": self.options.device,
                "totals": totals,
                "delegates": rows,
            }
        )


def _row(delegate: Delegate) -> Mapping[str, Any]:
    payload, figures = delegate.payload, delegate.figures.to_json()
    for name in ("on_cpu", "calibrations", "cached"):  # there is neither in a file
        del figures[name]
    return {
        "delegate": payload.name,
        "config": payload.image.config.name,
        "policy": payload.policy,
        **figures,
    }


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
