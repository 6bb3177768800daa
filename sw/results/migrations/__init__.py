"""Changes of the database's tables, for Alembic: env.py, and a file per version in versions/."""
