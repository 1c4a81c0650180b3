"""Realised scores: recorded draft tokens against the emitted ones, round by round, and the clairvoyant bound."""
