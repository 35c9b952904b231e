"""Alembic's environment: run migrations in the transaction that `migrate.upgrade_schema` has begun.

Migrations are in versions/, numbered. A released migration is never edited, because databases have run it. So it defines its own
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
