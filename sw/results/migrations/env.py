"""How Alembic carries out the migrations: `sw.results.migrate` has made the connection."""

from alembic import context

from sw.results.schema import META, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=META,
    version_table=VERSION_TABLE,
    # SQLite's tables are part of a transaction like PostgreSQL's; Alembic takes them not to be.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
