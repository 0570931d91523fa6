"""The error of a setting that cannot be used."""


class BadSetting(ValueError):
    """A value that cannot be used; the message names the variable, or the file and place, and says what is expected."""
