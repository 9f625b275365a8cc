-- Who may do what. A role's rights on tables say what it is: one that may read `record` is a reader, one that may
-- insert into `collection` is a writer, one that may insert into `worker` is a worker. Its rights on functions follow
-- from that, and are given again with the functions. Records, jobs and vectors are written only through functions that
-- run as the owner.

-- Name the functions that each kind of role may call; all others are called by these, or by the owner.
CREATE FUNCTION entry_points() RETURNS TABLE (kind text, function oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT e.kind, p.oid FROM (VALUES
    ('reader', ARRAY['by_words', 'doubt', 'has_instant', 'instant_in', 'misplaced', 'name_of', 'nearest',
      'noted_rows', 'oldest', 'place', 'space_number', 'stored', 'take_budget', 'trouble_of', 'truncated',
      'unread']),
    ('writer', ARRAY['arm_unchanged', 'cancel', 'delete', 'delete_json', 'delete_records', 'fold', 'give_up_texts',
      'learn', 'name_records', 'note_change', 'note_text', 'put', 'put_json',
      'reindex_words', 'remove_dropped',
      'set_language', 'try_again']),
    ('worker', ARRAY['changed_tables', 'complete_and_lease', 'count_words', 'gather', 'hold_records', 'known', 'lease',
      'note_missing', 'purge_jobs', 'purge_rest', 'put_in_place', 'renew', 'store_records', 'write_transitions'])
  ) e (kind, names) JOIN pg_proc p ON p.pronamespace = 'embedq'::regnamespace AND p.proname = ANY (e.names)
$$;

-- Say who is a reader, a writer or a worker by their rights on tables.
CREATE FUNCTION grantees() RETURNS TABLE (role oid, kind text)
LANGUAGE sql STABLE SET search_path = pg_catalog, embedq, pg_temp AS $$
  SELECT DISTINCT a.grantee, e.kind FROM (VALUES
    ('reader', 'record', 'SELECT'), ('writer', 'collection', 'INSERT'), ('worker', 'worker', 'INSERT')
  ) e (kind, relation, privilege)
  JOIN pg_class c ON c.relnamespace = 'embedq'::regnamespace AND c.relname = e.relation
  LEFT JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'name'  -- a writer inserts by column
  CROSS JOIN LATERAL aclexplode(c.relacl || t.attacl) a
  WHERE a.privilege_type = e.privilege AND a.grantee NOT IN (0, c.relowner)
$$;

-- Give a role the rights on tables that make it a reader, a writer or a worker; each has those of the ones before it.
-- The right to one column of `record` is for locking its rows.
CREATE FUNCTION grant_tables(p_role oid, p_kind text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA embedq TO %1$s; GRANT SELECT ON ALL TABLES IN SCHEMA embedq TO %1$s;
    REVOKE ALL ON embedq.copying FROM %1$s', p_role::regrole);
  IF p_kind IN ('writer', 'worker') THEN
    EXECUTE format('GRANT INSERT (name, space, revision, text_from, priority, retry),
        UPDATE (name, space, revision, text_from, priority, retry, recompose) ON embedq.collection TO %1$s;
      GRANT INSERT (provider, model, asked) ON embedq.space TO %1$s;
      GRANT UPDATE (updated_at) ON embedq.record TO %1$s', p_role::regrole);
  END IF;
  IF p_kind = 'worker' THEN
    EXECUTE format('GRANT INSERT, UPDATE ON embedq.worker TO %1$s;
      GRANT UPDATE (held_since, held_until) ON embedq.space TO %1$s;
      GRANT UPDATE (paused, resumes) ON embedq.control TO %1$s', p_role::regrole);
  END IF;
END
$$;

-- Take from roles what pages of older versions said they need, the right to write to any table: who may write to
-- `attachment` can read any table of the owner's. They stay able to do what they did, as workers; who could only insert
-- whole rows into `collection` was a writer.
CREATE FUNCTION limit_old_grants() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT a.grantee, c.relowner, CASE
      WHEN bool_or(c.relname <> 'collection') OR (a.grantee, 'worker') IN (SELECT g.role, g.kind FROM grantees() g)
      THEN 'worker' ELSE 'writer' END AS kind FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
    WHERE c.oid IN ('embedq.record'::regclass, 'embedq.attachment'::regclass, 'embedq.collection'::regclass)
      AND a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') AND a.grantee NOT IN (0, c.relowner)
    GROUP BY a.grantee, c.relowner
  LOOP
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA embedq FROM %1$s CASCADE;
      REVOKE ALL ON ALL SEQUENCES IN SCHEMA embedq FROM %1$s CASCADE;
      ALTER DEFAULT PRIVILEGES FOR ROLE %2$s IN SCHEMA embedq REVOKE ALL ON TABLES FROM %1$s;
      ALTER DEFAULT PRIVILEGES FOR ROLE %2$s IN SCHEMA embedq REVOKE ALL ON SEQUENCES FROM %1$s',
      r.grantee::regrole, r.relowner::regrole);
    PERFORM grant_tables(r.grantee, coalesce(
      substring(r.grantee::regrole::text FROM '^embedq_(reader|writer|worker)$'), r.kind));
  END LOOP;
END
$$;

-- Take everything from those who were not named: PUBLIC may call every new function unless that is revoked. What
-- belongs to an extension stays as it is.
CREATE FUNCTION close_to_public() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  said text;
BEGIN
  FOR said IN
    SELECT 'REVOKE ALL ON SCHEMA embedq FROM PUBLIC' FROM pg_namespace n
      WHERE n.nspname = 'embedq' AND EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0)
    UNION ALL  -- a role that may make functions here could have them called in the place of ours
    SELECT format('REVOKE CREATE ON SCHEMA embedq FROM %s CASCADE', a.grantee::regrole)
      FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
      WHERE n.nspname = 'embedq' AND a.privilege_type = 'CREATE' AND a.grantee NOT IN (0, n.nspowner)
        AND a.grantee <> (SELECT c.relowner FROM pg_class c WHERE c.oid = 'embedq.migration'::regclass)
    UNION ALL
    SELECT format('REVOKE ALL ON %s %s FROM PUBLIC', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
      c.oid::regclass) FROM pg_class c WHERE c.relnamespace = 'embedq'::regnamespace AND c.relkind IN ('r', 'S')
      AND pg_has_role(c.relowner, 'USAGE')
      AND EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = 0)
    UNION ALL
    SELECT format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', p.oid::regprocedure) FROM pg_proc p
      WHERE p.pronamespace = 'embedq'::regnamespace AND pg_has_role(p.proowner, 'USAGE')
        AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
        AND NOT EXISTS (SELECT FROM pg_depend d
          WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
  LOOP
    EXECUTE said;
  END LOOP;
END
$$;

-- Take our trigger functions off tables that are not attached: while everybody could call them, a stranger could have
-- put one on a table whose types then run as the owner. The attached table's own triggers go with it, and are made
-- again when it is next looked at, as for any other change of its shape.
CREATE FUNCTION drop_strange_triggers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  a record;
BEGIN
  FOR a IN SELECT DISTINCT n.id, f.oid AS function FROM attachment n
    JOIN pg_proc f ON f.pronamespace = 'embedq'::regnamespace AND f.proname = format('note_%s', n.id)
    JOIN pg_trigger t ON t.tgfoid = f.oid JOIN pg_class c ON c.oid = t.tgrelid
    WHERE t.tgrelid <> n.source AND NOT pg_has_role(c.relowner, 'USAGE')
      AND NOT EXISTS (SELECT FROM pg_partition_tree(n.source) p WHERE p.relid = t.tgrelid)
  LOOP
    EXECUTE format('DROP FUNCTION %s CASCADE', a.function::regprocedure);
    UPDATE attachment SET shape = NULL WHERE id = a.id;
  END LOOP;
END
$$;

-- Bring all rights in order: after functions were replaced, and after a table, a function or a role was made. What is
-- in order is not touched, since others may be reading it.
CREATE FUNCTION issue_rights() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, embedq, pg_temp AS $$
DECLARE
  said text;
BEGIN
  PERFORM close_to_public(), limit_old_grants(), drop_strange_triggers();
  FOR said IN
    SELECT format('ALTER FUNCTION %s SECURITY DEFINER', e.function::regprocedure) FROM entry_points() e
      JOIN pg_proc p ON p.oid = e.function AND NOT p.prosecdef AND p.proconfig IS NOT NULL
    UNION ALL
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %s', e.function::regprocedure, g.role::regrole)
      FROM entry_points() e JOIN grantees() g ON g.kind = e.kind JOIN pg_proc p ON p.oid = e.function
      WHERE NOT EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = g.role)
    UNION ALL
    SELECT format('GRANT SELECT ON %s TO %s', c.oid::regclass, g.role::regrole)
      FROM grantees() g JOIN pg_class c ON c.relnamespace = 'embedq'::regnamespace AND c.relkind = 'r'
        AND c.relname <> 'copying' AND pg_has_role(c.relowner, 'USAGE')
      WHERE g.kind = 'reader' AND NOT EXISTS (
        SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = g.role AND a.privilege_type = 'SELECT')
  LOOP
    EXECUTE said;
  END LOOP;
END
$$;
