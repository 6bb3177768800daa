"""The built-in networks: their data, their weights, and the cache of their quantized forms.

`table.py` lists them and needs no PyTorch; `vision.py` and `tiny.py` build them.
"""
