"""Requests, messages and answers in a neutral form, independent of any provider's API. Pure modules.

Each family of APIs converts its own form from and to the neutral form.
"""
