"""Requests that the APIs of model providers reject, and the errors that they answer with: one row for each rule.

Pure package. The scripted providers answer with these errors, and a page of the documentation shows them. Messages have
the form of the provider's messages, in our words; status, type, code and param are the provider's own.
"""
