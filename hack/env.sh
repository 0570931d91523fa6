# Read by every verb: the repository is the working directory, its .venv comes first when there is one.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [ -x .venv/bin/python ]; then PATH=$PWD/.venv/bin:$PATH; fi
export PATH
unset PYTHONDONTWRITEBYTECODE # each of the thousands of processes of a run would compile anew all that it imports
. hack/with_progress.sh
fairlead_cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead # kept between runs

say() { printf '%s\n' "$*" >&2; }

# help_if_asked "$@": print the comment at the top of the calling script and leave, when -h or --help is the first word.
help_if_asked() {
  case ${1:-} in -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; exit 0 ;; esac
}

# need PROGRAM…: leave with one sentence when the environment lacks one.
need() { need_extra dev "$@"; }

# need_extra EXTRA PROGRAM…: likewise, where less than everything is enough.
need_extra() {
  local extra=$1 name
  shift
  for name in "$@"; do
    command -v "$name" >/dev/null || { say "$name is not installed: python3 -m venv .venv && .venv/bin/pip install -e '.[$extra]'"; exit 1; }
  done
}

# use_compiled "$@": when --compiled is among the words, have the path of a call compiled and put in front; the rest of
# the words is left in `words`.
use_compiled() {
  words=()
  local word folder=''
  for word in "$@"; do
    if [ "$word" = --compiled ]; then folder=$(hack/compile) || return; else words+=("$word"); fi
  done
  if [ -n "$folder" ]; then export PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH}; fi
}

# record_step NAME COMMAND…: run it, and add its wall and processor seconds to the record of the test run, where there is
# one. The exit code is the command's.
record_step() {
  local name=$1 figures code=0
  shift
  if [ -z "${FAIRLEAD_TEST_RECORD:-}" ]; then
    "$@"
    return
  fi
  figures=$(mktemp)
  local TIMEFORMAT='"wall_s": %R, "cpu_user_s": %U, "cpu_system_s": %S'
  exec 4>&2
  { time "$@" 2>&4; } 2>"$figures" || code=$?
  exec 4>&-
  printf '{"step": "%s", %s}\n' "$name" "$(<"$figures")" >>"$FAIRLEAD_TEST_RECORD/steps.jsonl"
  rm -f "$figures"
  return "$code"
}
