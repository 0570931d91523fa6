"""The error of an invalid setting."""


class BadSetting(ValueError):
    """An invalid value; the message names the variable, or the file and position, and what is expected."""
