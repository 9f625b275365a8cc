-- What functions answer with or are given, where it is more than a value or rows of a table. Files are installed in the
-- order of their names, this one first: the others name these types.

-- What a put answers: a problem and nothing written, or per record its place in the request, its job and how it stands
-- (0 pending, 1 embedded, 2 failed), and the ids of those whose texts are others than before, or that are live again.
-- For records that are all new there are only their numbers, in the request's order.
CREATE TYPE receipts AS (
  problem text, fresh bigint[], space int, places int[], jobs bigint[], serials bigint[], statuses int[], moved text[]
);

-- A lease as a worker gets it: of the space that was asked for in this place. `taken` are its jobs in the order of the
-- line, with their collections (one, if all are of one). Of what is rare there are only those jobs it is said of: a
-- serial that is not the record's number, forced, attempts, crashes. Then the records, with `rids` unless they are just
-- those of the jobs in their order; those that were ever removed permanently, and the marks of that; those that lack a
-- current vector. Or no jobs, and how long to wait.
CREATE TYPE leased AS (
  token bigint, until timestamptz, space int, asked int, taken bigint[], collections int[], renumbered bigint[],
  serials bigint[], forced bigint[], tried bigint[], attempts smallint[], crashed bigint[], crashes smallint[],
  rids bigint[], records text[], texts text[], hashes bytea[], erased bigint[], erasures bigint[], lacking bigint[],
  again interval, solo boolean, from_line boolean, mark_keys bigint[], mark_jobs bigint[], scan_seconds float8,
  epoch bigint
);

-- What becomes of a job, by the rules (`policy.jobs`): under which lease, and the state of the job (and of the lease,
-- where it matters) that was spoken of, as the transactions that last wrote them. `late`: it is in the line or waits,
-- and must be taken from there. A status, or NULL if it only leaves the lease; its hash, if that changes; a span if it
-- waits.
CREATE TYPE transition AS (
  job bigint, version bigint, token bigint, nonce bigint, lease_version bigint, late boolean, status smallint, arms int,
  crashes smallint, failures smallint, refused boolean, fault text, reason text, hash bytea, after float8
);

-- A vector that was paid for under a lease: to be stored with its record, or `kept` for reuse. Which record it was made
-- for, and the mark of its last permanent removal, were read with the text.
CREATE TYPE paid AS (
  job bigint, token bigint, record text, erasure bigint, hash bytea, truncated boolean, kept boolean, embedding vector
);

-- A stretch of a line: the places behind one, below another.
CREATE TYPE stretch AS (low_key bigint, low_job bigint, high bigint);

-- What was taken from the line of a space: jobs in its order, `rising` if that is the order of their keys, with what
-- stands there of each; all kinds together; the sum of their ages. `given` are the jobs in the order of their keys, as
-- a lease has them, and their arms then with them. And the marks of the space.
CREATE TYPE taken AS (
  space int, jobs bigint[], rids bigint[], arms int[], homes int[], forced bigint[], kinds smallint, queued bigint,
  rising boolean, given bigint[], from_line boolean, mark_keys bigint[], mark_jobs bigint[]
);
