"""Validation of arguments by a tool's `inputSchema` and of results by its `outputSchema`. No I/O.

`schema_cache.Checks` caches compiled schemas by definition; `schema_compiler.compile_schema` compiles one schema.
Schemas are untrusted: the time of every check is bounded, and no check raises. See docs/reference/validation.md.
"""
