"""Whether arguments fit a tool's `inputSchema`, and results its `outputSchema`.

Pure package, for whoever makes calls: `shelf.Checks` for tools by their definitions, `checker.compile_schema` for one
schema. Schemas come from servers that nobody vouches for, so whatever they hold, no check takes long and none raises.
See README.md.
"""
