"""Alembic's environment: run migrations in the transaction that `migrate.upgrade_schema` has begun.

Migrations are in versions/, numbered. A released one is never edited: there are databases that have run it. So it writes out its
tables and types, and imports nothing of this project.
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    transactional_ddl=True,  # SQLite's too: its transactions are begun by the store
)
with context.begin_transaction():
    context.run_migrations()
