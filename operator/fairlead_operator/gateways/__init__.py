"""Polls every gateway replica for its reports.

`pull` is the loop, on the port `ports.Gateways`; `http` is the adapter that finds replicas by DNS and uses HTTP.
"""
