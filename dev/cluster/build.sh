#!/bin/bash
# Builds the cluster's programs, unless the cache has those of these sources and this Go; prints their directory.
# The first build takes about eight minutes on two cores, later ones seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/octavo/cluster
export PATH=$PATH:/usr/local/go/bin CGO_ENABLED=0 GOFLAGS=-trimpath

if ! command -v go > /dev/null; then
  echo "Go 1.26 or newer is missing. As root:" >&2
  echo "  curl -fsSL https://go.dev/dl/go1.26.8.linux-amd64.tar.gz | tar --extract --gzip --directory /usr/local" >&2
  exit 1
fi

cd "$here/go"
sources=("$here/build.sh" "$here/image.sh")
key=$({ go version; cat "${sources[@]}"; find . -type f | sort | xargs cat; } | sha256sum | cut -c 1-16)
programs=$cache/$key
mkdir -p "$cache"
exec 9> "$cache/build.lock"
until flock --timeout 20 9; do
  echo "another build of the cluster's programs is running: $(wc -l < "$cache/build.log") packages so far" >&2
done
if [ -e "$programs" ]; then
  echo "$programs"
  exit
fi
partial=$programs.partial
log=$cache/build.log
mkdir -p "$partial/images"

build() { # PROGRAM PACKAGE [LINKER-FLAGS]: with a line every 20 seconds that says how far it is
  local line count=0 total next=20
  total=$(go list -deps "$2" 2>> "$log" | wc -l)
  echo "building $1 ($total packages at most)" >&2
  SECONDS=0
  go build -v -ldflags "-s -w ${3:-}" -o "$partial/$1" "$2" 2>&1 | while read -r line; do
    echo "$line" >> "$log"
    count=$((count + 1))
    if ((SECONDS >= next)); then
      echo "  $1: $count packages after $SECONDS s" >&2
      next=$((SECONDS + 20))
    fi
  done || { tail -n 20 "$log" >&2; return 1; }
}

: > "$log"
echo "building Kubernetes, etcd, CoreDNS and Helm from Go modules, which are fetched first" >&2
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<< "${version#v}"
stamp=k8s.io/component-base/version
build kube . "-X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
for name in etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubeadm kubectl kubelet; do
  ln -sf kube "$partial/$name"
done
build helm helm.sh/helm/v4/cmd/helm
for name in coredns pause device-plugin; do build $name ./$name; done
for name in coredns pause; do "$here/image.sh" "localhost/$name:1" "$partial/$name" > "$partial/images/$name.tar"; done

mv "$partial" "$programs"
echo "$programs"
