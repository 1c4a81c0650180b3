"""Figures, as vector graphics that read the same on paper, on a light and on a dark page."""
