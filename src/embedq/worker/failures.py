"""The log line of an attempt that failed, with all that is needed to find the cause."""

from embedq.model import Failed, Outcome, Retry, WorkerId
from embedq.telemetry import Event, Telemetry
from embedq.worker.embedder_state import EmbedderState


def report_failure(telemetry: Telemetry, outcome: Outcome, *, worker: WorkerId, state: EmbedderState) -> None:
    """Report that a job will be retried, or was given up. The text itself is never logged."""
    if not isinstance(outcome, Retry | Failed):
        return
    lease, fault = outcome.lease, outcome.fault
    final = isinstance(outcome, Failed)
    telemetry.emit(
        Event.JOB_FAILED if final else Event.JOB_RETRY,
        level="error" if final else "warning",
        jobId=lease.job_id,
        collection=lease.collection,
        entityName=lease.record_id,
        operation="embed",
        errorType=fault.category.value,
        code=fault.code,
        attempt=lease.attempts + 1,
        maxAttempts=lease.retry.max_attempts,
        workerId=worker,
        model=state.name,
        rateLimiter=state.limiter,
        cache="bypassed" if lease.forced else "miss",
        error=fault.message,
        stack=fault.stack,
        textLength=len(lease.text or ""),
        textHash=lease.hash.hex(),
        reason=outcome.reason.value if isinstance(outcome, Failed) else None,
        retryAfterSeconds=outcome.after.total_seconds() if isinstance(outcome, Retry) else None,
    )
