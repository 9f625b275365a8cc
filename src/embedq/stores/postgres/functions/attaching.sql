-- Tables of applications that are collections. Their triggers only note which keys to look at again; `gather` reads those
-- rows as they are then and puts them. Each attachment N has functions of its own, written when it is made, with its
-- table's and columns' names in them: note_N (the trigger), is_key_N, read_N, page_N, and for a target column place_N.

-- Wake idle workers for what a trigger noted. A trigger asks for it once in 50 ms of its session, which remembers that, and
-- of all sessions one is heard. A transaction that notifies cannot be prepared, and fails while nobody reads what was told
-- before: where that may happen, workers look by themselves.
CREATE FUNCTION ring() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  moment bigint := (date_part('epoch', clock_timestamp()) * 1000)::bigint;
BEGIN
  PERFORM set_config('embedq.rung', moment::text, false);
  IF abs(moment - (SELECT last_value FROM rung)) >= 50 AND current_setting('max_prepared_transactions') = '0'
    AND pg_notification_queue_usage() < 0.5 THEN
    PERFORM setval('rung', moment), pg_notify('embedq', '');
  END IF;
END
$$;

-- Put what matters of a table into words: its name, the columns in use, its unique indexes and heirs, its parts, the files
-- they are in, and which of them we watch. A table of another shape is looked at again: one that was written into a new
-- file may have other texts.
CREATE FUNCTION shape(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce((
    SELECT concat_ws(E'\n', format('%I.%I', n.nspname, c.relname), c.relispartition, row_security_active(c.oid), (
      SELECT string_agg(format('%I %s %s %s %s %s %s', t.attname, t.attnum, t.atttypid, t.atttypmod, t.attcollation,
          t.attnotnull, (SELECT array_agg(e.enumlabel ORDER BY e.oid) FROM pg_enum e WHERE e.enumtypid = t.atttypid)),
        ',' ORDER BY t.attname)
      FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attnum > 0
        AND t.attname = ANY (a.keys || a.texts || a.attributes || a.target || a.tenant)), (
      SELECT string_agg(i.indexrelid::text, ',' ORDER BY i.indexrelid) FROM pg_index i
      WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid), (
      SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind = 'r'), (
      SELECT string_agg(format('%s %s %s', p.oid, pg_relation_filenode(p.oid), (
          SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = p.oid AND t.tgenabled <> 'D'
            AND t.tgfoid = to_regproc(format('embedq.note_%s', a.id)))), ',' ORDER BY p.oid)
      FROM (SELECT c.oid UNION SELECT relid FROM pg_partition_tree(c.oid)) p))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = a.source), 'gone')
$$;

-- Say whether a table is still called what its functions call it: they might meet another one of that name.
CREATE FUNCTION is_named(a attachment) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(to_regclass(a.made_for) = a.source, false)
$$;

-- Copy stored vectors into the rows of an attached table; answer with the records whose rows must wait, and with what the
-- table has against it. Its deferred triggers speak here, where they can be heard, and not at the commit.
CREATE FUNCTION try_to_place(a attachment, p_records bigint[], OUT rest bigint[], OUT said text)
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT is_named(a) THEN
    rest := p_records;
    RETURN;
  END IF;
  SET CONSTRAINTS ALL IMMEDIATE;
  EXECUTE format('SELECT place_%s($1)', a.id) INTO rest USING p_records;
EXCEPTION WHEN lock_not_available OR transaction_rollback THEN
  rest := p_records;
WHEN OTHERS OR query_canceled THEN  -- it took longer than a statement may
  rest := p_records;
  said := SQLERRM;
END
$$;

-- Copy vectors that were just stored. A row that an application holds is left for later, and so is everything if the
-- table is locked or refuses, and the rest if the table is slow, whose triggers may take their time: a settle neither
-- waits nor fails because of it.
CREATE FUNCTION copy_out(p_collection int, p_records bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp SET lock_timeout = '5ms' AS $$
DECLARE
  a attachment;
  t record;
  begun timestamptz := clock_timestamp();
  done int := 0;
  step int := 32;
BEGIN
  SELECT * INTO a FROM attachment WHERE collection = p_collection AND target IS NOT NULL;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  WHILE done < cardinality(p_records) AND clock_timestamp() < begun + interval '1 second' LOOP
    SELECT * INTO t FROM try_to_place(a, p_records[done + 1 : done + step]);
    INSERT INTO unplaced (attachment, record, alone, reason)
      SELECT a.id, u.rid, t.said IS NOT NULL, t.said FROM unnest(t.rest) u (rid);
    done := done + step;
    step := step * 2;
  END LOOP;
  INSERT INTO unplaced (attachment, record) SELECT a.id, u.rid FROM unnest(p_records[done + 1 :]) u (rid);
END
$$;

-- Copy some vectors that could not be copied before; answer with how many could now.
CREATE FUNCTION copy_rest(a attachment, p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  places tid[];
  rids bigint[];
  t record;
  done int := 0;
  one record;
  begun timestamptz := clock_timestamp();
BEGIN
  SELECT array_agg(z.ctid), array_agg(z.record) INTO places, rids FROM (
    SELECT o.ctid, o.record FROM unplaced o WHERE o.attachment = a.id AND NOT o.alone
    ORDER BY o.tries LIMIT least(p_limit, 100)) z;
  IF rids IS NOT NULL THEN
    SELECT * INTO t FROM try_to_place(a, rids);
    DELETE FROM unplaced u WHERE u.ctid = ANY (places) AND coalesce(u.record <> ALL (t.rest), true);
    GET DIAGNOSTICS done = ROW_COUNT;
    IF t.said IS NOT NULL OR cardinality(rids) = least(p_limit, 100) THEN
      UPDATE unplaced u SET tries = tries + 1, alone = t.said IS NOT NULL, reason = t.said
      WHERE u.ctid = ANY (places) AND u.record = ANY (t.rest);
    END IF;
  END IF;
  FOR one IN
    SELECT o.ctid AS place, o.record FROM unplaced o WHERE o.attachment = a.id AND o.alone
    ORDER BY o.tries LIMIT 20
  LOOP
    SELECT * INTO t FROM try_to_place(a, ARRAY[one.record]);
    IF t.rest IS NULL THEN
      DELETE FROM unplaced u WHERE u.ctid = one.place;
      done := done + 1;
    ELSE
      UPDATE unplaced u SET tries = tries + 1, reason = coalesce(t.said, reason) WHERE u.ctid = one.place;
    END IF;
    EXIT WHEN clock_timestamp() > begun + interval '1 second';
  END LOOP;
  RETURN done;
END
$$;

-- Say what stands in the way of an attachment; NULL: nothing.
CREATE FUNCTION trouble_of(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce(a.unfit, a.problem, (
    SELECT format('vectors cannot be copied into %s of %s: %s', quote_ident(a.target), a.made_for, u.reason)
    FROM unplaced u WHERE u.attachment = a.id AND u.alone ORDER BY u.tries DESC LIMIT 1))
$$;

-- List the tables that have another shape than when they were last looked at, for those who may only tell of it.
CREATE FUNCTION changed_tables() RETURNS TABLE (home text, made_for text, owner text)
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT c.name, a.made_for, pg_get_userbyid(t.relowner) FROM attachment a JOIN collection c ON c.id = a.collection
  JOIN pg_class t ON t.oid = 'embedq.attachment'::regclass WHERE a.shape IS DISTINCT FROM shape(a)
$$;
