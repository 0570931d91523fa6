"""Reports that the operator polls: the duration of each attempt, unreachable servers and requested refreshes.

`samples` records attempts during calls; `outbox` and `endpoint` create and serve a report when the operator polls.
"""
