"""Tools from OpenAPI documents: `compiling` makes definitions of tools from a document, `calling` makes HTTP requests
from calls of these tools, and results from the answers.
"""
