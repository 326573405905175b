"""What mkdocs does not do by itself: examples of commands keep their lines."""

from __future__ import annotations

import re


def on_page_content(html: str, **_: object) -> str:
    """Set examples as code."""
    found = r"<p>Examples?:\n(.*?)</p>"
    return re.sub(found, r"<p>Examples:</p><pre><code>\1</code></pre>", html, flags=re.DOTALL)
