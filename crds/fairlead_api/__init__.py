"""The contract: resources (`v1alpha1`) and the documents that operator and gateway exchange.

Everything of ours may import it; it imports nothing of ours, no framework, and does no network or
event-loop work. What it says about a field is what a user reads in `kubectl explain`.
"""
