"""Mutations of the RTL: does a check notice each?

mutations.py   the mutations, and trying one; page.py: docs/mutations.md
"""
