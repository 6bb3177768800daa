"""Amaranth generator of the NPU's RTL."""
