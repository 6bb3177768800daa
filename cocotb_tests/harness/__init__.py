"""What runs inside the simulator on behalf of a device: register access and waiting.

server.py  the cocotb test behind `RtlDevice`: commands from a socket
axil.py    an AXI4-Lite manager
bench.py   builds and runs a cocotb test of a single block
"""
