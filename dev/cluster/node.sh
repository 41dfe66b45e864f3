#!/bin/bash
# The first process of a node, in network, mount and process namespaces of its own: with it ends all of the node.
# usage (by cluster.sh): node.sh STATE PROGRAMS node|control-plane NODE-ADDRESS PODS SERVICES
set -euo pipefail
state=$1 programs=$2 mode=$3 node=$4 pods=$5 services=$6
home=/var/lib/kubernetes
pki=$home/pki

# With a /var and a /run of the node's own, every program keeps its usual paths and the machine its files.
mount --make-rshared /
mount --bind "$programs" /usr/local/bin
mount --bind "$state/var" /var
mount -t tmpfs run /run
cd /

# The kubelet would change three settings of the whole machine, if they did not read as it wants them.
pretend() { # SETTING VALUE
  echo "$2" > "/run/${1##*/}"
  mount --bind "/run/${1##*/}" "/proc/sys/$1"
}
pretend vm/overcommit_memory 1
pretend kernel/panic 10
pretend kernel/panic_on_oops 1

trap 'exit 1' TERM
launch() { # PROGRAM ARGUMENT...: in the background; the node ends with it
  {
    "$@" > "/var/log/$1.log" 2>&1 || true
    echo "$1 ended: see $state/var/log/$1.log"
    kill -TERM 1
  } &
}
retry() { until "$@"; do sleep 0.1; done > /run/retry.log 2>&1; }

retry ip link set eth0 up # cluster.sh gives the node this interface
ip address add "$node/30" dev eth0
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward

launch etcd --data-dir /var/lib/etcd --unsafe-no-fsync --log-level warn
if [ "$mode" = node ]; then launch containerd --config $home/containerd.toml; fi

sed -i "s/@version@/$(kubelet --version | cut -d ' ' -f 2)/" $home/kubeadm.yaml
kubeadm init phase certs all --config $home/kubeadm.yaml
kubeadm init phase kubeconfig all --config $home/kubeadm.yaml --kubeconfig-dir $home
kubeadm kubeconfig user --config $home/kubeadm.yaml --client-name system:kube-proxy > $home/kube-proxy.conf

launch kube-apiserver \
  --advertise-address "$node" --etcd-servers http://127.0.0.1:2379 --service-cluster-ip-range "$services" \
  --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
  --client-ca-file $pki/ca.crt --tls-cert-file $pki/apiserver.crt --tls-private-key-file $pki/apiserver.key \
  --kubelet-client-certificate $pki/apiserver-kubelet-client.crt \
  --kubelet-client-key $pki/apiserver-kubelet-client.key --kubelet-preferred-address-types InternalIP \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --service-account-key-file $pki/sa.pub --service-account-signing-key-file $pki/sa.key \
  --proxy-client-cert-file $pki/front-proxy-client.crt --proxy-client-key-file $pki/front-proxy-client.key \
  --requestheader-client-ca-file $pki/front-proxy-ca.crt --requestheader-allowed-names front-proxy-client \
  --requestheader-extra-headers-prefix X-Remote-Extra- --requestheader-group-headers X-Remote-Group \
  --requestheader-username-headers X-Remote-User
retry kubectl --kubeconfig $home/super-admin.conf apply --server-side --filename $home/rbac.yaml

launch kube-controller-manager \
  --kubeconfig $home/controller-manager.conf --use-service-account-credentials --leader-elect=false \
  --root-ca-file $pki/ca.crt --service-account-private-key-file $pki/sa.key \
  --cluster-signing-cert-file $pki/ca.crt --cluster-signing-key-file $pki/ca.key

if [ "$mode" = node ]; then
  launch kube-scheduler --kubeconfig $home/scheduler.conf --leader-elect=false
  launch kubelet --config $home/kubelet.yaml --kubeconfig $home/kubelet.conf --hostname-override node --node-ip "$node"
  launch kube-proxy \
    --kubeconfig $home/kube-proxy.conf --hostname-override node --proxy-mode nftables --cluster-cidr "$pods" \
    --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
  for image in /usr/local/bin/images/*.tar; do retry ctr --namespace k8s.io images import "$image"; done
  kubectl --kubeconfig $home/admin.conf apply --server-side --filename $home/coredns.yaml
fi

while true; do wait; done
