"""How fast the kernels and the whole path are on this machine, against rivals on the same inputs in the same run.

`run.measure` gives a report of plain rows; `draft-oracle bench` prints it. In a checkout this package is
`benchmarks`; an installed wheel holds it as `oracle.benchmarks`.
"""
