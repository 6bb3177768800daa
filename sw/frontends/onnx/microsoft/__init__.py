"""ONNX Runtime's own operators (domain com.microsoft), written down as standard ones.

rewriting.py   `standard`: a model without them; writer.py: what a rule writes down
dynamic.py     products whose operands are quantized at run time: of floats, with the same weights
fused.py       what its optimizer fuses: convolutions with activations, GELUs, norms
attention.py   attention and embeddings of its transformer optimizer
integers.py    QLinear operators and QGemm: quantize and dequantize nodes around floats
"""

from sw.frontends.onnx.microsoft.rewriting import standard as standard
