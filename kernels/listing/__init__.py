"""Programs for people to read (`plan --source`): `listing` writes them."""
