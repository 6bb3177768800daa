"""What each ATen operator becomes in TOSA: one function per operator, by kind."""
