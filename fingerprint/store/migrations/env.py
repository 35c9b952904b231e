"""What Alembic runs to bring a desk up to date; `desk_migrations.upgrade` gives it the connection, with its transaction begun.

The steps are in versions/, numbered. A step that landed is never edited: desks exist that have taken it.
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes.get("metadata"),
    transactional_ddl=True,  # SQLite's too: the desk begins its transactions itself
)
with context.begin_transaction():
    context.run_migrations()
