"""What values of a model are for given inputs, by ONNX Runtime's own kernels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.frontends.onnxruntime.errors import OnnxRuntimeError, runtime

Arrays = Mapping[str, NDArray[Any]]


class Values:
    """Values of some calls, each computed once. calls: arrays by the names of the inputs."""

    def __init__(self, proto: Any, calls: Sequence[Arrays]) -> None:
        self._proto, self._calls = proto, calls
        self._known: list[dict[str, NDArray[Any]]] = [dict(call) for call in calls]

    def of(self, names: Sequence[str]) -> list[list[NDArray[Any]]]:
        """For each call the values of these names."""
        missing = [name for name in names if name not in self._known[0]]
        if missing:
            self._compute(missing)
        return [[known[name] for name in names] for known in self._known]

    def _compute(self, names: Sequence[str]) -> None:
        import onnx

        ort = runtime()
        from onnxruntime_extensions import get_library_path

        model = onnx.ModelProto()
        model.CopyFrom(self._proto)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        try:
            options = ort.SessionOptions()
            options.register_custom_ops_library(get_library_path())
            session = ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            for call, known in zip(self._calls, self._known, strict=True):
                known.update(zip(names, map(np.asarray, session.run(None, call)), strict=True))
        except Exception as error:
            text = str(error).strip().splitlines() or [repr(error)]
            raise OnnxRuntimeError(
                f"{model.graph.name}: ONNX Runtime cannot run the model: {text[0]}"
            ) from None
