"""Kubernetes client of the operator, the gateway and the command line.

- `connection.load_configuration`: address and credentials of the API server, from a kubeconfig or the pod.
- `client.Kube`: the verbs (get, list, watch, create, replace, apply, merge, delete) on one API server.
- `informer.Informer`: lists objects, then watches them, and recovers from outages; it updates a `Store`.
- `errors.ApiError`: hierarchy of exceptions for rejected and failed requests.
- `resources.Kind`: kinds of objects and their URLs.
- `objects`: ConfigMaps and Secrets, decoded without the members that nothing reads.
- `fence`: blocks writes after a leader's lease has expired.

Importing `client` or `connection` takes a second, because they import the Kubernetes client library. `errors` and
`resources` do not, so that code can name a kind or handle an ApiError without this delay.
"""
