"""Attention over paged keys and values: one interface, and a backend per kind of machine."""
