"""What is left of an error's words once the texts are out of them."""

import json
import traceback

import pytest

from embedq.errors import Critical, Permanent, Transient
from embedq.policy.echoes import cleared, without_texts

TEXT = "Frau Nägeli, Bahnhofstrasse 17, phones 079-555-1234: PIN 4711 ☂ 雨が降る"
SECRET = ("Nägeli", "nägeli", "N\\u00e4geli", "Bahnhof", "4711", "555", "1234", "phones", "雨", "\\u96e8", "%E9%9B%A8")


@pytest.mark.parametrize(
    "message",
    [
        f"invalid input {TEXT!r}",
        f"Invalid input: {TEXT[:30]}...",
        f"input too long near '...{TEXT[20:]}'",
        f"the input {json.dumps(TEXT)} is refused",
        f"{{'input': {TEXT!a}}}",
        f"bad value {TEXT.upper()}",
        "no such street: Bahnhofstrasse",
        "the number 4711 is refused",
        "for input N&auml;geli",
        "path /embed/%E9%9B%A8%E3%81%8C",
        "tokens: ['Bahnhof', '##strasse', '17']",
        TEXT,
    ],
)
def test_no_word_of_the_text_is_left(message: str) -> None:
    """Quoted whole, cut, escaped, in other letters or word by word: nothing of it is told."""
    said = without_texts(message, ["another text", TEXT])

    assert not [word for word in SECRET if word in said], said


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens, however you requested 10000 tokens",
        "Incorrect API key provided: ***",
        "The model `no-such-model` does not exist",
        "{'detail': 'odd'}",
        "encoding_format base64 is not supported",
    ],
)
def test_the_providers_own_words_stay(message: str) -> None:
    """What is no word of the text, or a word that every error is made of, is told as it was said."""
    assert (
        without_texts(message, ["the maximum length of a request that you send is a matter of context", TEXT])
        == message
    )


def test_an_unknown_error_is_told_without_the_text_and_with_its_frames() -> None:
    """A library's error that quotes the text becomes a transient one; its stack has the frames, not the words."""
    try:
        float(TEXT)
    except ValueError as error:
        told = cleared(error, [TEXT])

    stack = "".join(traceback.format_exception(told))
    assert isinstance(told, Transient)
    assert told.provider_code == "ValueError"
    assert not [word for word in SECRET if word in str(told) + stack]
    assert "builtins.ValueError" in stack
    assert "float(TEXT)" in stack


def test_our_errors_stay_what_they_are_and_their_causes_are_cleared() -> None:
    """The kind and code of an error decide what follows, so they stay; what it came from quotes nothing."""
    given = Permanent(f"refused {TEXT}", code="422")
    given.__cause__ = KeyError(TEXT)
    given.__cause__.__context__ = RuntimeError(TEXT)

    told = cleared(given, [TEXT])

    stack = "".join(traceback.format_exception(told))
    assert told is given
    assert told.provider_code == "422"
    assert not [word for word in SECRET if word in str(told) + stack]
    assert "KeyError" in stack
    assert "RuntimeError" in stack


def test_a_critical_error_keeps_its_hint() -> None:
    """What a person must do is still told."""
    said = "The provider answered 401: Incorrect API key provided. Check OPENAI_API_KEY."

    assert str(cleared(Critical(said, code="401"), [TEXT])) == said
