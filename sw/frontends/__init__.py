"""Doors for files of other frameworks: each reads a file and makes a PyTorch module of it.

What comes behind is the one importer of `sw/compiler/frontend`.
"""
