"""Tool definitions in the formats of model providers, and reports of the parts that a format cannot represent.

Pure package. MCP's definition is canonical: definitions of every other format are converted from it and to it.
"""
