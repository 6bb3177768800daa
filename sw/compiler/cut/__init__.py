"""Cutting a network into stages, a program each, that NPUs behind one another compute.

places.py   where a graph can be cut, and its parts as graphs
balance.py  which of these places make stages of equal length
"""
