"""How jobs are named, and how a queue position is encoded."""

from embedq.model import JobId

SPACE_BITS = 12
LANES = 4
LANE_BITS = 48
SOLO_LANES = LANES << LANE_BITS  # after the four lanes: jobs that crashed workers, leased alone


def job_id(key: int, serial: int) -> JobId:
    """Name a job. Its key is reused when a purged job is created again; its serial never is."""
    return JobId(f"{key}.{serial}")


def new_job_id(record: int, space: int) -> JobId:
    """Name the first job of a new record: its serial is the record's number."""
    return JobId(f"{record << SPACE_BITS | space}.{record}")


def key_of(job: JobId) -> int:
    """Read the key of a job that a store has named."""
    return int(job.partition(".")[0])


def parse(job: JobId) -> tuple[int, int] | None:
    """Parse key and serial of a caller's job id; None if it cannot be one."""
    key, _, serial = job.partition(".")
    if not (key.isdecimal() and serial.isdecimal()):
        return None
    numbers = int(key), int(serial)
    return None if max(numbers) >= 1 << 63 else numbers
