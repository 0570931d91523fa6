"""The error that ends a release before something wrong is published."""


class Fault(Exception):
    """Something is not as a release needs it; the message is one sentence that says what, and what to do."""
