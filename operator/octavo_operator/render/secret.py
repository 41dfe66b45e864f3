"""The Secret with the token by which the operator drains a service's engines."""

import base64
import hashlib
import hmac

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.render.metadata import metadata
from octavo_operator.resource import InferenceService
from octavo_operator.revision import digest


def admin_token(operator_key: bytes, service: InferenceService) -> str:
    """Return the service's token. It follows from the operator's key, so that no Secret ever has to be read back."""
    message = f"{service.namespace}/{service.name}/{service.uid}".encode()
    return hmac.new(operator_key, message, hashlib.sha256).hexdigest()


def secret_name(service: InferenceService) -> str:
    """Return a name that no other owner's Secret has: it holds a part of the service's uid."""
    return f"{service.name}-admin-{digest(service.uid)}"


def render_secret(service: InferenceService, token: str) -> Object:
    """Return the Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(service, secret_name(service)),
        "type": "Opaque",
        "immutable": True,
        "data": {labels.TOKEN_KEY: base64.b64encode(token.encode()).decode()},
    }
