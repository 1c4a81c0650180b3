"""Diagnostics of a latency model: the evidence for and against it, each as plain values."""
