"""Pages in a headless browser: measured where text is cut, overlaps or shrinks."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
THEMES = {"light": (), "dark": ("--blink-settings=preferredColorScheme=0",)}
WIDTHS = (390, 800, 1400)
_MEASURE = """
function measured(frame) {
  const doc = frame.contentDocument, width = frame.clientWidth, faults = [], boxes = [];
  for (const one of doc.querySelectorAll("details")) one.open = true;
  if (doc.scrollingElement.scrollWidth > width)
    faults.push("the page is " + doc.scrollingElement.scrollWidth + " px wide");
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const holder = node.parentElement, text = node.data.trim();
    if (!text || !holder.checkVisibility()) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width < 0.5) continue;
      if (box.left < -0.5 || box.right > width + 0.5) faults.push("beyond the page: " + text);
      for (let above = holder; above !== doc.body; above = above.parentElement) {
        const style = frame.contentWindow.getComputedStyle(above);
        const held = above.getBoundingClientRect();
        const cuts = style.overflowX !== "visible" || above.tagName === "svg";
        if (cuts && (box.left < held.left - 1 || box.right > held.right + 1 ||
                     box.top < held.top - 1 || box.bottom > held.bottom + 1))
          faults.push("cut by " + above.tagName + ": " + text);
      }
      boxes.push([box, text, node]);
    }
    if (holder.namespaceURI.endsWith("svg")) {
      const size = parseFloat(frame.contentWindow.getComputedStyle(holder).fontSize);
      const matrix = holder.getScreenCTM(), shown = size * Math.hypot(matrix.a, matrix.b);
      if (shown < 10.5) faults.push(shown.toFixed(1) + " px high: " + text);
    }
    for (const match of node.data.matchAll(/(?<![^\\s(])[-+]?\\d[\\d.,e:T+-]*\\d(?![^\\s).;,])/g)) {
      if (holder.closest("pre")) break;
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) faults.push("broken: " + match[0]);
    }
  }
  for (let n = 0; n < boxes.length; n++)
    for (let m = n + 1; m < boxes.length; m++) {
      const [a, first, one] = boxes[n], [b, second, other] = boxes[m];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (one !== other && wide > 1.5 && tall > 4)
        faults.push("overlap: " + first + " | " + second);
    }
  const texts = doc.querySelectorAll("svg text").length;
  return {faults: [...new Set(faults)], height: doc.scrollingElement.scrollHeight, texts};
}
"""


def chromium(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the browser with a profile of its own."""
    return subprocess.run(
        ["chromium", *QUIET, f"--user-data-dir={folder}", *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def measured(page: Path, theme: str) -> dict[int, dict[str, Any]]:
    """Return what is wrong with the layout of a page, at each width; and how high it is."""
    # Its policy forbids scripts, also those of whoever measures.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", page.read_text())
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{html.escape(text)}">'
        "</iframe>"
        for width in WIDTHS
    )
    script = (
        f"{_MEASURE} addEventListener('load', () => {{ const found = {{}};"
        "for (const one of document.querySelectorAll('iframe'))"
        "found[one.clientWidth] = measured(one);"
        "document.body.textContent = JSON.stringify(found); });"
    )
    wrapper = page.with_name(f"{page.stem}-frames.html")
    wrapper.write_text(
        f"<!doctype html><meta charset=utf-8><body>{frames}<script>{script}</script>"
    )
    done = chromium(
        "--window-size=1500,1000", *THEMES[theme], "--dump-dom", wrapper.as_uri(),
        folder=page.parent / f"measured-{theme}",
    )  # fmt: skip
    body = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    assert body, done.stderr[-2000:]
    return {int(width): one for width, one in json.loads(html.unescape(body[1])).items()}


def pictured(page: Path, theme: str, width: int, height: int) -> tuple[Path, list[str]]:
    """Return a screenshot of a page, and what the browser's console says."""
    out = page.with_name(f"{page.stem}-{theme}-{width}.png")
    done = chromium(
        f"--window-size={width},{height}", *THEMES[theme], f"--screenshot={out}", page.as_uri(),
        folder=page.parent / f"pictured-{theme}",
    )  # fmt: skip
    assert out.exists(), done.stderr[-2000:]
    return out, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
