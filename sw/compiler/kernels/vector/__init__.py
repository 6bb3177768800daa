"""What pooling and elementwise layers share: both are computed by the vector engine alone."""
