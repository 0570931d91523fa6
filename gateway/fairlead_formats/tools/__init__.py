"""Tool definitions in the formats of model providers, and what a format cannot hold of them.

Pure package. MCP's definition is canonical: every other format converts from it and to it.
"""
