"""The contract of all programs: the resources (`v1alpha1`) and the documents that operator and gateway exchange.

Every package of Fairlead may import it. It imports no other package of Fairlead and no framework, and does no network
or event-loop work. The docstring of a field is what `kubectl explain` shows.
"""
