"""An eighth kernel family, which only tests have: a tensor of int32 plus a constant."""
