"""Whether arguments fit a tool's `inputSchema`, and results its `outputSchema`.

Pure package: `shelf.Checks` for tools by their definitions, `checker.compile_schema` for one schema. Schemas are
untrusted, so whatever they hold, no check takes long and none raises. See docs/reference/validation.md.
"""
