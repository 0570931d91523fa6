"""Tools without a gateway: Python functions as tools, checks of arguments and results, names, refusals and their codes.

The gateway, the REST API and the Python client share it.
"""
