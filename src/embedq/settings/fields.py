"""All settings; providers add theirs. The reference page is generated from both."""

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from embedq.model import Budget, RetryPolicy
from embedq.settings.addresses import passwords, without_passwords
from embedq.settings.keys import check_keys
from embedq.settings.sources import Address, FileSource, Names, VariableSource, address_of

MIB = 1 << 20
DEFAULT_RETENTION_DAYS = 14
LEASE_TO_HEARTBEAT = 5  # a lease lasts this many heartbeats, so that three missed ones can be warned about
LONGEST_HEARTBEAT = 60.0


def _number(default: object, low: float, high: float, description: str) -> Any:  # noqa: ANN401 what pydantic's Field returns
    return Field(default, ge=low, le=high, description=description)


class Settings(BaseSettings):
    """How this process runs. Environment wins over `embedq.toml`, the file over the default."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,  # what providers read is added first, see `settings_with`
    )

    url: Annotated[str, Names("EMBEDQ_URL"), Address()] = Field(
        "sqlite:///embedq.db",
        min_length=1,
        repr=False,  # it may hold a password
        description="The database of records, vectors and jobs: `sqlite:///relative.db`, `sqlite:////absolute.db` "
        "or `postgresql://user:password@host/database`.",
    )
    queue_url: Annotated[str | None, Names("EMBEDQ_QUEUE_URL"), Address()] = Field(
        None,
        min_length=1,
        repr=False,
        description="A database for the queue alone, if it is to be another one than that of records and vectors.",
    )
    pg_pooler: Annotated[bool, Names("EMBEDQ_PG_POOLER")] = Field(
        default=False,
        description="A pooler such as PgBouncer stands before PostgreSQL: no LISTEN, no prepared statements.",
    )
    pg_index_memory_mb: Annotated[int, Names("EMBEDQ_PG_INDEX_MEMORY_MB")] = _number(
        1024, 64, 1_048_576, "Megabytes that PostgreSQL may use to build a search index; it takes what the index needs."
    )
    embedder: Annotated[str, Names("EMBEDQ_EMBEDDER")] = Field(
        "local",
        min_length=1,
        description="What embeds collections that name no embedder: `local`, or `PROVIDER:MODEL` such as "
        "`openai:text-embedding-3-small`; `…:MODEL@768` fixes the dimensions.",
    )
    allowed_embedders: Annotated[str | None, Names("EMBEDQ_ALLOWED_EMBEDDERS")] = Field(
        None,
        min_length=1,
        description="Embedders that HTTP callers may name, with commas between; `*`: any. "
        "Unset: those of the collections that are there. The default embedder is always among them.",
    )
    strict: Annotated[bool, Names("EMBEDQ_STRICT")] = Field(
        default=False,
        description="Refuse what is otherwise assumed: undeclared collections, and an unset retention.",
    )

    workers: Annotated[int, Names("EMBEDQ_WORKERS", "CHL_NUM_EMBEDDING_WORKERS")] = _number(
        2, 0, 256, "Workers in each process that `up` or `work` starts."
    )
    batch_size: Annotated[int, Names("EMBEDQ_BATCH_SIZE", "CHL_WORKER_BATCH_SIZE")] = _number(
        100, 1, 1000, "Jobs that a worker leases at once."
    )
    poll_seconds: Annotated[float, Names("EMBEDQ_POLL_SECONDS", "CHL_WORKER_POLL_INTERVAL")] = _number(
        5.0, 0.05, 3600, "The longest an idle worker waits before it looks again; new work wakes it at once."
    )
    lease_seconds: Annotated[float, Names("EMBEDQ_LEASE_SECONDS")] = _number(
        300.0, 0.5, 86_400, "How long a job belongs to a worker that shows no sign of life."
    )
    heartbeat_seconds: Annotated[float | None, Names("EMBEDQ_HEARTBEAT_SECONDS")] = _number(
        None, 0.1, 3600, "How often a worker shows a sign of life. Unset: 60, or a fifth of a shorter lease."
    )
    attempt_seconds: Annotated[float, Names("EMBEDQ_ATTEMPT_SECONDS")] = _number(
        120.0, 0.05, 3600, "The deadline of one call of an embedder."
    )
    max_attempts: Annotated[int, Names("EMBEDQ_MAX_ATTEMPTS")] = _number(
        3, 1, 100, "How often a job may fail before it is a dead letter."
    )
    retry_base_seconds: Annotated[float, Names("EMBEDQ_RETRY_BASE_SECONDS")] = _number(
        1.0, 0, 3600, "The wait after the first failure; each further one doubles it, up to 300 seconds."
    )
    retry_failed_on_startup: Annotated[bool, Names("CHL_QUEUE_RETRY_FAILED_ON_STARTUP")] = Field(
        default=False, description="Arm all dead letters again when workers start."
    )

    retention_days: Annotated[int | None, Names("EMBED_JOB_RETENTION_DAYS")] = _number(
        None, 7, 30, "How long finished jobs are kept. Unset: 14, said at boot; refused with EMBEDQ_STRICT=1."
    )
    recovery_interval_ms: Annotated[int, Names("EMBED_JOB_RECOVERY_INTERVAL")] = _number(
        60_000, 0, 86_400_000, "Milliseconds between rescues of expired leases. 0: no rescue, not even at boot."
    )
    rate_limit_tokens: Annotated[int | None, Names("EMBEDDING_RATE_LIMIT_TOKENS")] = _number(
        None, 1, 1_000_000, "Requests that the whole fleet may make of a remote embedder per interval. Unset: no limit."
    )
    rate_limit_interval_ms: Annotated[int, Names("EMBEDDING_RATE_LIMIT_INTERVAL")] = _number(
        60_000, 1, 86_400_000, "That interval, in milliseconds."
    )

    max_text_bytes: Annotated[int, Names("EMBEDQ_MAX_TEXT_BYTES")] = _number(
        MIB, 1, 64 * MIB, "The longest text of a record, in bytes of UTF-8."
    )
    max_request_bytes: Annotated[int, Names("EMBEDQ_MAX_REQUEST_BYTES")] = _number(
        32 * MIB, 1024, 1024 * MIB, "The largest body of an HTTP request."
    )
    max_answer_bytes: Annotated[int, Names("EMBEDQ_MAX_ANSWER_BYTES")] = _number(
        32 * MIB, 1024, 1024 * MIB, "The most text and attributes that one search or one page of records brings."
    )
    max_connections: Annotated[int, Names("EMBEDQ_MAX_CONNECTIONS")] = _number(
        512,
        1,
        65_536,
        "Connections that the API holds at once, at most half of the files that the process may open. Over it, "
        "the one that waits longest gives way.",
    )
    host: Annotated[str, Names("EMBEDQ_HOST")] = Field(
        "127.0.0.1", min_length=1, description="The address the API binds to. Other than loopback only with an API key."
    )
    port: Annotated[int, Names("EMBEDQ_PORT")] = _number(8400, 0, 65_535, "The port of the API; 0 takes a free one.")
    api_key: Annotated[SecretStr | None, Names("EMBEDQ_API_KEY")] = Field(
        None, min_length=1, description="The key that every route with data asks for; 16 characters or more."
    )
    read_key: Annotated[SecretStr | None, Names("EMBEDQ_READ_KEY")] = Field(
        None, min_length=1, description="A second, other key that may read and search, but not write or operate."
    )
    api_base_url: Annotated[str | None, Names("CHL_API_BASE_URL"), Address("api_key")] = Field(
        None,
        pattern=r"^https?://\S+$",
        description="A running API. If it answers, `import` pauses, drains and resumes the queue through it.",
    )

    log_text: Annotated[bool, Names("EMBEDQ_LOG_TEXT")] = Field(
        default=False, description="Write texts into the log as they are, not as length and hash."
    )
    log_format: Annotated[str, Names("EMBEDQ_LOG_FORMAT")] = Field(
        "auto",
        pattern="^(auto|json|text)$",
        description="How log lines are written: `json`, `text` for people, or `auto`: text on a terminal, else JSON.",
    )
    log_level: Annotated[str, Names("EMBEDQ_LOG_LEVEL")] = Field(
        "info", pattern="^(debug|info|warning|error|critical)$", description="The least level that is logged."
    )

    @classmethod
    def settings_customise_sources(  # noqa: D102 pydantic's own hook
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 ours knows the alternative names and their order
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 not read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, VariableSource(settings_cls), FileSource(settings_cls)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        check_keys(self.api_key, self.read_key)
        if self.strict and self.retention_days is None:
            raise ValueError("EMBED_JOB_RETENTION_DAYS is unset: with EMBEDQ_STRICT=1 set it, from 7 to 30")
        if self.heartbeat_seconds is not None and self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError(
                f"EMBEDQ_HEARTBEAT_SECONDS={self.heartbeat_seconds:g}: it must be under EMBEDQ_LEASE_SECONDS, "
                f"which is {self.lease_seconds:g}"
            )
        return self

    @property
    def lease(self) -> timedelta:
        """How long a job stays with a worker that does not renew it."""
        return timedelta(seconds=self.lease_seconds)

    @property
    def heartbeat(self) -> timedelta:
        """How often a worker sends a heartbeat."""
        derived = min(LONGEST_HEARTBEAT, self.lease_seconds / LEASE_TO_HEARTBEAT)
        return timedelta(seconds=self.heartbeat_seconds or derived)

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of collections that declare none."""
        return RetryPolicy(base=timedelta(seconds=self.retry_base_seconds), max_attempts=self.max_attempts)

    @property
    def retention(self) -> timedelta:
        """How long finished jobs are kept."""
        return timedelta(days=self.retention_days or DEFAULT_RETENTION_DAYS)

    @property
    def recovery(self) -> timedelta | None:
        """How often expired leases are rescued; None: never automatically."""
        return timedelta(milliseconds=self.recovery_interval_ms) if self.recovery_interval_ms else None

    @property
    def budget(self) -> Budget | None:
        """The fleet's rate limit for remote embedders."""
        if self.rate_limit_tokens is None:
            return None
        return Budget(requests=self.rate_limit_tokens, interval=timedelta(milliseconds=self.rate_limit_interval_ms))

    def secrets(self) -> tuple[str, ...]:
        """List the values that must never be shown: keys, and the passwords of addresses."""
        fields = type(self).model_fields.items()
        found = [value for name, _ in fields if isinstance(value := getattr(self, name), SecretStr)]
        addresses = [value for name, field in fields if address_of(field) and (value := getattr(self, name))]
        hidden = [secret.get_secret_value() for secret in found]
        return (*hidden, *(secret for address in addresses for secret in passwords(address)))

    @property
    def shown_url(self) -> str:
        """The database's URL, redacted."""
        return without_passwords(self.url)

    @property
    def shown_queue_url(self) -> str | None:
        """The queue's URL, redacted, if it is in another database."""
        return None if self.queue_url in (None, self.url) else without_passwords(self.queue_url or "")

    @property
    def shown_place(self) -> str:
        """Where records are and, if elsewhere, where their queue is; redacted."""
        return f"{self.shown_url}, queue in {self.shown_queue_url}" if self.shown_queue_url else self.shown_url

    def assumed(self) -> list[str]:
        """List the defaults that are worth a line in the log."""
        said = []
        if self.retention_days is None:
            said.append(f"EMBED_JOB_RETENTION_DAYS is unset: finished jobs are kept {DEFAULT_RETENTION_DAYS} days")
        if self.rate_limit_tokens is None:
            said.append("EMBEDDING_RATE_LIMIT_TOKENS is unset: no request limit but what a provider asks for")
        if self.recovery is None:
            said.append("EMBED_JOB_RECOVERY_INTERVAL=0: stuck jobs stay until `embedq requeue-stale`")
        return said
