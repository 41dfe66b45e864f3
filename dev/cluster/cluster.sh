#!/bin/bash
# A real Kubernetes of one node, or its control plane alone, in namespaces of its own. Several run side by side.
# usage: cluster.sh start NAME [node|control-plane]   starts it, unless it runs; prints its kubeconfig's path
#        cluster.sh stop NAME                         ends it; leaves nothing but its logs
#        cluster.sh kubeconfig NAME                   prints its kubeconfig's path, if it runs
#        cluster.sh load NAME < ARCHIVE               gives the node an image
#        cluster.sh run NAME PROGRAM [ARGUMENT...]    runs a program inside the node
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '3,7s/^# //p' "$0" >&2; exit 2; }

command=${1:-} name=${2:-}
[[ $command =~ ^(start|stop|kubeconfig|load|run)$ && $name =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] || usage
shift 2
state=${XDG_CACHE_HOME:-$HOME/.cache}/octavo/clusters/$name
kubeconfig=$state/var/lib/kubernetes/admin.conf

# The process that cluster.sh started lives outside the node; its only child is the node's first process.
launcher() { cat "$state/pid" 2> /dev/null; }
running() { grep --quiet --no-messages --fixed-strings "$state" "/proc/$(launcher)/cmdline"; }
node_pid() { pgrep --parent "$(launcher)"; }
need_running() { running || { echo "no cluster $name is running here" >&2; exit 1; }; }

start() {
  local mode=${1:-node}
  [[ $mode =~ ^(node|control-plane)$ ]] || usage
  if running && [ "$(cat "$state/mode" 2> /dev/null)" = "$mode" ]; then
    echo "$kubeconfig"
    return
  fi
  if running; then
    echo "$name runs as another kind: stop it first (cluster.sh stop $name), or take another name" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then echo "the embedded cluster needs root (namespaces, routes)" >&2; return 1; fi
  local packages=(iproute2 procps)
  if [ "$mode" = node ]; then packages+=(containerd runc containernetworking-plugins iptables nftables conntrack); fi
  "$here/../packages.sh" "${packages[@]}"
  local programs
  programs=$("$here/build.sh")

  stop
  rm -rf "$state"
  mkdir -p "$state"/var/{log,tmp,lib}
  ln -s /run "$state/var/run"
  trap stop EXIT # whatever ends the start too early
  reserve
  configure
  if [ "$mode" = node ]; then make_cgroups; fi
  launch "$programs" "$mode"
  if ! become_ready "$programs" "$mode"; then
    tail -n 5 "$state"/var/log/*.log >&2
    echo "the cluster $name did not start: see $state/var/log" >&2
    return 1
  fi
  echo "$mode" > "$state/mode"
  trap - EXIT
  echo "$kubeconfig"
}

# Creating the network link reserves an index, and so all addresses, on the whole machine.
reserve() {
  for index in {0..15}; do
    addresses "$index"
    if [ -n "$(ip route show root "$pods")$(ip route show root "$services")" ]; then continue; fi
    if ip link add "$link" type veth peer name "$link-node" 2> /dev/null; then
      echo "$index" > "$state/index"
      return
    fi
  done
  echo "no free index: see 'ip link show type veth', and stop clusters that are not used" >&2
  return 1
}

addresses() { # INDEX
  link=octavo$1 machine=10.77.$1.1 node=10.77.$1.2 pods=10.78.$1.0/24
  services=10.$((96 + $1)).0.0/16 dns=10.$((96 + $1)).0.10
}

configure() {
  cp -r "$here/config" "$state/var/lib/kubernetes"
  local edits=() variable
  for variable in name link node pods services dns; do edits+=(-e "s|@$variable@|${!variable}|g"); done
  find "$state/var/lib/kubernetes" -type f -exec sed -i "${edits[@]}" {} +
}

# The kubelet's root cgroup, in every hierarchy: nodes side by side must not share one.
make_cgroups() {
  local hierarchies=(/sys/fs/cgroup/[!u]*/) # all of version 1, without `unified`
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then hierarchies=(/sys/fs/cgroup/); fi
  mkdir -p "${hierarchies[@]/%/$link}"
}

launch() { # PROGRAMS MODE
  setsid unshare --net --mount --pid --fork --kill-child --mount-proc \
    "$here/node.sh" "$state" "$1" "$2" "$node" "$pods" "$services" > "$state/var/log/node.log" 2>&1 < /dev/null 9>&- &
  echo $! > "$state/pid"
  until node_pid > /dev/null; do kill -0 "$(launcher)"; sleep 0.02; done
  ip link set "$link-node" netns "$(node_pid)" name eth0
  ip address add "$machine/30" dev "$link"
  ip link set "$link" up
  ip route add "$pods" via "$node"
  ip route add "$services" via "$node"
}

become_ready() { # PROGRAMS MODE
  local kubectl=("$1/kubectl" --kubeconfig "$kubeconfig")
  retry "${kubectl[@]}" get serviceaccount default || return
  if [ "$2" = node ]; then retry "${kubectl[@]}" wait --for condition=Ready node/node --timeout 1s; fi
}

retry() { # COMMAND...: for as long as the node lives, and three minutes at most
  SECONDS=0
  until "$@"; do
    running && ((SECONDS < 180)) || return
    sleep 0.1
  done > "$state/var/log/retry.log" 2>&1
}

stop() {
  if running; then
    local pid
    pid=$(launcher)
    kill -KILL "$pid"
    while [ -e "/proc/$pid" ] || pgrep --full "node.sh $state " > /dev/null; do sleep 0.05; done
  fi
  if [ -e "$state/index" ]; then
    addresses "$(cat "$state/index")"
    if [ -e "/sys/class/net/$link" ]; then ip link delete "$link"; fi
    find /sys/fs/cgroup -depth -type d \( -path "*/$link" -o -path "*/$link/*" \) -exec rmdir {} +
  fi
  rm -rf "$state"/{var/lib,var/tmp,var/run,pid,index,mode}
}

kubeconfig() { need_running; echo "$kubeconfig"; }

run() { need_running; nsenter --target "$(node_pid)" --mount --net --pid "$@"; }

load() { run ctr --namespace k8s.io images import -; }

if [[ $command =~ ^(start|stop)$ ]]; then # one at a time
  exec 9> "${TMPDIR:-/tmp}/octavo-cluster-$name.lock"
  flock 9
fi
"$command" "$@"
