"""ONNX Runtime: what the NPU takes of an ONNX model as operators of a session.

    import systola.onnx

    offloaded = systola.onnx.offload("net.onnx", inputs=images)
    (logits,) = offloaded.session().run(None, {"x": images})
    print(offloaded.report())
    offloaded.save("net-npu.onnx")  # systola.onnx.load opens it, in another process

The packages are an extra: `pip install 'systola[onnxruntime]'`.
"""

from sw.frontends.delegates.report import DelegateReport
from sw.frontends.onnx import OnnxError
from sw.frontends.onnxruntime.errors import OnnxRuntimeError
from sw.frontends.onnxruntime.offloaded import Offloaded, load
from sw.frontends.onnxruntime.offloading import offload

__all__ = ["DelegateReport", "Offloaded", "OnnxError", "OnnxRuntimeError", "load", "offload"]
