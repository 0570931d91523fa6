"""Validation of arguments by a tool's `inputSchema` and of results by its `outputSchema`. No I/O.

`schema_cache.Checks` caches compiled schemas by definition; `schema_compiler.compile_schema` compiles one. Schemas are
untrusted: no check takes long, and none raises. See docs/reference/validation.md.
"""
