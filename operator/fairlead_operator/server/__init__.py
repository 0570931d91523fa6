"""Decisions about one McpServer, as functions of observations. No I/O.

`spec_checks` checks the spec, `prefixes` assigns prefixes, `object_plan` and `kube_manifests` plan the objects on a
cluster, `deployment_status` interprets a Deployment's status, `symptoms` explains why pods do not serve, `status`
builds the McpServer's status, and `announcements` makes the messages about changes.
"""
