"""`torch.compile(model, backend="systola")`.

entry.py      what torch calls for a graph; options.py: what a user may ask for
bind.py       a graph of Dynamo with its parameters and sizes as constants
partition.py  which operators run on the NPU, in as few parts as can be, from the reasons that
              sw/compiler/frontend/support.py gives
extract.py    parts as graphs of their own, and the graph that calls them
variant.py    a graph for one set of shapes and parameters: asks for reasons, splits, builds the
              parts, splits again where one fails; graph.py: all of them, and when eager
compiled_part.py  one part: quantized, compiled, on a device; devices.py: the devices
stored.py     compiled parts on disk, for the next process
kept.py       which variants are kept: those used last
device_tensors.py  graphs whose tensors are on torch.device("systola")
gradients.py  results that have no gradient
masks.py      inputs that are only added to scores
saturation.py inputs outside the calibrated range
fallback.py   a model in parts without Dynamo: `systola.partition`, `systola run --fallback`
dynamo.py     what Dynamo did not trace
report.py     what ran where, and why; report_text.py: the same for people
"""
