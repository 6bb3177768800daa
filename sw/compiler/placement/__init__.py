"""Which tensors stay on chip between layers, and which layers run at the same time.

residency.py  stage `residency`: tensors that stay on chip
spread.py     apart from what the layer before still reads
flow.py       tensors too large for that, read row by row as they are written
follow.py     norms and products that follow one another tile by tile
columns.py    products cut in columns for that
overlap.py    products beside fused layers that do not need them
beside.py     depthwise layers beside such products
samples.py    parts of a batch that take turns
predict.py    cycles of some layers, by which these are compared
"""
