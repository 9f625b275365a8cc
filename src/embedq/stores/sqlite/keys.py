"""What is written as one number: a job's place in the queue, and what a record was when it was leased."""

from embedq.policy.jobs import SOLO_CRASHES

LANE = 1 << 48
SOLO_LANES = 4 * LANE  # behind the four lanes: jobs that took workers down, leased alone

PURGED = b""  # record.hash once its text was removed for good; vector.hash once its vector is gone

# The key of job row `j` in `ready`: its lane, then its age.
KEY = f"((3 - j.priority + 4 * (j.crashes >= {SOLO_CRASHES})) << 48) + j.queued_at"

# What a lease reads with the text of record row `x`, and a settle compares: the mark that the last purge left, else the
# record's own number. An id and a name may be another record's by then, if its collection was dropped.
MARK = "coalesce(x.erased, -x.rid)"
