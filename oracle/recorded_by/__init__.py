"""Readers for what serving engines record, one file an engine, and the way from there to traces and rounds.

An engine reports requests: how many tokens it emitted, which experts it took, how many draft tokens it accepted.
`request` is the one form all of them are brought into; `alignment` is the one place where rows find their positions.
"""
