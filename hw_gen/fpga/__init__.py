"""An NPU with memory and a serial line: what an FPGA board needs to run it."""
