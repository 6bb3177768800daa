"""The doors of other frameworks, measured: `python -m sw.measure.doors`.

__main__.py      the command, which writes docs/data/doors.json
run.py           rows, each stored as it comes
passages.py      one ResNet-18 on one way through a door: predictions, agreement, the RTL
ways.py          the table of ways, and what a user does on each
programs.py      what a way ends in: a program, and the framework's own result
network.py       the ResNet-18, its images, and its forms (quantized by PyTorch, as ONNX, …)
jax_resnet.py    the same network as a function of JAX
converting.py    LiteRT files of PyTorch modules, by Google's converter in a process of its own
converter.py     what that process runs
classifier.py    EfficientNet-Lite0 with trained weights of a package
photographs.py   32 photographs of packages
files.py         int8 files of both networks
classes.py       top-1 of the NPU and of the frameworks on the photographs
layers.py        each layer of an int8 file by itself, on the framework's own integers
"""
