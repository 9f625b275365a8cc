-- Tables of applications that are collections. Their triggers only note which keys to look at again; `gather` reads
-- those rows as they are then and puts them. Each attachment N has functions of its own, written when it is made, with
-- its table's and columns' names in them: note_N (the trigger), is_key_N, read_N, page_N, and for a target column
-- place_N.

-- Wake idle workers for what a trigger noted. A trigger asks for it once in 50 ms of its session, which remembers that,
-- and of all sessions one is heard. A transaction that notifies cannot be prepared, and fails while no session reads
-- what was notified before: where that may happen, workers look by themselves.
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

-- Put a table's unique indexes into words: the files they are in, since one that was damaged, as by another version of
-- its collation, finds rows again when it is made again; and the names that our functions call their collations and
-- operators by.
CREATE FUNCTION unique_indexes(p_table oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT string_agg(format('%s %s %s', i.indexrelid, (
      SELECT string_agg(pg_relation_filenode(p.oid)::text, ' ' ORDER BY p.oid)
      FROM (SELECT i.indexrelid UNION SELECT relid FROM pg_partition_tree(i.indexrelid)) p (oid)), (
      SELECT string_agg(format('%I.%I', n.nspname, u.name), ' ' ORDER BY u.oid) FROM (
        SELECT l.oid, l.collnamespace, l.collname FROM pg_collation l WHERE l.oid = ANY (i.indcollation)
        UNION ALL SELECT o.oid, o.opcnamespace, o.opcname FROM pg_opclass o WHERE o.oid = ANY (i.indclass)
      ) u (oid, home, name) JOIN pg_namespace n ON n.oid = u.home)), ',' ORDER BY i.indexrelid)
  FROM pg_index i WHERE i.indrelid = p_table AND i.indisunique AND i.indisvalid
$$;

-- Put what matters of a table into words: its name, the columns in use, its unique indexes and heirs, its parts, the
-- files they are in, since when they are parts, and since when we watch them. A table of another shape is looked at
-- again: one that was written into a new file may have other texts, and so may a part that was taken out and put back,
-- or one whose triggers slept for a while. The number of the transaction that wrote a row of the catalogs tells of it,
-- since it never comes back. An unlogged table is emptied when its server crashes, which resets the server's
-- statistics, too.
CREATE FUNCTION shape(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce((
    SELECT concat_ws(E'\n', format('%I.%I', n.nspname, c.relname), (
      SELECT string_agg(concat(s.nspname, s.nspacl), ',' ORDER BY s.nspname) FROM pg_namespace s
      WHERE a.priority IS NOT NULL AND s.nspname IN ('public', n.nspname)), c.relispartition,
      row_security_active(c.oid), (
      SELECT string_agg(format('%I %s %s %s %s %s %s %s', t.attname, t.attnum, t.atttypid, format_type(t.atttypid, -1),
          t.atttypmod, t.attcollation, t.attnotnull,
          (SELECT array_agg(e.enumlabel ORDER BY e.oid) FROM pg_enum e WHERE e.enumtypid = t.atttypid)),
        ',' ORDER BY t.attname)
      FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attnum > 0
        AND t.attname = ANY (a.keys || a.texts || a.attributes || a.target || a.tenant)), unique_indexes(c.oid), (
      SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind = 'r'), (
      SELECT string_agg(format('%s %s %s %s', p.oid, pg_relation_filenode(p.oid), (
          SELECT string_agg(i.xmin::text, ' ') FROM pg_inherits i WHERE i.inhrelid = p.oid), (
          SELECT string_agg(format('%s %s', t.tgenabled, t.xmin), ' ' ORDER BY t.tgname) FROM pg_trigger t
          WHERE t.tgrelid = p.oid AND t.tgfoid = to_regproc(format('embedq.note_%s', a.id)))), ',' ORDER BY p.oid)
      FROM (SELECT c.oid UNION SELECT relid FROM pg_partition_tree(c.oid)) p),
      CASE c.relpersistence WHEN 'u'
        THEN concat(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time()) END)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = a.source), 'gone')
$$;

-- Say whether a table is still called what its functions call it: they might meet another one of that name.
CREATE FUNCTION is_named(a attachment) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(to_regclass(a.made_for) = a.source, false)
$$;

-- Copy stored vectors into the rows of an attached table; answer with the records whose rows must wait, and with what
-- the table has against it. Its deferred triggers speak here, where they can be heard, and not at the commit.
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
  DELETE FROM unplaced u WHERE u.ctid = ANY (ARRAY(  -- it is tried again: they have changed
    SELECT o.ctid FROM unplaced o WHERE o.given_up AND o.record = ANY (p_records) FOR UPDATE SKIP LOCKED));
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

-- Put into words what may refuse a vector: the table's triggers, their functions, and its checks.
CREATE FUNCTION obstacles_of(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT concat_ws(E'\n', (
    SELECT string_agg(concat_ws(' ', t.oid, t.xmin, f.xmin), ',' ORDER BY t.oid)
    FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
    WHERE NOT t.tgisinternal
      AND t.tgrelid IN (SELECT (a).source::oid UNION SELECT relid FROM pg_partition_tree((a).source))), (
    SELECT string_agg(concat_ws(' ', k.oid, k.xmin), ',' ORDER BY k.oid) FROM pg_constraint k
    WHERE k.contype = 'c'
      AND k.conrelid IN (SELECT (a).source::oid UNION SELECT relid FROM pg_partition_tree((a).source))))
$$;

-- Try everything again at once that was refused, if what may have refused it is another by now.
CREATE FUNCTION forgive(a attachment) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  there text;
BEGIN
  IF NOT EXISTS (SELECT FROM unplaced u WHERE u.attachment = a.id AND u.alone) THEN
    RETURN;
  END IF;
  there := obstacles_of(a);
  IF a.obstacles IS DISTINCT FROM there THEN
    UPDATE attachment n SET obstacles = there WHERE n.id = a.id;
    UPDATE unplaced u SET due = '-infinity', tries = 0, given_up = false
      WHERE u.attachment = a.id AND u.alone AND (u.tries > 0 OR u.given_up);
  END IF;
END
$$;

-- Copy some vectors alone that the table refused before; answer with how many it took. One that is refused waits twice
-- as long each time, and after ten times it is given up on.
CREATE FUNCTION copy_refused(a attachment) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  t record;
  one record;
  done int := 0;
  begun timestamptz := clock_timestamp();
BEGIN
  PERFORM forgive(a);
  FOR one IN
    SELECT o.ctid AS place, o.record, o.tries FROM unplaced o
    WHERE o.attachment = a.id AND o.alone AND NOT o.given_up AND o.due <= begun ORDER BY o.due LIMIT 20
  LOOP
    SELECT * INTO t FROM try_to_place(a, ARRAY[one.record]);
    IF t.rest IS NULL THEN
      DELETE FROM unplaced u WHERE u.ctid = one.place;
      done := done + 1;
    ELSIF t.said IS NULL THEN  -- another transaction holds the row
      UPDATE unplaced u SET due = clock_timestamp() + interval '1 second' WHERE u.ctid = one.place;
    ELSE
      UPDATE unplaced u SET tries = tries + 1, reason = t.said, given_up = one.tries >= 9,
        due = clock_timestamp() + interval '1 second' * least(2 ^ one.tries, 300) WHERE u.ctid = one.place;
    END IF;
    EXIT WHEN clock_timestamp() > begun + interval '1 second';
  END LOOP;
  RETURN done;
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
BEGIN
  SELECT array_agg(z.ctid), array_agg(z.record) INTO places, rids FROM (
    SELECT o.ctid, o.record FROM unplaced o WHERE o.attachment = a.id AND NOT o.alone
    ORDER BY o.tries LIMIT least(p_limit, 100)) z;
  IF rids IS NOT NULL THEN
    SELECT * INTO t FROM try_to_place(a, rids);
    DELETE FROM unplaced u WHERE u.ctid = ANY (places) AND coalesce(u.record <> ALL (t.rest), true);
    GET DIAGNOSTICS done = ROW_COUNT;
    IF t.said IS NOT NULL THEN
      UPDATE unplaced u SET tries = 0, alone = true, reason = t.said
      WHERE u.ctid = ANY (places) AND u.record = ANY (t.rest);
    ELSIF cardinality(rids) = least(p_limit, 100) THEN
      UPDATE unplaced u SET tries = tries + 1 WHERE u.ctid = ANY (places) AND u.record = ANY (t.rest);
    END IF;
  END IF;
  RETURN done + copy_refused(a);
END
$$;

-- Say why the changes of an attached table are not followed, and it is not known whether its records are its rows;
-- NULL: they are.
CREATE FUNCTION unfollowed(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT CASE WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = (a).source)
    THEN format('the table %s is gone: `embedq detach %s`', (a).made_for,
      (SELECT c.name FROM collection c WHERE c.id = (a).collection))
    ELSE coalesce((a).unfit, (a).problem, (
      SELECT format('%s has no column %L', (a).made_for, u.name)
      FROM unnest((a).keys || (a).texts || (a).attributes || (a).target || (a).tenant) u (name)
      WHERE u.name IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_attribute t WHERE t.attrelid = (a).source AND t.attname = u.name
          AND NOT t.attisdropped) LIMIT 1)) END
$$;

-- Say what stands in the way of an attachment; NULL: nothing.
CREATE FUNCTION trouble_of(a attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT coalesce(unfollowed(a), (
    SELECT format('vectors cannot be copied into %s of %s: %s%s', quote_ident((a).target), (a).made_for, u.reason, (
        SELECT format('; given up on %s of its rows, until they or the table''s triggers and checks change', count(*))
        FROM unplaced g WHERE g.attachment = (a).id AND g.given_up HAVING count(*) > 0))
    FROM unplaced u WHERE u.attachment = (a).id AND u.alone ORDER BY u.tries DESC LIMIT 1))
$$;

-- List the tables that have another shape than when they were last looked at, for those who may only tell of it.
CREATE FUNCTION changed_tables() RETURNS TABLE (home text, made_for text, owner text)
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT c.name, a.made_for, pg_get_userbyid(t.relowner) FROM attachment a JOIN collection c ON c.id = a.collection
  JOIN pg_class t ON t.oid = 'embedq.attachment'::regclass WHERE a.shape IS DISTINCT FROM shape(a)
$$;
