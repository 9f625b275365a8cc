"""Ways by which a role could become more than it is: each is refused."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.roles import Roles
from tests.stores.postgres.tables import attach, catch_up, mend, records

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration

ATTACKERS = ("worker", "writer", "reader", "stranger")
WRITES = (
    "UPDATE embedq.attachment SET priority = 'public.steal(r)'",
    """INSERT INTO embedq.attachment (collection, source, keys, texts, attributes, made_for, rows, unnoted)
    VALUES (9, 'pg_authid', '{oid}', '{rolpassword}', '{}', 'pg_authid', 0, 0)""",
    "DELETE FROM embedq.attachment",
    "INSERT INTO embedq.noted (attachment, keys) VALUES (1, '{1}')",
    "INSERT INTO embedq.unplaced VALUES (1, 1)",
    "UPDATE embedq.record SET text = 'forged'",
    "DELETE FROM embedq.record",
    "UPDATE embedq.job SET status = 2",
    "DELETE FROM embedq.lease",
    "INSERT INTO embedq.ready VALUES (1, 1, 1, 1, 1, 1)",
    "UPDATE embedq.vector_1 SET hash = ''",
    "UPDATE embedq.functions SET version = '99.0.0'",
    "INSERT INTO embedq.migration VALUES (99)",
    "TRUNCATE embedq.record",
    "SELECT setval('embedq.lease_token', 1)",
    "SELECT nextval('embedq.unnoted')",
    "DROP TABLE embedq.record",
    "ALTER TABLE embedq.record ADD CHECK (public.steal(text))",
    "CREATE TRIGGER t BEFORE INSERT ON embedq.record FOR EACH ROW EXECUTE FUNCTION public.steal_row()",
    "CREATE FUNCTION embedq.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT 1'",
    "CREATE TABLE embedq.mine ()",
    "CREATE OR REPLACE FUNCTION embedq.fold() RETURNS void LANGUAGE sql AS 'SELECT 1'",
    "ALTER FUNCTION embedq.fold() SET search_path = public",
    "ALTER DEFAULT PRIVILEGES FOR ROLE {ada} GRANT ALL ON TABLES TO PUBLIC",
    "SET ROLE {ada}",
    "GRANT {ada} TO CURRENT_USER",
    "GRANT EXECUTE ON FUNCTION embedq.read_1(text[], boolean) TO PUBLIC",
)
INNER = (
    "SELECT embedq.read_1('{1}', false)",
    "SELECT embedq.page_1('', 10)",
    "SELECT embedq.place_1('{1}')",
    "SELECT embedq.is_key_1('1')",
    "SELECT embedq.add_1('{1}', '{1}', ARRAY[''::bytea], '{f}', '{NULL}')",
    "SELECT embedq.store_1('{1}', '{1}', ARRAY[''::bytea], '{f}', '{NULL}')",
    "SELECT embedq.ring()",
    "SELECT embedq.issue_rights()",
    "SELECT embedq.grant_tables((SELECT oid FROM pg_roles WHERE rolname = current_user), 'worker')",
    "SELECT embedq.copy_out(1, '{1}')",
    "SELECT embedq.take_over(a, '{1}', false, false, 1) FROM embedq.attachment a",
    "SELECT embedq.shape(a) FROM embedq.attachment a",
    "SELECT embedq.withdraw('{1}', 'cancelled', now())",
)
A_WORKERS = (
    "SELECT * FROM embedq.gather(0, 100, 1)",
    "SELECT * FROM embedq.renew('{1}', '{1}', '1 h', NULL)",
    "SELECT * FROM embedq.known(1, '{}')",
    "SELECT * FROM embedq.write_transitions('[]', '[]', '{}', false, NULL)",
    "UPDATE embedq.control SET paused = true",
    "INSERT INTO embedq.worker (name, started_at, seen_at) VALUES ('w', now(), now())",
)
A_WRITERS = (
    "SELECT embedq.put_json('{}')",
    "SELECT embedq.delete_json('{}')",
    "SELECT embedq.delete_records(1, 1, '{1}', true, NULL, NULL)",
    "SELECT embedq.cancel(1, 1, NULL, NULL)",
    "SELECT * FROM embedq.arm_unchanged(1, 1, '{1}', '{1}', '{1}', '{1}', '{t}', true, NULL)",
    "SELECT embedq.learn(1, 8)",
    "INSERT INTO embedq.collection (name, space, priority, retry, created_at) VALUES ('x', 1, 1, '', now())",
    "UPDATE embedq.collection SET name = 'x'",
)
# Every way that a function, a cast or a trigger of the attacker's could be made to run as somebody else.
BAIT = """
CREATE TABLE public.called (by name);
GRANT ALL ON public.called TO PUBLIC;
CREATE FUNCTION public.steal(anyelement) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN true; END $$;
CREATE FUNCTION public.steal_row() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN new; END $$;
CREATE TYPE public.bait AS (a int);
CREATE FUNCTION public.as_text(public.bait) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN 'x'; END $$;
CREATE CAST (public.bait AS text) WITH FUNCTION public.as_text(public.bait) AS IMPLICIT;
CREATE TABLE public.mine (id public.bait, body public.bait);
"""
TRIGGER = """
CREATE TRIGGER embedq AFTER INSERT ON public.mine REFERENCING NEW TABLE AS embedq_new FOR EACH STATEMENT
EXECUTE FUNCTION embedq.note_1()
"""
PUT = """
SELECT embedq.put_json(json_build_object('name', 'notes', 'collection', c.id, 'revision', c.revision, 'records',
  json_build_array(json_build_object('place', 1, 'id', 'a', 'text', 'weaving', 'hash',
    encode(sha256('weaving'), 'hex'), 'priority', 1)))::text)
FROM embedq.collection c WHERE c.name = 'notes'
"""


@pytest_asyncio.fixture
async def attacked(roles: Roles) -> AsyncIterator[Roles]:
    """Attach a private table of the owner's, with a row in it, beside a plain collection."""
    store, ada = await PostgresStore.open(roles.owner), await asyncpg.connect(roles.owner)
    await ada.execute("CREATE SCHEMA private; CREATE TABLE private.docs (id int PRIMARY KEY, body text, e vector(8))")
    await ada.execute("INSERT INTO private.docs VALUES (1, 'a secret')")
    await attach(store, table="private.docs")
    await catch_up(store)
    await store.declare(declaration(), now=NOON)
    await store.close()
    await ada.close()
    yield roles


async def refused(db: asyncpg.Connection, roles: Roles, statements: tuple[str, ...]) -> list[str]:
    """Try all of them; answer with those that were not refused for want of a right."""
    done = []
    for statement in statements:
        said = statement.replace("{ada}", roles.names["ada"])
        try:
            await db.execute(said)
        except asyncpg.InsufficientPrivilegeError:
            continue
        except asyncpg.PostgresError as error:
            done.append(f"{said}: {error!r}")
        else:
            done.append(said)
    return done


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_nobody_but_the_owner_writes_or_makes(attacked: Roles, attacker: str) -> None:
    """Tables, sequences, triggers, functions, grants and the owner's own role are out of reach."""
    db = await asyncpg.connect(getattr(attacked, attacker))
    await db.execute(BAIT)
    assert await refused(db, attacked, WRITES) == []
    await db.close()


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_inner_functions_are_the_owners(attacked: Roles, attacker: str) -> None:
    """What reads an attached table, stores vectors or gives rights cannot be called from outside."""
    db = await asyncpg.connect(getattr(attacked, attacker))
    assert await refused(db, attacked, INNER) == []
    await db.close()


async def test_each_role_is_less_than_the_next(attacked: Roles) -> None:
    """A writer does no worker's work, a reader writes nothing, and a stranger reads nothing."""
    writer, reader, stranger = [
        await asyncpg.connect(url) for url in (attacked.writer, attacked.reader, attacked.stranger)
    ]
    assert await refused(writer, attacked, A_WORKERS) == []
    assert await refused(reader, attacked, A_WORKERS + A_WRITERS) == []
    reads = ("SELECT * FROM embedq.record", "SELECT * FROM private.docs", "SELECT embedq.unread(1)")
    assert await refused(stranger, attacked, A_WORKERS + A_WRITERS + reads) == []
    assert await refused(reader, attacked, ("SELECT * FROM private.docs",)) == []
    for db in (writer, reader, stranger):
        await db.close()


@pytest.mark.parametrize("attacker", ATTACKERS)
async def test_a_trigger_of_ours_stands_on_no_table_of_theirs(attacked: Roles, attacker: str) -> None:
    """It runs as the owner, and would cast with the table's own types."""
    db = await asyncpg.connect(getattr(attacked, attacker))
    await db.execute(BAIT)

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(TRIGGER)

    await db.execute("INSERT INTO public.mine VALUES (ROW(1), ROW(1))")
    assert await db.fetch("SELECT * FROM public.called") == []
    await db.close()


async def test_a_temporary_table_shadows_none_of_ours(attacked: Roles) -> None:
    """A put of a session that has tables of the same names goes to the real ones."""
    db = await asyncpg.connect(attacked.writer)
    await db.execute(BAIT)
    for table in ("record", "collection", "job", "ready", "missing", "tally", "pg_class", "pg_proc"):
        await db.execute(f"CREATE TEMP TABLE {table} (id public.bait)")
        await db.execute(f"CREATE TRIGGER t BEFORE INSERT ON pg_temp.{table} FOR EACH ROW EXECUTE FUNCTION steal_row()")
    await db.execute("SET search_path = pg_temp, public")
    await db.fetchval(PUT)

    assert await db.fetchval("SELECT pg_catalog.count(*) FROM embedq.record WHERE text = 'weaving'") == 1
    assert await db.fetch("SELECT * FROM public.called") == []
    await db.close()


async def test_nothing_of_ours_is_for_everybody(attacked: Roles) -> None:
    """No schema, table, sequence or function, those of spaces and attached tables included."""
    db = await asyncpg.connect(attacked.admin)
    found = await db.fetch("""
        SELECT p.oid::regprocedure::text FROM pg_proc p
        CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE p.pronamespace = 'embedq'::regnamespace AND a.grantee = 0
        UNION ALL SELECT c.oid::regclass::text FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.relnamespace = 'embedq'::regnamespace AND a.grantee = 0
        UNION ALL SELECT n.nspname FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
        WHERE n.nspname = 'embedq' AND a.grantee = 0
    """)
    assert found == []
    await db.close()


async def test_what_others_may_call_has_names_of_its_own(attacked: Roles) -> None:
    """A function that somebody else may call has a search path, with temporary tables last, or was read when made."""
    db = await asyncpg.connect(attacked.admin)
    found = await db.fetch("""
        SELECT p.oid::regprocedure::text AS name, p.proconfig, p.prosqlbody IS NOT NULL AS fixed, p.prosecdef
        FROM pg_proc p WHERE p.pronamespace = 'embedq'::regnamespace AND (p.prosecdef OR EXISTS (
          SELECT FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner))
    """)
    paths = ("search_path=pg_catalog, embedq, pg_temp", "search_path=pg_catalog, pg_temp")
    loose = [row["name"] for row in found if not row["fixed"] and not set(paths) & set(row["proconfig"] or ())]
    assert found
    assert loose == []
    assert [row["name"] for row in found if row["fixed"] and row["prosecdef"]] == []
    await db.close()


async def test_a_trigger_that_stands_already_goes_with_the_upgrade(attacked: Roles) -> None:
    """Versions before let a stranger put it there; the attached table is followed as before."""
    db, ada = await asyncpg.connect(attacked.stranger), await asyncpg.connect(attacked.owner)
    await db.execute(BAIT)
    await ada.execute("GRANT USAGE ON SCHEMA embedq TO PUBLIC; GRANT EXECUTE ON FUNCTION embedq.note_1 TO PUBLIC")
    await db.execute(TRIGGER)
    await ada.execute("UPDATE embedq.functions SET digest = 'of an older version'")

    store = await PostgresStore.open(attacked.owner)
    await db.execute("INSERT INTO public.mine VALUES (ROW(1), ROW(1))")
    assert await db.fetch("SELECT * FROM public.called") == []
    await ada.execute("UPDATE private.docs SET body = 'another secret'")
    await mend(store)
    await catch_up(store)
    assert await records(store) == {"1": "another secret"}
    await store.close()
    await db.close()
    await ada.close()


SPOILT = (
    "INSERT INTO embedq.collection (name, space, priority, retry) VALUES ('x', 1, 1, '{}')",
    'UPDATE embedq.collection SET retry = \'{"base": "soon"}\'',
    "UPDATE embedq.collection SET priority = 9",
    "UPDATE embedq.collection SET text_from = '7'",
    """UPDATE embedq.collection SET text_from = '["a", 1]'""",
    """UPDATE embedq.collection SET text_from = '["a", ["b"]]'""",
    "UPDATE embedq.collection SET text_from = '[{}]', recompose = ''",
    "UPDATE embedq.collection SET recompose = repeat('x', 513)",
    *(
        "UPDATE embedq.collection SET retry = (retry::jsonb || '" + change + "')::text"  # noqa: S608 a test's own
        for change in (
            '{"base": 1e300}',
            '{"base": -1}',
            '{"cap": 1e15}',
            '{"cap": 1e400}',
            '{"factor": 1e301}',
            '{"jitter": 9}',
            '{"max_attempts": 0}',
            '{"max_attempts": 2.5}',
            '{"max_attempts": 1e9}',
        )
    ),
    """INSERT INTO embedq.collection (name, space, priority, retry) VALUES ('x', 1, 1,
      '{"base": 1, "cap": 1e15, "factor": 2, "jitter": 0, "max_attempts": 3}')""",
    "INSERT INTO embedq.space (provider, model, asked) VALUES ('fake', 'x', -5)",
)
NOT_A_WRITERS = (
    """INSERT INTO embedq.collection (name, space, priority, retry, created_at)
    SELECT 'x', space, 1, retry, '20000-01-01' FROM embedq.collection LIMIT 1""",
    """INSERT INTO embedq.collection (id, name, space, priority, retry) OVERRIDING SYSTEM VALUE
    SELECT 7, 'x', space, 1, retry FROM embedq.collection LIMIT 1""",
    "UPDATE embedq.collection SET created_at = '20000-01-01'",
    "UPDATE embedq.control SET epoch = 9223372036854775807",
    "UPDATE embedq.control SET epoch = epoch + 1",
)
OUT_OF_TIME = (
    PUT.replace("'records',", "'now', '20000-01-01', 'records',"),
    "SELECT embedq.delete_records(c.id, c.space, '{a}', false, '20000-01-01', NULL) FROM embedq.collection c",
    "SELECT embedq.cancel(j.id, j.serial, '20000-01-01', NULL) FROM embedq.job j",
    "SELECT embedq.cancel(j.id, j.serial, '1969-12-31', NULL) FROM embedq.job j",
    "SELECT embedq.cancel(j.id, j.serial, 'infinity', NULL) FROM embedq.job j",
    "SELECT embedq.remove_dropped(1, '20000-01-01')",
    """SELECT embedq.arm_unchanged(x.collection, 1, ARRAY[x.rid], ARRAY[x.xmin::text::bigint],
      ARRAY[j.xmin::text::bigint], '{1}', '{t}', true, '20000-01-01')
    FROM embedq.record x JOIN embedq.job j ON j.id >> 12 = x.rid""",
)
DEEP = """'attributes', (repeat('{"a":', 101) || '1' || repeat('}', 101))::jsonb, 'hash'"""


@pytest.mark.parametrize("spoil", SPOILT, ids=map(str, range(len(SPOILT))))
async def test_a_row_that_no_process_could_read_is_refused(roles: Roles, spoil: str) -> None:
    """A writer may declare, but one bad row would stop everybody."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.writer)

    with pytest.raises(asyncpg.CheckViolationError):
        await db.execute(spoil)
    await db.close()


async def test_a_writer_writes_no_number_no_age_and_no_epoch(attacked: Roles) -> None:
    """Of a collection it says what is declared; a change is only counted."""
    db = await asyncpg.connect(attacked.writer)
    assert await refused(db, attacked, NOT_A_WRITERS) == []
    before = await db.fetchval("SELECT epoch FROM embedq.control")
    await db.execute("SELECT embedq.note_change()")
    assert await db.fetchval("SELECT epoch FROM embedq.control") == before + 1
    await db.close()


async def test_who_could_insert_whole_rows_becomes_a_writer_and_no_worker(roles: Roles) -> None:
    """A role of one's own, with the grants that writers had: the upgrade takes what was too much, and gives no more."""
    ada, own = await asyncpg.connect(roles.owner), roles.names["stranger"]
    await ada.execute(f"GRANT USAGE ON SCHEMA embedq TO {own}; GRANT SELECT ON ALL TABLES IN SCHEMA embedq TO {own}")
    await ada.execute(f"GRANT INSERT ON embedq.collection TO {own}; GRANT UPDATE (epoch) ON embedq.control TO {own}")
    await ada.execute("UPDATE embedq.functions SET digest = 'of an older version'")
    await ada.close()
    await (await PostgresStore.open(roles.owner)).close()

    store = await PostgresStore.open(roles.stranger)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.stranger)
    assert await refused(db, roles, A_WORKERS + NOT_A_WRITERS) == []
    await db.close()


async def test_a_moment_out_of_time_is_refused(roles: Roles) -> None:
    """A job of the year 20000 could be read by nobody, nor could the list that it is in."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.writer)
    await db.execute(PUT)

    for statement in OUT_OF_TIME:
        with pytest.raises(asyncpg.DatetimeFieldOverflowError):
            await db.execute(statement)
    await db.close()


async def test_attributes_too_deep_for_a_reader_are_refused(roles: Roles) -> None:
    """One record less deep than that is taken."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.writer)

    with pytest.raises(asyncpg.DataError, match="deeper than 100"):
        await db.execute(PUT.replace("'hash'", DEEP))
    await db.execute(PUT.replace("'hash'", DEEP.replace("101", "100")))
    await db.close()


async def test_attributes_that_are_no_object_are_refused(roles: Roles) -> None:
    """Whoever reads them takes them for names and values."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.writer)

    with pytest.raises(asyncpg.DataError, match="attributes are no object"):
        await db.execute(PUT.replace("'hash'", "'attributes', '[1]'::jsonb, 'hash'"))
    await db.close()


async def test_a_number_of_any_length_ends_no_list(roles: Roles) -> None:
    """A writer's own SQL can store it; it is read as text, and the records beside it as they are."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    db, digits = await asyncpg.connect(roles.writer), "9" * 5000

    await db.execute(PUT.replace("'hash'", f"""'attributes', '{{"n": {digits}, "m": 7}}'::jsonb, 'hash'"""))

    [found] = (await store.records("notes")).items
    assert found.attributes == {"n": digits, "m": 7}
    await db.close()
    await store.close()


async def test_a_hash_that_is_another_texts_is_refused(roles: Roles) -> None:
    """Vectors are reused by it: a writer could give everybody a wrong one."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.writer)

    with pytest.raises(asyncpg.DataError, match="not the SHA-256 of its text"):
        await db.fetchval(PUT.replace("sha256('weaving')", "sha256('baking')"))
    await db.close()


async def test_records_that_are_rows_are_written_by_their_table_alone(roles: Roles) -> None:
    """Also not by a writer's own SQL: nothing would bring the record back."""
    db = await asyncpg.connect(roles.owner)
    await db.execute("CREATE SCHEMA shop; CREATE TABLE shop.docs (id int PRIMARY KEY, body text)")
    await db.close()
    store = await PostgresStore.open(roles.owner)
    await attach(store, "shop.docs", into=None)
    await store.close()
    db = await asyncpg.connect(roles.writer)

    for statement in (
        "SELECT embedq.delete_records(c.id, c.space, '{1}', true, NULL, NULL) FROM embedq.collection c",
        PUT.replace("WHERE c.name = 'notes'", "").replace("'name', 'notes'", "'name', c.name"),
    ):
        with pytest.raises(asyncpg.PostgresError, match=r"are the rows of shop\.docs"):
            await db.execute(statement)
    await db.close()


EVIL = """
CREATE FUNCTION public.evil(public.color, public.color) RETURNS boolean LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO public.called VALUES (current_user); RETURN true; END $$
"""


async def test_an_operator_of_a_strangers_is_not_used_for_keys(roles: Roles) -> None:
    """A key whose type lies in a schema where others may create: it is compared by its index's own operator."""
    owner, stranger = await asyncpg.connect(roles.owner), await asyncpg.connect(roles.stranger)
    await owner.execute("CREATE TYPE public.color AS ENUM ('red', 'blue')")
    await owner.execute("CREATE TABLE public.thing (id public.color, n int, body text, PRIMARY KEY (id, n))")
    await owner.execute("INSERT INTO public.thing VALUES ('red', 1, 'loom'), ('blue', 1, 'mill'), ('blue', 2, 'reed')")
    await stranger.execute("CREATE TABLE public.called (by name); GRANT ALL ON public.called TO PUBLIC")
    await stranger.execute(EVIL)
    for sign in ("=", ">", "<>"):
        await stranger.execute(f"CREATE OPERATOR public.{sign} (LEFTARG = color, RIGHTARG = color, FUNCTION = evil)")
    store = await PostgresStore.open(roles.owner)
    await attach(store, "public.thing", key=("id", "n"), into=None)
    await store.learn((await store.spaces())[0].id, DIMENSIONS)
    await catch_up(store)
    await owner.execute("UPDATE public.thing SET body = 'heddle' WHERE body = 'loom'")
    await catch_up(store)

    assert sorted((await records(store)).values()) == ["heddle", "mill", "reed"]
    assert await stranger.fetch("SELECT * FROM public.called") == []
    await store.close()
    await owner.close()
    await stranger.close()
