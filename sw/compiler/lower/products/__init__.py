"""Lowering of convolutions and MATMUL: every one becomes a convolution or a depthwise layer.

convolutions.py     CONV2D, DEPTHWISE_CONV2D, MATMUL; conv3d.py, transpose_conv.py: the others
fused.py            bias, epilogue, sum and factors that the layer computes too
runtime_weights.py  weights that are no constants
"""
