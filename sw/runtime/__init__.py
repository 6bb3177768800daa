"""Devices, and running programs on them.

session.py   opens a device, runs an image, compares; device.py: what a device is
golden.py    the golden model as a device; rtl.py: the RTL; simulator/: its build and its process
verify.py    the TOSA reference model
report.py    what a run is reported as; tables.py: tables for a terminal; progress.py: on stderr
arrays.py    `.npy` files; scratch.py: temporary folders
"""
