"""Compiled kernels: NumPy arrays in, NumPy arrays out, nothing but numpy and numba.

Each file holds one noun and never calls another file: Numba's disk cache does not notice an edit in a
function that was imported from elsewhere and would go on returning old results.

This package defines no ``__version__``: Hugging Face publishes a package of the same name, and tells
itself apart by having one.
"""

from .disk_cache import provide

provide()
