# Where things are; every script here reads this file. Override by environment.
# Three releases: tests run against the newest API server that compiles here, and some of them against the oldest that the
# chart takes; hack/cluster has a release whose kubelet runs with the containerd 1.7 and the cgroup v1 that are still around.
KUBE_NEWEST=v1.36.3 KUBE_OLDEST=v1.30.14
case ${KUBE_RELEASE:-} in
  newest) KUBE_VERSION=$KUBE_NEWEST ;;
  oldest) KUBE_VERSION=$KUBE_OLDEST ;;
  *) KUBE_VERSION=v1.34.4 ;;
esac
# On kind: a release of kind and, in kind-RELEASE.yaml, the node image that its release notes list, by digest. An image is
# only supported by the release that it was built with, and no release has nodes of both.
case ${KUBE_RELEASE:=} in
  oldest) KIND_VERSION=v0.29.0 ;;
  *) KIND_VERSION=v0.33.0 ;;
esac
KUBE_MODULES=kubernetes${KUBE_RELEASE:+-$KUBE_RELEASE} # below go/
KUBE_CACHE=${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubernetes} # kept between runs: the compiled programs
KUBE_BIN=${KUBE_BIN:-$KUBE_CACHE/$KUBE_VERSION/bin}
KUBE_RUN=${KUBE_RUN:-/var/tmp/fairlead/kubernetes}           # one cluster's state: certificates, etcd data, logs, pids
export PATH=$KUBE_BIN:$PATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "$*" >&2; }
. "$here/../with_progress.sh"

# start NAME COMMAND…: run in the background in a process group of its own, log and pid under $KUBE_RUN.
start() {
  local name=$1; shift
  mkdir -p "$KUBE_RUN/log" "$KUBE_RUN/pid"
  setsid "$@" >>"$KUBE_RUN/log/$name.log" 2>&1 </dev/null &
  echo $! >"$KUBE_RUN/pid/$name"
}

running() { local p="$KUBE_RUN/pid/$1"; [ -f "$p" ] && kill -0 "$(cat "$p")" 2>/dev/null; }

# stop NAME: ask, wait up to 10 s, then kill. Only ever a pid that start() wrote.
stop() {
  local file="$KUBE_RUN/pid/$1" pid
  [ -f "$file" ] || return 0
  pid=$(cat "$file"); rm -f "$file"
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null
}

# wait_for SECONDS WHAT COMMAND…: until COMMAND succeeds; else the message and failure.
wait_for() {
  local limit=$1 what=$2; shift 2
  local end=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { say "$what did not come up within $limit s; see $KUBE_RUN/log"; return 1; }
    sleep 0.2
  done
}
