"""How far predictions are off: programs on random configurations and memories, against the RTL.

samples.py  which configurations are drawn, and what runs on them
run.py      measuring, row by row; a stored row is not measured again
error.py    the mean and the worst error that was measured, for who predicts
"""
