"""Endpoints and pages of the authorization server."""
