"""Pages of the documentation are notebooks that run from data to picture."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.unoptimised
DOCS = Path(__file__).parents[1] / "docs"


def loaded() -> Any:
    """The module that `make docs` runs, which is in no package."""
    spec = importlib.util.spec_from_file_location("docs_notebooks", DOCS / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTEBOOKS = loaded()


@pytest.mark.parametrize("name", NOTEBOOKS.PAGES)
def test_each_is_valid_and_has_all_code_of_its_page(name: str):
    made = NOTEBOOKS.notebook(name)
    nbformat.validate(made)
    assert nbformat.writes(made) == nbformat.writes(NOTEBOOKS.notebook(name))
    codes = [cell.source for cell in made.cells if cell.cell_type == "code"]
    page = (DOCS / f"{name}.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)\n```$", page, re.DOTALL | re.MULTILINE)
    assert codes[-len(blocks) :] == blocks
    assert (len(codes) > len(blocks)) == ("sample.zarr" in page)
    if name != "float32":
        assert re.search(r"\.plot\(|imshow\(", codes[-1])


@pytest.mark.parametrize("name", NOTEBOOKS.PAGES)
def test_what_a_page_prints_is_the_output_of_its_cell_and_links_lead_to_notebooks(name: str):
    made = NOTEBOOKS.notebook(name)
    told = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    links = set(re.findall(r"\]\(([^)]+)\)", told))
    assert {one for one in links if not one.startswith("https:")} <= {
        f"{page}.ipynb" for page in NOTEBOOKS.PAGES
    }
    page = (DOCS / f"{name}.md").read_text()
    for cell in made.cells:
        for output in cell.get("outputs", ()):
            assert output.text
            for line in output.text.splitlines():
                assert f"\n    {line}\n" in page


def test_pages_by_question_have_them():
    linked = set(re.findall(r"\((\S+)\.md\)", (DOCS / "by-question.md").read_text()))
    assert {*NOTEBOOKS.PAGES} <= linked


@pytest.mark.short
@pytest.mark.parametrize("name", ["images", "not-here"])
def test_notebooks_run_from_data_to_a_picture(name: str, tmp_path: Path):
    made = NOTEBOOKS.notebook(name)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # those of the page
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(made, timeout=120, kernel_name="python3", resources=resources).execute()
    shown = [output.get("data", {}) for output in made.cells[-1].outputs]
    assert any(one.get("image/png", "").startswith("iVBOR") for one in shown)
    want = [c.outputs for c in NOTEBOOKS.notebook(name).cells if c.get("outputs")]
    printed = [
        one.text for cell in made.cells for one in cell.get("outputs", ()) if "stdout" in str(one)
    ]
    assert printed == [one.text for (one,) in want]
