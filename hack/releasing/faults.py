"""The error that stops a release before a wrong artefact is published."""


class Fault(Exception):
    """A requirement for a release is not met. The message is one sentence that says what is wrong and what to do."""
