"""Check options, open sources and plan a run; and the values that tasks carry (Work, Folding).

Touches no device and no cluster.
"""
