"""One function of tensors for each operator of LiteRT, by family.

convolutions.py  convolutions, fully connected layers; images.py: pools, resizing, moves of images
elementwise.py   functions of elements; reductions.py: sums and extremes along dimensions
moves.py         shapes, parts, concatenations; indexing.py: values by indices

A function takes the call and the operands that its row of the table names. Images are
[N, H, W, C]; results of rows with `image` are [N, C, H, W]. Values are floats, integers or bools as
the file has them, floats for quantized ones.
"""
