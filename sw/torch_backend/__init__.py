"""`torch.compile(model, backend="systola")`.

entry.py      what torch calls for a graph; options.py: what a user may ask for
bind.py       a graph of Dynamo with its parameters and sizes as constants
partition.py  parts, as few as can be, from the reasons that sw/compiler/frontend/support.py gives
extract.py    parts as graphs of their own, and the graph that calls them
saturation.py inputs outside the calibrated range
part.py       one part: quantized, compiled, on a device; devices.py: the devices
kept.py       which variants are kept: those used last
masks.py      inputs that are only added to scores
stored.py     compiled parts on disk, for the next process
variant.py    a graph for one set of shapes and parameters: asks for reasons, splits, builds the
              parts, splits again where one fails; graph.py: all of them, and when eager
dynamo.py     what Dynamo did not trace
partitioned.py a model in parts, for other doors than torch.compile
report.py     what ran where, and why; report_text.py: the same for people
"""
