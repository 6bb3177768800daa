"""Networks of families that the other built-in networks lack, small enough for the RTL.

table.py        the networks by name; building.py: quantized, from the cache
common.py       blocks, weights and data that families share
plain.py, squeeze.py, grouped.py, joined.py, mobile.py   image classifiers
unets.py, detection.py, pictures.py   images to maps, boxes and images
sound.py, recurrent.py, states.py   sequences of samples and features
windows.py, seq2seq.py, experts.py  attention
"""
