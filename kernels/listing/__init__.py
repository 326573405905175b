"""Programs for people to read (`plan --source`): `program_listing` writes them."""
