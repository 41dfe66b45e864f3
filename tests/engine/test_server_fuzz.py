"""Whatever JSON a client sends, the answer is never an internal error and nothing is left behind."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo_engine.server.protocol import ChatBody, ChatMessage, CompletionBody
from octavo_engine.server.unsupported import LABELS, MESSAGE_FIELDS, REQUEST_FIELDS

from .server_support import FakeEngine, client_of, make_app, service_of

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["fake", "user", "system", "text", "Hello", "\ud800", "\u0000"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=6
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from([*ChatMessage.model_fields, *MESSAGE_FIELDS]), SCALARS, max_size=4)
    | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=5)}),
    max_size=3,
)


def bodies(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly right names with any values, and a good start so that some get far."""
    names = st.sampled_from([*fields, *REQUEST_FIELDS, *LABELS]) | st.text(max_size=4)
    start = st.fixed_dictionaries({"model": st.just("fake")}, optional={"prompt": st.text(), "messages": MESSAGES})
    odd = st.dictionaries(names, VALUES | MESSAGES, max_size=4)
    return st.builds(lambda good, bad: good | bad, start, odd)


async def check(path: str, body: dict[str, Any]) -> None:
    app = make_app(FakeEngine("ab"))
    async with client_of(app) as client:
        response = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        assert response.json()["error"]["message"]
    assert service_of(app).admission.num_requests == service_of(app).admission.num_running == 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies(CompletionBody.model_fields))
async def test_no_completion_body_is_an_internal_error(body: dict[str, Any]) -> None:
    await check("/v1/completions", body)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies(ChatBody.model_fields))
async def test_no_chat_body_is_an_internal_error(body: dict[str, Any]) -> None:
    await check("/v1/chat/completions", body)
