"""Cost-optimal draft lengths for speculative decoding on Mixture-of-Experts models."""
