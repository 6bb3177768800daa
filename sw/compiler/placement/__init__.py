"""Which tensors stay on chip between layers, and which layers run at the same time.

residency.py  stage `residency`: tensors that stay on chip
flow.py       tensors too large for that, read row by row as they are written
overlap.py    products beside fused layers that do not need them
"""
