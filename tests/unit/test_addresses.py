"""What is shown of URLs, however oddly a password is written into them."""

import traceback

import asyncpg
import pytest

import embedq
from embedq.app import load
from embedq.errors import EmbedqError, StoreUnusable
from embedq.settings import without_passwords
from embedq.settings.addresses import passwords
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.errors import translated

SECRET = "S3CRET"  # noqa: S105 a word to look for
ODD = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:a{SECRET}/x@127.0.0.1:1/db",
    f"postgresql://u:12/{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}#x@127.0.0.1:1/db",
    f"postgresql://u:12#{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}?x@127.0.0.1:1/db",
    f"postgresql://u:12?{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:x@{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:a:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:%53{SECRET}%@127.0.0.1:1/db",
    f"postgresql://:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u;{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}\n@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}\uff20h/db",
    f"postgresql://u:{SECRET}\u2100x@h/db",
    f"postgresql://127.0.0.1:1/db?user=u&password={SECRET}",
    f"postgresql://127.0.0.1:1/db?pass%77ord={SECRET}@x",
    f"postgresql://127.0.0.1:1/db?PASSWORD={SECRET}",
    f"postgresql://127.0.0.1:1/db?user=ada;password={SECRET}",
    f"postgresql://127.0.0.1:1/db?sslpassword={SECRET}&sslmode=require",
    f"postgresql://127.0.0.1:1/db?passfile=/keys/{SECRET}",
    f"postgresql://u:{SECRET}@127.0.0.1:1/db?sslmode=odd",
    f"postgresql://u:{SECRET}@127.0.0.1:1/db?target_session_attrs=odd",
    f"postgresql://u:{SECRET}@[::1]:1/db",
    f"postgresql://u:{SECRET}@[::1/db",
    f"postgresql://u:{SECRET}@127.0.0.1:1,127.0.0.1:2/db",
    f"postgresql://u:{SECRET}@127.0.0.1:port/db",
    f"postgresql+asyncpg://u:{SECRET}@127.0.0.1:1/db",
    f" postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql:/u:{SECRET}@127.0.0.1/db",
    f"postgres:u:{SECRET}@127.0.0.1/db",
    f"u:{SECRET}@h/db",
    f"host=h password={SECRET}",
    f"host=h password = '{SECRET} x'",
    f"mysql://u:{SECRET}@h/db",
    f"sqlite://u:{SECRET}@h/db",
    f"neo4j://u:{SECRET}@h",
]


def told(error: BaseException) -> str:
    """Write an error with all it came from, without the lines of code that hold the test's own words."""
    chain = traceback.TracebackException.from_exception(error)
    lines = []
    while chain is not None:
        lines += list(chain.format_exception_only())
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)  # type: ignore[assignment]
    return "".join(lines)


@pytest.mark.parametrize("url", ODD)
def test_a_password_is_hidden_wherever_it_stands(url: str) -> None:
    """However a URL is written, what is shown of it holds no password, and the log knows which words to hide."""
    assert SECRET not in without_passwords(url)
    assert any(SECRET in secret for secret in passwords(url))


@pytest.mark.parametrize("url", ODD)
async def test_a_database_that_cannot_be_opened_tells_no_password(url: str) -> None:
    """Neither the refusal nor anything it came from holds the password, for the database and for the queue's own."""
    for given in ({"url": url}, {"url": "sqlite:///some.db", "queue_url": url}):
        with pytest.raises(EmbedqError) as refused:
            async with embedq.open(**given):  # type: ignore[arg-type]  # two settings by name
                pass

        assert SECRET not in told(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////home/a:b@c/x.db", "sqlite:////home/a:b@c/x.db"),
        ("postgresql://ada@h:5432/d", "postgresql://ada@h:5432/d"),
        ("postgresql://[::1]:5432/d?sslmode=require", "postgresql://[::1]:5432/d?sslmode=require"),
        ("http://127.0.0.1:8400", "http://127.0.0.1:8400"),
        ("https://a-token@h/v1", "https://***@h/v1"),
    ],
)
def test_what_is_no_password_is_shown(url: str, shown: str) -> None:
    """A path, a user, a host and a port stay; a lone user of a web address may be a token."""
    assert without_passwords(url) == shown


@pytest.mark.parametrize("name", ["openai_base_url", "gemini_base_url", "ollama_host", "api_base_url", "queue_url"])
def test_the_password_of_any_url_is_kept_out_of_the_log(name: str) -> None:
    """Every setting that is an address gives the log its password to hide."""
    settings = load(**{name: f"http://u:{SECRET}@h"})

    assert SECRET in settings.secrets()


def test_a_wrong_address_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused value is shown, but not the password in it."""
    monkeypatch.setenv("CHL_API_BASE_URL", f"ftp://u:{SECRET}@h")

    with pytest.raises(EmbedqError) as refused:
        load()

    assert "ftp://u:***@h" in str(refused.value)
    assert SECRET not in told(refused.value)


def test_a_value_that_cannot_be_sent_is_not_told() -> None:
    """The driver quotes what it could not send; of that, only its place is said."""
    error = asyncpg.DataError("invalid input for query argument $2: 'Frau Meierhans' (expected str, got int)")

    assert "query argument $2" in str(translated(error, "h/db"))
    assert "Meierhans" not in str(translated(error, "h/db"))


async def test_a_driver_that_quotes_the_url_is_told_without_the_password() -> None:
    """What the driver says of a parameter is told, but not where it repeats the password."""
    with pytest.raises(StoreUnusable) as refused:
        await PostgresStore.open(f"postgresql://u:{SECRET}@127.0.0.1:1/db?target_session_attrs={SECRET}")

    assert "target_session_attrs" in str(refused.value)
    assert SECRET not in told(refused.value)
