"""Kubernetes client of the operator, the gateway and the command line.

- `connection.load_configuration`: where the API server is and how to log in, from a kubeconfig or the pod.
- `client.Kube`: the verbs (get, list, watch, create, replace, apply, merge, delete) on one API server.
- `informer.Informer`: lists objects, then watches them, through every outage; it feeds a `Store`.
- `errors.ApiError`: what an API server refuses or does not answer, as one tree of exceptions.
- `resources.Kind`: the kinds of objects, and where the API server keeps them.
- `objects`: ConfigMaps and Secrets, decoded to the members that a reader needs.
- `fence`: holds writes back once a leader's lease has run out.

`errors` and `resources` load no client, so that code can name a kind or handle an ApiError without it; `client` and
`connection` take a second to import.
"""
