"""Groups of operations that are one function of PyTorch.

recognize.py    all of them, one after the other; match.py: what they ask about operations
univariate.py   activations, by their values; affine.py: biases, scales
softmaxes.py, norms.py, averages.py; takes.py: indexing
"""
