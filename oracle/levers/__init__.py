"""Serving levers: cost per token with precision, speculation and prefix caching under a traffic regime.

A closed-form model reconstructed from the source's text (its paper could not be had); it reproduces every number that
the text prints. Nothing in it is a measurement unless it was fitted: see `oracle.levers.fitted`.
"""
