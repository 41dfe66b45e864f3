"""`python -m dev.cluster start|stop`: the cluster of `make cluster`."""

import sys

from dev.cluster.choose import start_cluster, stop_cluster
from dev.cluster.interface import ClusterError


def main(command: str) -> None:
    if command == "stop":
        stop_cluster()
        return
    cluster = start_cluster()
    print("A cluster is ready. To use it in this shell:")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    print(f"  {cluster.kubectl} --context {cluster.context} get nodes")


if __name__ == "__main__":
    if sys.argv[1:] not in (["start"], ["stop"]):
        sys.exit("usage: python -m dev.cluster start|stop")
    try:
        main(sys.argv[1])
    except ClusterError as error:
        sys.exit(f"error: {error}")
