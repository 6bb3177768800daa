"""Functions of operators, a file per family; `table.py` has all of them."""
