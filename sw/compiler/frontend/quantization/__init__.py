"""How values become integers.

policy.py          which policy a model is imported with: pt2e or wide
values.py          formats of values, grids of quantized graphs, parameters stored as integers
samples.py         calibration data; calibrate.py: magnitudes by node and by channel
calls.py           calls as integers, and what calibration did not see of them
quantizer.py       PT2E's quantizer; quantize_nodes.py: the nodes that PT2E makes
formats.py         the integer type and scale of each value, from who reads it
smoothing.py       scales per channel and per row for linear layers
channels.py        scales per channel for convolutions
streams.py         one scale for sums of int16 and what they add
wholes.py          whole numbers in floats, and fractions
unrolled.py        one range for all steps of a recurrent network
"""
