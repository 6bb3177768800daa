"""Lowering of convolutions and MATMUL: every one becomes a convolution or a depthwise layer."""
