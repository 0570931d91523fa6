"""Decisions about one McpServer, as functions of observations. No I/O.

`spec_checks` checks the spec, `prefixes` assigns prefixes, `object_plan` and `manifests` plan the objects on a cluster,
`workload` interprets a Deployment's status, `symptoms` explains why pods do not serve, `status` builds the status, and
`announcements` the messages about changes.
"""
