"""Recipes of images and manifests of Kubernetes, by their real validators."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from chunkfold.workflows.job.loading import load_job
from tests.processes import BIN, finished

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).parents[2] / "deploy"
CRD = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/daskjob.yaml"


def test_the_recipe_of_the_image_is_sound():
    done = finished([BIN / "hadolint", DEPLOY / "docker" / "Dockerfile"], 60)
    assert done.returncode == 0, done.stdout


def test_the_linter_finds_what_is_wrong(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && apt-get install gcc\n")
    assert finished([BIN / "hadolint", tmp_path / "Dockerfile"], 60).returncode


def test_the_cron_job_is_one(tmp_path: Path):
    command = [BIN / "kubernetes-validate", "--strict"]
    text = (DEPLOY / "kubernetes" / "cronjob.yaml").read_text()
    done = finished([*command, DEPLOY / "kubernetes" / "cronjob.yaml"], 60)
    assert done.returncode == 0, done.stdout
    (tmp_path / "misspelt.yaml").write_text(text.replace("backoffLimit", "backofLimit"))
    assert finished([*command, tmp_path / "misspelt.yaml"], 60).returncode


def test_its_job_is_one(tmp_path: Path):
    config, cron = yaml.safe_load_all((DEPLOY / "kubernetes" / "cronjob.yaml").read_text())
    (name,) = config["data"]
    (tmp_path / name).write_text(config["data"][name])
    assert load_job(tmp_path / name).output.path == "/results/climatology.zarr"
    (container,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][1] == f"/jobs/{name}"


def strict(schema: Any) -> Any:
    """Refuse keys that a schema does not know, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in made and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def test_the_dask_job_is_one(tmp_path: Path):
    """By the schema that dask-kubernetes installs in a cluster."""
    fetch = ["download", "--quiet", "--no-deps", "--dest", tmp_path, "dask-kubernetes"]
    done = finished([sys.executable, "-m", "pip", *fetch], 120)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (version,) = yaml.safe_load(archive.read(CRD))["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"metadata": {}, "apiVersion": {}, "kind": {}}
    manifest = yaml.safe_load((DEPLOY / "kubernetes" / "daskjob.yaml").read_text())
    jsonschema.validate(manifest, schema)
    misspelt = json.loads(json.dumps(manifest).replace('"replicas"', '"replica"'))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(misspelt, schema)


def test_the_dask_job_s_words_are_chunkfold_s(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://chunkfold-nightly:8786")
    manifest = yaml.safe_load((DEPLOY / "kubernetes" / "daskjob.yaml").read_text())
    (container,) = manifest["spec"]["job"]["spec"]["containers"]
    command, _, option, override = container["args"]
    assert (command, option) == ("run", "--set")
    job = load_job(DEPLOY / "nightly.toml", [override])
    assert (job.cluster.address, job.cluster.workers) == ("tcp://chunkfold-nightly:8786", 4)
    assert job.cluster.workers == manifest["spec"]["cluster"]["spec"]["worker"]["replicas"]
