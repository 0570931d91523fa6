"""Conversion of JSON Schemas to the subset that each provider accepts.

Pure package. `convert.convert` is the entry point, `rules` has the table of keywords per target, and the other modules
implement the steps to which the table refers.
"""
