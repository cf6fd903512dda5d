"""Muniment: documents in, checked pages out. See README.md for the map of this package."""

__version__ = "0.1.0"
