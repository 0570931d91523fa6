"""Code for tool calls that gateway, REST API and Python client share: custom tools, validation, names, refusals."""
