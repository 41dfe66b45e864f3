"""The engines' drain endpoint: take a replica out of work, and put it back."""

import json
from collections.abc import Callable
from typing import Any

import aiohttp
from yarl import URL

from octavo_operator.errors import EngineError
from octavo_operator.observed import Pod
from octavo_operator.render.flags import PORT

Address = tuple[str, int]
Resolver = Callable[[Pod], Address]

TIMEOUT_SECONDS = 3.0


def pod_address(pod: Pod) -> Address:
    """Return where a pod's engine listens."""
    return pod.ip, PORT


class EngineAdmin:
    """Speaks to one engine at a time, with its service's admin token."""

    def __init__(self, session: aiohttp.ClientSession, resolve: Resolver = pod_address) -> None:
        self._session = session
        self._resolve = resolve

    async def drain(self, pod: Pod, token: str) -> int:
        """Make sure that an engine takes no new requests; return how many it still works on."""
        answer = await self._call("GET", pod, token)
        if not answer.get("draining"):
            await self._call("POST", pod, token)
            answer = await self._call("GET", pod, token)
        if answer.get("draining") is not True or not isinstance(answer.get("in_flight"), int):
            raise EngineError(f"pod {pod.name} was asked to drain and says {answer}")
        return int(answer["in_flight"])

    async def is_draining(self, pod: Pod, token: str) -> bool:
        """Tell whether an engine takes no new requests."""
        return (await self._call("GET", pod, token)).get("draining") is True

    async def undrain(self, pod: Pod, token: str) -> None:
        """Let an engine take requests again."""
        await self._call("DELETE", pod, token)

    async def _call(self, method: str, pod: Pod, token: str) -> dict[str, Any]:
        host, port = self._resolve(pod)
        url = URL.build(scheme="http", host=host, port=port, path="/drain")
        headers = {"Authorization": f"Bearer {token}"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with self._session.request(method, url, headers=headers, timeout=timeout) as response:
                content = await response.content.read(4096)
                if response.status >= 300:
                    raise EngineError(f"{method} {url} of pod {pod.name} answered {response.status}: {content[:200]!r}")
                answer: Any = json.loads(content) if method == "GET" else {}
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"{method} {url} of pod {pod.name}: {error!r}") from error
        return answer if isinstance(answer, dict) else {}
