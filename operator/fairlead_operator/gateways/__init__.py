"""What the operator hears from the gateways: it asks every replica of them, again and again.

`pull` keeps asking, over a port; `http` is the adapter that finds replicas by DNS and asks them over HTTP.
"""
