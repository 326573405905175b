"""The report of a run: one HTML page that needs nothing but itself, made from its manifest.

page.py     from manifest and results to the page
svg.py      histograms, timelines and rates, as SVG
page.html   the template
"""
