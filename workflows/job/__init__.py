"""Job files: what is to be reduced where, within which limits, and where the results go.

schema.py    what a job file says
loading.py   from TOML to that, errors with their lines
sources.py   patterns, groups and arrays, and what outputs call them
clusters.py  where it runs
lock.py      one run of a job at a time
running.py   from job to results and manifest
"""
