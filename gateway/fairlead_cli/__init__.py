"""The `fairlead` command: the one place that may import both halves, because `fairlead up` runs both.

It parses arguments, prints tables or JSON and turns expected trouble into one sentence and an exit code
(0 fine, 1 failed, 2 used wrongly). What a command does lives in the package that it starts.

`app` has the commands, with a folder for each subject; `options`, `connecting`, `rest`, `output` and `failure` are what
they share.
"""
