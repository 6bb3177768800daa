"""A function of tensors for each operation, a file per family."""
