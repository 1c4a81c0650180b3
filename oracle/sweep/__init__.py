"""Planning which rounds to time: how many, at which anchors, in which order.

The source timed K after K, one run each, and so could not tell its regime boundary from a change of the machine between
two runs. A plan of this package times every K at every anchor in random order, and says what precision to expect.
"""
