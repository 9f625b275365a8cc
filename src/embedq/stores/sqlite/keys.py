"""Values encoded as one number: a job's position in the queue, and a record's identity when it was leased."""

from embedq.policy.jobs import SOLO_CRASHES

LANE = 1 << 48
SOLO_LANES = 4 * LANE  # after the four lanes: jobs that crashed workers, leased alone

PURGED = b""  # record.hash once its text was removed permanently; vector.hash once its vector is removed

# The key of job row `j` in `ready`: its lane, then its age.
KEY = f"((3 - j.priority + 4 * (j.crashes >= {SOLO_CRASHES})) << 48) + j.queued_at"

# What a lease reads with the text of record row `x`, and a settle compares: the mark set by the last purge, else the
# record's own number. An id and a name may belong to another record by then, if its collection was dropped.
MARK = "coalesce(x.erased, -x.rid)"
