"""One function of tensors for each operator of LiteRT, by family.

A function takes the call and the operands that its row of the table names. Images are
[N, H, W, C]; results of rows with `image` are [N, C, H, W]. Values are floats, integers or bools as
the file has them, floats for quantized ones.
"""
