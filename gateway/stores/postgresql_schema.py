"""The tables of the PostgreSQL store and their versions. Part of `postgresql`; knows no audits as values.

They lie in the first schema of the connection's search_path. An audit is one row, so that none can ever be seen mixed or be left
in halves; the server keeps large values apart and copies no body when a status changes. Names that clients and providers give
are bytes: a server's texts hold neither every character nor every encoding. Bodies are compressed before they are sent.
"""

from __future__ import annotations

from gateway.errors import StoreUnavailable
from gateway.stores.postgresql_link import Connection

MIGRATION_LOCK = 0x736C756963656761  # one at a time in a database
MIGRATION_S = 120.0  # so long a start may wait for it

# One entry a version, each a list of statements; what has been released is never edited.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sluicegate_audits (
            tenant bytea NOT NULL,
            chat_id bytea NOT NULL,
            generation_id bytea NOT NULL,
            owner bigint NOT NULL,
            revision bigint NOT NULL,
            status text NOT NULL,
            model bytea NOT NULL,
            created_at double precision NOT NULL,
            began_at double precision NOT NULL,
            auxiliary boolean NOT NULL,
            finished_at double precision,
            error_code text,
            finish_reason bytea,
            usage bytea,
            document bytea NOT NULL,
            packed boolean NOT NULL DEFAULT false,
            body bytea,
            PRIMARY KEY (tenant, chat_id)
        ) WITH (fillfactor = 70)""",
        """ALTER TABLE sluicegate_audits
            ALTER usage SET STORAGE EXTERNAL, ALTER document SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL""",
        "CREATE INDEX sluicegate_audits_listed ON sluicegate_audits (tenant, created_at, chat_id) WHERE NOT auxiliary",
        """CREATE TABLE sluicegate_lessons (
            provider bytea NOT NULL,
            model bytea NOT NULL,
            account bytea NOT NULL,
            context_limit bigint,
            sixteenths integer NOT NULL,
            expires_at double precision NOT NULL,
            PRIMARY KEY (provider, model, account)
        )""",
    ),
)


async def migrate(connection: Connection) -> None:
    """Brings the tables to the newest version, once, whoever comes first. Raises StoreUnavailable for a newer one."""
    if await _version(connection) == len(MIGRATIONS):
        return
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = 0")
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        await connection.execute("CREATE TABLE IF NOT EXISTS sluicegate_schema (version integer NOT NULL)")
        version = await _version(connection)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await connection.execute(statement)
        await connection.execute("DELETE FROM sluicegate_schema")
        await connection.execute("INSERT INTO sluicegate_schema VALUES ($1)", len(MIGRATIONS))


async def _version(connection: Connection) -> int:
    known = len(MIGRATIONS)
    if await connection.fetchval("SELECT to_regclass('sluicegate_schema')") is None:
        return 0
    version = int(await connection.fetchval("SELECT max(version) FROM sluicegate_schema") or 0)
    if version > known:
        raise StoreUnavailable(
            f"The audit store was written by a newer gateway (schema {version}, known is {known}): update, or use another schema."
        )
    return version
