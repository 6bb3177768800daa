"""Operators in other words: what a graph of ATen operators becomes before it is planned.

rewrite.py     where an operator has no rule, or lies beyond its rule's limits: what it is made of
tracing.py     the nodes of a PyTorch function in the place of one node
table.py       which function stands for which operator
arithmetic.py, images.py, orders.py, pools.py, products.py, recurrent.py, shapes.py  the functions
bags.py, branches.py, dynamic_rows.py, late_permutes.py, single.py, unpools.py, weights_first.py
               several operators that are better together, or in another order

The functions are plain PyTorch with the operators' own arguments; shapes are static.
"""
