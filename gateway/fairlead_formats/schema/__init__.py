"""JSON Schema for providers: one engine, one table of what each target holds.

Pure package. `convert.convert` is the way in; `rules` is the table; the rest are the steps that the table names.
"""
