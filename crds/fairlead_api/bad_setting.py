"""The error of an invalid setting."""


class BadSetting(ValueError):
    """An invalid value. The message names the variable, or the file and position, and says what is expected."""
