"""Settings: what is taken, what is refused, and what the refusal says."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from embedq.app import load, table
from embedq.errors import SettingsError

NAMES = {name for row in table() for name in row.variables} | {"EMBEDQ_CONFIG"}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return


def test_the_defaults_are_those_of_the_design() -> None:
    """Nothing set: the embedded default, and the figures that the design decided."""
    settings = load()

    assert settings.url == "sqlite:///embedq.db"
    assert settings.embedder == "local"
    assert (settings.workers, settings.batch_size, settings.port, settings.host) == (2, 100, 8400, "127.0.0.1")
    assert (settings.lease, settings.heartbeat) == (timedelta(seconds=300), timedelta(seconds=60))
    assert (settings.retry.max_attempts, settings.retry.base) == (3, timedelta(seconds=1))
    assert settings.recovery == timedelta(seconds=60)
    assert settings.budget is None
    assert settings.max_text_bytes == 1 << 20


def test_unset_retention_is_fourteen_days_and_said() -> None:
    """A default that deletes things is taken, but not silently."""
    settings = load()

    assert settings.retention == timedelta(days=14)
    assert any("EMBED_JOB_RETENTION_DAYS" in said and "14" in said for said in settings.assumed())


@pytest.mark.parametrize("value", ["", " ", "many", "6", "31", "0", "-7", "7.5", "nan", "1e1"])
def test_a_wrong_retention_refuses_to_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Blank, no number or outside 7 to 30: the name, the value and the bounds are said."""
    monkeypatch.setenv("EMBED_JOB_RETENTION_DAYS", value)

    with pytest.raises(SettingsError) as refusal:
        load()

    assert str(refusal.value) == f"EMBED_JOB_RETENTION_DAYS={value!r}: it must be a whole number from 7 to 30"


@pytest.mark.parametrize("value", ["7", "14", "30"])
def test_a_right_retention_is_taken(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Both bounds belong to the range, and what was set is not announced as assumed."""
    monkeypatch.setenv("EMBED_JOB_RETENTION_DAYS", value)

    settings = load()

    assert settings.retention == timedelta(days=int(value))
    assert not any("RETENTION" in said for said in settings.assumed())


def test_strict_refuses_an_unset_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """EMBEDQ_STRICT=1 turns the assumption into a refusal."""
    monkeypatch.setenv("EMBEDQ_STRICT", "1")

    with pytest.raises(SettingsError, match="EMBED_JOB_RETENTION_DAYS is unset"):
        load()


def test_recovery_zero_is_off_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero means no rescue at all, which a person should know."""
    monkeypatch.setenv("EMBED_JOB_RECOVERY_INTERVAL", "0")

    settings = load()

    assert settings.recovery is None
    assert any("EMBED_JOB_RECOVERY_INTERVAL=0" in said for said in settings.assumed())


def test_the_seeds_names_work_and_ours_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed's variable sets the field until ours is set too."""
    monkeypatch.setenv("CHL_NUM_EMBEDDING_WORKERS", "7")
    monkeypatch.setenv("CHL_WORKER_BATCH_SIZE", "10")
    monkeypatch.setenv("CHL_WORKER_POLL_INTERVAL", "3")
    monkeypatch.setenv("CHL_QUEUE_RETRY_FAILED_ON_STARTUP", "1")
    monkeypatch.setenv("EMBEDQ_BATCH_SIZE", "20")

    settings = load()

    assert (settings.workers, settings.batch_size, settings.poll_seconds) == (7, 20, 3.0)
    assert settings.retry_failed_on_startup


def test_the_rate_limit_binds_by_tokens_and_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty calls a second, as the seeds write it."""
    monkeypatch.setenv("EMBEDDING_RATE_LIMIT_TOKENS", "20")
    monkeypatch.setenv("EMBEDDING_RATE_LIMIT_INTERVAL", "1000")

    budget = load().budget

    assert budget is not None
    assert (budget.requests, budget.interval) == (20, timedelta(seconds=1))


def test_environment_wins_over_file_and_file_over_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each layer gives way to the one above it, also where the layers use different names."""
    (tmp_path / "embedq.toml").write_text('workers = 5\nport = 9000\nEMBED_JOB_RETENTION_DAYS = 21\nhost = "::1"\n')
    monkeypatch.setenv("CHL_NUM_EMBEDDING_WORKERS", "6")

    settings = load(host="127.0.0.2")

    assert (settings.workers, settings.port, settings.retention_days) == (6, 9000, 21)
    assert settings.host == "127.0.0.2"
    assert settings.batch_size == 100


def test_another_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """EMBEDQ_CONFIG names the file; a missing one is an error, not a silent default."""
    (tmp_path / "other.toml").write_text("workers = 9\n")
    monkeypatch.setenv("EMBEDQ_CONFIG", str(tmp_path / "other.toml"))
    assert load().workers == 9

    monkeypatch.setenv("EMBEDQ_CONFIG", str(tmp_path / "gone.toml"))
    with pytest.raises(SettingsError, match=r"gone\.toml cannot be read"):
        load()


def test_an_unknown_key_in_the_file_is_an_error(tmp_path: Path) -> None:
    """A typing slip in the file must not be ignored."""
    (tmp_path / "embedq.toml").write_text("wrokers = 5\n")

    with pytest.raises(SettingsError, match=r"wrokers: there is no such setting \(in embedq\.toml\)"):
        load()


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """What is no TOML is said with the file's name."""
    (tmp_path / "embedq.toml").write_text("workers = = 5\n")

    with pytest.raises(SettingsError, match=r"embedq\.toml is no valid TOML"):
        load()


def test_all_that_is_wrong_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One refusal lists every wrong value under the name its author wrote."""
    (tmp_path / "embedq.toml").write_text("batch_size = 0\n")
    monkeypatch.setenv("CHL_NUM_EMBEDDING_WORKERS", "many")
    monkeypatch.setenv("EMBEDQ_PORT", "70000")

    with pytest.raises(SettingsError) as refusal:
        load(max_attempts=0)

    assert set(str(refusal.value).splitlines()) == {
        "CHL_NUM_EMBEDDING_WORKERS='many': it must be a whole number from 0 to 256",
        "EMBEDQ_PORT='70000': it must be a whole number from 0 to 65535",
        "batch_size in embedq.toml=0: it must be a whole number from 1 to 1000",
        "max_attempts=0: it must be a whole number from 1 to 100",
    }


def test_a_blank_key_is_refused_and_no_key_is_ever_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who sets a blank key believes to be guarded; and a good key stays out of every message."""
    monkeypatch.setenv("EMBEDQ_API_KEY", "")
    monkeypatch.setenv("EMBEDQ_READ_KEY", "a-very-secret-key")
    monkeypatch.setenv("EMBEDQ_PORT", "x")

    with pytest.raises(SettingsError) as refusal:
        load()

    assert "EMBEDQ_API_KEY is set but blank" in str(refusal.value)
    assert "a-very-secret-key" not in str(refusal.value)
    monkeypatch.setenv("EMBEDQ_API_KEY", "another-secret-key")
    monkeypatch.delenv("EMBEDQ_PORT")
    assert "secret" not in repr(load())
    assert set(load().secrets()) == {"a-very-secret-key", "another-secret-key"}


def test_the_password_of_a_url_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither in what is shown nor in the settings' own picture, wherever in the URL it stands."""
    monkeypatch.setenv("EMBEDQ_URL", "postgresql://ada:l%40om@a:1,b:2/d?sslpassword=shuttle&x=1")
    settings = load()

    assert settings.shown_url == "postgresql://ada:***@a:1,b:2/d?sslpassword=***&x=1"
    assert set(settings.secrets()) == {"l%40om", "l@om", "shuttle"}
    assert "l%40om" not in repr(settings)


def test_a_heartbeat_must_be_shorter_than_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that ends before the first sign of life would be lost again and again."""
    monkeypatch.setenv("EMBEDQ_LEASE_SECONDS", "10")
    assert load().heartbeat == timedelta(seconds=2)

    monkeypatch.setenv("EMBEDQ_HEARTBEAT_SECONDS", "10")
    with pytest.raises(SettingsError, match="must be under EMBEDQ_LEASE_SECONDS"):
        load()


def test_every_setting_is_described_for_the_reference() -> None:
    """Each row has a variable of its own, bounds, and a sentence; no two settings share a variable."""
    rows = table()

    assert {row.key for row in rows} == set(type(load()).model_fields)
    assert all(row.variables and row.bounds and row.description.endswith(".") for row in rows)
    variables = [name for row in rows for name in row.variables]
    assert len(variables) == len(set(variables))
    assert {row.key for row in rows if row.secret} == {"api_key", "read_key", "openai_api_key", "gemini_api_key"}


@pytest.mark.parametrize("name", ["EMBEDQ_API_KEY", "EMBEDQ_READ_KEY"])
@pytest.mark.parametrize(
    "key", ["k", "fifteen-letters", "  sixteen spaces  ", "sixteen-and-ümlaut", "a-line-at-its-end\n"]
)
def test_a_key_that_guards_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, key: str) -> None:
    """Short keys and such as no header carries stop the start; the refusal names the variable, not the key."""
    monkeypatch.setenv(name, key)

    with pytest.raises(SettingsError, match=name) as refusal:
        load()

    assert len(key) == 1 or key.strip() not in str(refusal.value)
    assert "secrets.token_urlsafe(32)" in str(refusal.value) or "header" in str(refusal.value)


def test_sixteen_characters_are_enough() -> None:
    """The least key is taken."""
    assert load(api_key="sixteen-letters!", read_key="another-sixteen!").api_key is not None


def test_a_read_key_that_is_the_full_key_is_refused() -> None:
    """Who reads with it could write."""
    with pytest.raises(SettingsError, match="EMBEDQ_READ_KEY is the same as EMBEDQ_API_KEY"):
        load(api_key="the-very-same-key", read_key="the-very-same-key")


PAIRS = [
    ("openai_base_url", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ("gemini_base_url", "GEMINI_BASE_URL", "GEMINI_API_KEY"),
    ("api_base_url", "CHL_API_BASE_URL", "EMBEDQ_API_KEY"),
]


@pytest.mark.parametrize("key_in_file", ["own name", "variable"])
@pytest.mark.parametrize(("name", "variable", "secret"), PAIRS)
def test_a_found_file_may_not_choose_where_a_key_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, variable: str, secret: str, key_in_file: str
) -> None:
    """An address in a file that just lies here and a key of the environment: refused, with both and how to allow it."""
    written = name if key_in_file == "own name" else variable
    (tmp_path / "embedq.toml").write_text(f'{written} = "http://ada:loom@evil.example/v1"\n')
    monkeypatch.setenv(secret, "sk-a-very-secret-key")

    with pytest.raises(SettingsError) as refusal:
        load()

    said = str(refusal.value)
    assert all(word in said for word in (name, secret, "http://ada:***@evil.example/v1", "EMBEDQ_CONFIG=embedq.toml"))
    assert "sk-a" not in said


@pytest.mark.parametrize(("name", "variable", "secret"), PAIRS)
def test_where_a_key_goes_is_allowed_by_naming_the_file_or_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, variable: str, secret: str
) -> None:
    """A file that was named, an address of the environment, or a key of the file's own: nothing is sent unasked."""
    file = tmp_path / "embedq.toml"
    file.write_text(f'{name} = "http://h/v1"\n')
    assert getattr(load(), name) == "http://h/v1"  # there is no key to send

    monkeypatch.setenv(secret, "sk-a-very-secret-key")
    monkeypatch.setenv("EMBEDQ_CONFIG", "embedq.toml")
    assert getattr(load(), name) == "http://h/v1"

    monkeypatch.delenv("EMBEDQ_CONFIG")
    monkeypatch.setenv(variable, "http://mine/v1")
    assert getattr(load(), name) == "http://mine/v1"
    monkeypatch.delenv(variable)
    assert getattr(load(**{name: "http://given/v1"}), name) == "http://given/v1"

    monkeypatch.delenv(secret)
    file.write_text(f'{name} = "http://h/v1"\n{secret} = "a-key-of-the-file-itself"\n')
    assert getattr(load(), name) == "http://h/v1"


@pytest.mark.parametrize("name", ["url", "queue_url"])
@pytest.mark.parametrize("scheme", ["postgresql", "POSTGRES+asyncpg"])
def test_a_found_file_may_not_choose_who_gets_the_databases_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, scheme: str
) -> None:
    """The driver would send the environment's to whatever server the file names."""
    address = f"{scheme}://ada@evil.example/shop"
    (tmp_path / "embedq.toml").write_text(f'{name} = "{address}"\n')
    assert getattr(load(), name) == address  # there is none to send
    monkeypatch.setenv("PGPASSWORD", "loom-and-mill")

    with pytest.raises(SettingsError, match=f"^{name} in .* PGPASSWORD of your environment") as refusal:
        load()
    assert "loom-and-mill" not in str(refusal.value)

    monkeypatch.setenv("EMBEDQ_CONFIG", "embedq.toml")
    assert getattr(load(), name) == address
