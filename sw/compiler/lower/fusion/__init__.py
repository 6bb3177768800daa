"""Which operators one layer computes: what follows a product, RESCALEs of operands, transposes.

epilogues.py   the table: which operator may follow, and what it changes
fusion.py      the search for them; sums.py: residual sums; permutes.py: TRANSPOSEs
"""
