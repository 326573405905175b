"""The report of a run: one HTML page that needs nothing but itself, made from its manifest.

page.py     from manifest and results to the page
words.py    results in words
figures.py  results and timelines, drawn as SVG
again.py    the page of a manifest that was written
page.html   the template
"""
