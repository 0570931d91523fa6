# Where things are; every script here reads this file. Override by environment.
# Two releases, by KUBE_RELEASE: the newest that compiles here, and the oldest that the chart takes.
KUBE_NEWEST=v1.36.3 KUBE_OLDEST=v1.30.14
case ${KUBE_RELEASE:=newest} in
  newest) KUBE_VERSION=$KUBE_NEWEST of_release='' ;;
  oldest) KUBE_VERSION=$KUBE_OLDEST of_release=-oldest ;;
  *) echo "KUBE_RELEASE is $KUBE_RELEASE; it takes newest and oldest" >&2; exit 2 ;;
esac
# On kind: a release of kind and, in kind-RELEASE.yaml, the node image that its release notes list, by digest. An image is
# only supported by the release that it was built with, and no release has nodes of both.
case $KUBE_RELEASE in
  oldest) KIND_VERSION=v0.29.0 ;;
  *) KIND_VERSION=v0.33.0 ;;
esac
KUBE_CACHE=${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubernetes} # kept between runs: the compiled programs
KUBE_BIN=${KUBE_BIN:-$KUBE_CACHE/$KUBE_VERSION/bin}
# Addresses of the cluster's node, pods and Services: of IPv4, or with KUBE_FAMILY=ipv6 of IPv6 alone, dual for both.
case ${KUBE_FAMILY:=ipv4} in
  ipv4) node_addresses=(10.244.0.1) pod_networks=(10.244.0.0/24) service_networks=(10.96.0.0/16) DNS_ADDRESS=10.96.0.10 ;;
  ipv6) node_addresses=(fd00:10:244::1) pod_networks=(fd00:10:244::/64) service_networks=(fd00:10:96::/112) DNS_ADDRESS=fd00:10:96::a ;;
  dual)
    node_addresses=(10.244.0.1 fd00:10:244::1) pod_networks=(10.244.0.0/24 fd00:10:244::/64)
    service_networks=(10.96.0.0/16 fd00:10:96::/112) DNS_ADDRESS=10.96.0.10 ;;
  *) echo "KUBE_FAMILY is $KUBE_FAMILY; it takes ipv4, ipv6 and dual" >&2; exit 2 ;;
esac
case $KUBE_FAMILY in ipv4) of_family='' ;; *) of_family=-$KUBE_FAMILY ;; esac
KUBE_RUN=${KUBE_RUN:-/var/tmp/fairlead/kubernetes$of_release$of_family} # one cluster's state: certificates, etcd data, logs, pids
export PATH=$KUBE_BIN:$PATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

commas() { local IFS=,; printf '%s' "$*"; }
bracketed() { case $1 in *:*) printf '[%s]' "$1" ;; *) printf '%s' "$1" ;; esac; }
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
  pid=$(cat "$file")
  if kill "$pid" 2>/dev/null; then
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    ! kill -0 "$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$file" # last, because nothing else can find the process
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
