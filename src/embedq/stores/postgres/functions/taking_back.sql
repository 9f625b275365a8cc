-- Take open jobs, whose rows are locked, from wherever they are, and cancel them. Those that are leased note whose they
-- were and set a fence, so that the lease holds them no longer. The lease itself is not touched: this may be an
-- application's transaction, and a transaction that renews or settles the other jobs of that lease must not wait for
-- it.
CREATE FUNCTION withdraw(p_jobs bigint[], p_reason text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF cardinality(unqueue(p_jobs)) < cardinality(p_jobs) THEN
    UPDATE job j SET token = h.token, nonce = h.nonce, leased_arms = h.arms
    FROM (SELECT l.token, l.nonce, u.job, u.arms FROM lease l CROSS JOIN unnest(l.jobs, l.arms) u (job, arms)
      WHERE l.jobs && p_jobs) h
    WHERE j.id = ANY (p_jobs) AND j.id = h.job AND h.arms >= j.fence;
  END IF;
  WITH gone AS (
    UPDATE job j SET status = 4, completed_at = p_now, cancelled_at = p_now, reason = p_reason, retrying = false,
      arms = j.arms + 1, fence = j.arms + 1, hash = x.hash
    FROM record x WHERE j.id = ANY (p_jobs) AND x.rid = j.id >> 12 RETURNING j.collection)
  INSERT INTO tally (collection, open, cancelled) SELECT collection, -count(*), count(*) FROM gone GROUP BY 1;
END
$$;

-- Extend leases that are still there, expired or not; answer with the jobs that are still under each.
CREATE FUNCTION renew(p_tokens bigint[], p_nonces bigint[], p_span interval, p_now timestamptz)
RETURNS TABLE (nonce bigint, jobs bigint[])
LANGUAGE sql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
  WITH extended AS (
    UPDATE lease l SET until = coalesce(p_now, clock_timestamp()) + p_span, renewed = coalesce(p_now, clock_timestamp())
    FROM unnest(p_tokens, p_nonces) u (token, nonce)
    WHERE l.token = u.token AND l.nonce = u.nonce AND NOT l.idle RETURNING l.nonce, l.jobs, l.arms)
  SELECT e.nonce, array_agg(j.id) FROM extended e CROSS JOIN unnest(e.jobs, e.arms) u (job, arms)
  JOIN job j ON j.id = u.job AND j.status = 0 AND j.fence <= u.arms GROUP BY e.nonce
$$;

-- Cancel an open job by a person's hand: its text is given up on until a person changes their mind.
-- Whose it is, is read after it is locked: a record that changes hands has its job locked too.
CREATE FUNCTION cancel(p_job bigint, p_serial bigint, p_now timestamptz, p_tenant text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  j job;
BEGIN
  SELECT * INTO j FROM job WHERE id = p_job AND serial = p_serial FOR NO KEY UPDATE;
  IF FOUND AND j.status = 0 AND (p_tenant IS NULL OR EXISTS (
    SELECT FROM record x WHERE x.rid = p_job >> 12 AND x.tenant = p_tenant)) THEN
    PERFORM withdraw(ARRAY[p_job], 'cancelled', moment_of(p_now));
    INSERT INTO given_up (collection, record, hash, reason)
    SELECT x.collection, x.rid, x.hash, 'cancelled' FROM record x WHERE x.rid = p_job >> 12
    ON CONFLICT (collection, record) DO UPDATE SET hash = excluded.hash, reason = excluded.reason;
  END IF;
END
$$;
