"""Which operators one layer computes: what follows a product, RESCALEs of operands, transposes."""
