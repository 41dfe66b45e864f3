"""How this machine reaches a Service: directly where it is routed, else through the API server."""

import socket
from urllib.parse import urlsplit

from dev.demo.kubectl import Kubectl


def service_url(kubectl: Kubectl, name: str, proxy: str) -> str:
    """Return a base URL that spreads new connections over the ready replicas."""
    spec = kubectl.get("service", name)["spec"]
    direct = f"http://{spec['clusterIP']}:{spec['ports'][0]['port']}"
    through_api = f"{proxy}/api/v1/namespaces/{kubectl.namespace}/services/{name}:http/proxy"
    return direct if is_reachable(direct) else through_api


def is_reachable(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=1).close()
    except OSError:
        return False
    return True
