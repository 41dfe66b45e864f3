"""The operator's own key, from which the admin token of every service follows."""

import base64
import secrets

from octavo_operator.errors import AlreadyExists, NotFound
from octavo_operator.kinds import SECRET, Object
from octavo_operator.kube import Kube

KEY_SECRET = "octavo-operator-key"
FIELD = "key"


async def load_operator_key(kube: Kube, namespace: str) -> bytes:
    """Return the key in the operator's namespace; the first replica makes it."""
    try:
        return _read(await kube.get(SECRET, namespace, KEY_SECRET))
    except NotFound:
        pass
    try:
        return _read(await kube.create(_render(namespace)))
    except AlreadyExists:
        return _read(await kube.get(SECRET, namespace, KEY_SECRET))


def _render(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEY_SECRET, "namespace": namespace, "labels": {"app.kubernetes.io/name": "octavo"}},
        "type": "Opaque",
        "immutable": True,
        "data": {FIELD: base64.b64encode(secrets.token_bytes(32)).decode()},
    }


def _read(secret: Object) -> bytes:
    return base64.b64decode(secret["data"][FIELD])
