"""How a job's place in the queue is written as one number."""

from embedq.policy.jobs import SOLO_CRASHES

LANE = 1 << 48
SOLO_LANES = 4 * LANE  # behind the four lanes: jobs that took workers down, leased alone

PURGED = b""  # record.hash once its text was removed for good; vector.hash once its vector is gone

# The key of job row `j` in `ready`: its lane, then its age.
KEY = f"((3 - j.priority + 4 * (j.crashes >= {SOLO_CRASHES})) << 48) + j.queued_at"
