# with_progress TEXT COMMAND…: run a command that takes a while, with a spinner and its time in a terminal, and plain lines
# elsewhere (hack/progress.py); without rich, as in an environment that is not there yet, with its output alone. What the
# command prints goes to standard error.
with_progress_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) # now: the caller may be elsewhere by then
with_progress() {
  local python root=$with_progress_root
  python=$root/.venv/bin/python
  [ -x "$python" ] || python=python3
  if "$python" -c 'import rich' 2>/dev/null; then
    if declare -F "$2" >/dev/null; then # a program cannot start a function, a bash of its own can
      # shellcheck disable=SC2046 # one word each
      (export -f $(compgen -A function) && "$python" "$root/hack/progress.py" "$1" bash -c '"$@"' "$2" "${@:2}")
    else
      "$python" "$root/hack/progress.py" "$@"
    fi
  else
    say "$1 …"
    "${@:2}" >&2
  fi
}
