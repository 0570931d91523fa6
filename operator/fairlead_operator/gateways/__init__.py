"""Reports of the gateways: the operator polls every replica of them.

`pull` keeps asking, over a port; `http` is the adapter that finds replicas by DNS and asks them over HTTP.
"""
