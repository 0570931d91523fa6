"""Decisions about one McpServer, as functions of what was observed. No I/O in here.

`spec_checks` says whether its spec makes sense here, `prefixes` who holds which prefix, `object_plan` and `manifests`
what is to stand in the cluster, `workload` what a Deployment's status means, `symptoms` what keeps its pods from
serving, `status` what people are told, and `announcements` which changes are worth an event.
"""
