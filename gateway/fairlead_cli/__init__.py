"""The `fairlead` command. It is the only package that may import operator and gateway, because `fairlead up` runs both.

It parses arguments, prints tables or JSON, and turns expected errors into one sentence and an exit code
(0 success, 1 failure, 2 wrong usage). The implementation of a command is in the package that it starts.

`app` has the commands, with a folder for each subject. `options`, `connecting`, `rest`, `output` and `failure` are
common to all commands.
"""
