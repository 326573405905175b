"""Options that say of which elements groups are made."""

from __future__ import annotations

import click

LABELS = (
    click.option(
        "--by",
        multiple=True,
        metavar="NAME|FILE.npy|ZARR",
        help="Labels along some axes: elements of the same label are a group, with results of its "
        "own. A coordinate's name (lat), or a part of its dates (time.month), or else where an "
        "array is. What is negative or NaN is in no group. May be repeated: all combinations are "
        "groups, and each --by has an axis.",
    ),
    click.option(
        "--by-axis",
        "by_axes",
        multiple=True,
        help="Axis that labels are along, by number or name; may be repeated, or several joined by "
        "commas; of several --by once for each, '' for none.  [default: by names, or else by "
        "extents]",
    ),
    click.option(
        "--bins",
        multiple=True,
        metavar="EDGES",
        help="Group labels by intervals, '-90,-60,0,60,90' or LOW:HIGH:BINS; the lower end of each "
        "belongs to it. Of several --by once for each, '' for none. Without --by: group elements "
        "by their own values.",
    ),
    click.option(
        "--groups",
        multiple=True,
        metavar="LABELS",
        help="Labels of the groups, in this order, 'DJF,MAM,JJA,SON'; others are in none. Of "
        "several --by once for each.  [default: those that there are]",
    ),
    click.option(
        "--resample",
        multiple=True,
        metavar="AXIS=SPAN",
        help="Group an axis of dates by spans that follow each other, 'time=1MS', called as pandas "
        "and xarray do.",
    ),
)
"""What groups are made of, in any command that reduces."""
