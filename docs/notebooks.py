"""Pages as notebooks: `make docs` turns those in `PAGES` into notebooks, which their pages link."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode, v4

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PAGES = (
    "accelerate", "anomalies", "check", "float32", "groups", "images", "not-here", "plots",
    "quantiles", "selections", "weights",
)  # fmt: skip
"""Pages of by-question.md whose code runs as it stands there, from the first block to the last."""
_SAMPLE = "sample.zarr"
_NEEDED = "It needs `pip install 'chunkfold[cpu,xarray,plot]' ipykernel` (or an OpenCL device)."
_CODE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_OUTPUT = re.compile(r"\n*((?:    (?!\$ ).*\n)+)")
_IMAGE = re.compile(r"^!\[.*\]\(.*\)\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)")


def notebook(name: str, folder: Path = Path(__file__).parent) -> NotebookNode:
    """Return a page as a notebook, which makes the sample first if the page reads it.

    The output that the page shows below a block becomes the output of its cell.
    """
    text = (folder / f"{name}.md").read_text()
    _, sample, _ = _CODE.split((folder / "sample.md").read_text())
    first, *rest = _CODE.split(_IMAGE.sub("", text))
    cells = [_told(f"{first.rstrip()}\n\n{_NEEDED}")]
    if _SAMPLE in text:
        cells += [_told("The sample of this page:"), v4.new_code_cell(sample.rstrip())]
    for code, behind in zip(rest[::2], rest[1::2], strict=True):
        cell, printed = v4.new_code_cell(code.rstrip()), _OUTPUT.match(behind)
        if printed:
            lines = re.sub("^    ", "", printed[1], flags=re.MULTILINE)
            cell.outputs = [v4.new_output("stream", name="stdout", text=lines)]
        cells.append(cell)
        if told := behind[printed.end() if printed else 0 :].strip("\n"):
            cells.append(_told(told))
    for number, cell in enumerate(cells):  # fixed ones, so that builds are identical
        cell.id = f"{name}-{number}"
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made: NotebookNode = v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    return made


def _told(text: str) -> NotebookNode:
    """Return a cell of text: links to other notebooks stay, those to other pages become text."""

    def linked(found: re.Match[str]) -> str:
        words, page = found[1], found[2].removesuffix(".md")
        return f"[{words}]({page}.ipynb)" if page in PAGES else words

    return v4.new_markdown_cell(_LINK.sub(linked, text))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks to the site."""
    from mkdocs.structure.files import File

    for name in PAGES:
        made = nbformat.writes(notebook(name))
        files.append(File.generated(config, f"docs/{name}.ipynb", content=made))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Link the notebook below the title of its page."""
    name = Path(page.file.src_uri).stem
    if page.file.src_uri != f"docs/{name}.md" or name not in PAGES:
        return markdown
    title, behind = markdown.split("\n", 1)
    return f"{title}\n\n[This page as a notebook]({name}.ipynb)\n{behind}"
