"""Parts of tool calls that gateway, REST API and Python client share: custom tools in Python, validation of arguments
and results, exposed names, refusals.
"""
