"""The doors of other frameworks, measured: `python -m sw.measure.doors`.

__main__.py      the command
run.py           one ResNet-18 of fixed weights through every door: rows of `docs/doors.md`
ways.py          the table of ways through a door, and what is compared on each
programs.py      what a way ends in: a program, and the framework's own result
network.py       the ResNet-18, its images, and its forms (quantized by PyTorch, as ONNX, …)
jax_resnet.py    the same network as a function of JAX
converting.py    LiteRT files of PyTorch modules, by Google's converter in a process of its own
converter.py     what that process runs
classifier.py    EfficientNet-Lite0 with trained weights of a package
photographs.py   32 photographs of packages, and top-1 on them
layers.py        each layer of a quantized file by itself, on the framework's own integers
"""
