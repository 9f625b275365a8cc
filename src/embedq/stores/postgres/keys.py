"""How jobs are named, and how a place in the line is written."""

from embedq.model import JobId

SPACE_BITS = 12
LANES = 4
LANE_BITS = 48
SOLO_LANES = LANES << LANE_BITS  # behind the four lanes: jobs that took workers down, leased alone


def job_id(key: int, serial: int) -> JobId:
    """Name a job. Its key comes back when a purged job is made anew; its serial never does."""
    return JobId(f"{key}.{serial}")


def new_job_id(record: int, space: int) -> JobId:
    """Name the first job of a new record: its serial is the record's own number."""
    return JobId(f"{record << SPACE_BITS | space}.{record}")


def key_of(job: JobId) -> int:
    """Read the key of a job that a store named."""
    return int(job.partition(".")[0])


def parse(job: JobId) -> tuple[int, int] | None:
    """Read key and serial of what somebody says is a job; None if it cannot be one."""
    key, _, serial = job.partition(".")
    if not (key.isdecimal() and serial.isdecimal()):
        return None
    numbers = int(key), int(serial)
    return None if max(numbers) >= 1 << 63 else numbers
