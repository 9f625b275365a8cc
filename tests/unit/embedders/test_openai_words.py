"""What a provider's refusal looks like to people."""

import httpx
import openai
import pytest

from embedq.embedders.openai_errors import translated

KEY = "sk-very-secret-key"
TEXT = "a text that must not be told"


def refused(status: int, body: object, message: str) -> str:
    response = httpx.Response(status, request=httpx.Request("POST", "http://127.0.0.1/v1/embeddings"))
    return str(translated(openai.APIStatusError(message, response=response, body=body), key=KEY, texts=[TEXT]))


@pytest.mark.parametrize(
    ("status", "body", "message", "said"),
    [
        (400, {"message": "input too long"}, "Error code: 400 - {...}", "The provider answered 400: input too long"),
        (
            401,
            {"message": "Wrong."},
            "Error code: 401 - {...}",
            "The provider answered 401: Wrong. Check OPENAI_API_KEY.",
        ),
        (422, {"detail": "odd"}, "Error code: 422 - {'detail': 'odd'}", "The provider answered 422: {'detail': 'odd'}"),
        (502, None, "Bad gateway", "The provider answered 502: Bad gateway"),
        (500, None, "Error code: 500", "The provider answered 500"),
    ],
)
def test_the_providers_words_are_said_once(status: int, body: object, message: str, said: str) -> None:
    """The status stands once, then the provider's own message, then what to do."""
    assert refused(status, body, message) == said


def test_neither_key_nor_text_is_told() -> None:
    """Whatever a server echoes in its message."""
    said = refused(400, {"message": f"{KEY} may not send {TEXT!r}"}, f"Error code: 400 - {KEY} {TEXT}")

    assert said == f"The provider answered 400: *** may not send '<text of {len(TEXT)} characters>'"
