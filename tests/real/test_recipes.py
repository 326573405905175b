"""Recipes of images and manifests of Kubernetes, by their real validators."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from chunkfold.workflows.job import kubernetes
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.toml_tables import Kubernetes
from tests.processes import BIN, finished

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).parents[2] / "deploy"
CRDS = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds"


def test_the_recipe_of_the_image_is_sound():
    done = finished([BIN / "hadolint", DEPLOY / "docker" / "Dockerfile"], 60)
    assert done.returncode == 0, done.stdout


def test_the_linter_finds_what_is_wrong(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /x && apt-get install gcc\n")
    assert finished([BIN / "hadolint", tmp_path / "Dockerfile"], 60).returncode


@pytest.mark.parametrize(("name", "key"), [("cronjob", "backoffLimit"), ("role", "verbs")])
def test_manifests_are_sound(tmp_path: Path, name: str, key: str):
    command = [BIN / "kubernetes-validate", "--strict"]
    path = DEPLOY / "kubernetes" / f"{name}.yaml"
    done = finished([*command, path], 60)
    assert done.returncode == 0, done.stdout
    (tmp_path / "misspelt.yaml").write_text(path.read_text().replace(key, key[:-1]))
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


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The package whose operator makes Dask clusters in Kubernetes."""
    folder = tmp_path_factory.mktemp("operator")
    fetch = ["download", "--quiet", "--no-deps", "--dest", folder, "dask-kubernetes"]
    done = finished([sys.executable, "-m", "pip", *fetch], 120)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        yield archive


def schema_of(operator: zipfile.ZipFile, kind: str) -> Any:
    """What a cluster takes for one, with that operator in it."""
    (version,) = yaml.safe_load(operator.read(f"{CRDS}/{kind.lower()}.yaml"))["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"metadata": {}, "apiVersion": {}, "kind": {}}
    return schema


def misspelt(manifest: Any) -> Any:
    return json.loads(json.dumps(manifest).replace('"replicas"', '"replica"'))


def test_the_dask_job_is_one(operator: zipfile.ZipFile):
    schema = schema_of(operator, "DaskJob")
    made = yaml.safe_load((DEPLOY / "kubernetes" / "daskjob.yaml").read_text())
    jsonschema.validate(made, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(misspelt(made), schema)


def test_what_a_job_makes_in_kubernetes_is_a_dask_cluster(operator: zipfile.ZipFile):
    schema = schema_of(operator, kubernetes.KIND)
    cluster = Kubernetes(
        kind="kubernetes", image="i", workers=3, cores=2, memory="3 GiB", gpus=1,
        claims={"data": "/data"}, secrets=["store"],
    )  # fmt: skip
    made = kubernetes.manifest(cluster, "chunkfold-1")
    jsonschema.validate(made, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(misspelt(made), schema)


def test_the_dask_job_s_words_are_chunkfold_s(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://chunkfold-nightly:8786")
    manifest = yaml.safe_load((DEPLOY / "kubernetes" / "daskjob.yaml").read_text())
    (container,) = manifest["spec"]["job"]["spec"]["containers"]
    command, _, option, override = container["args"]
    assert (command, option) == ("run", "--set")
    job = load_job(DEPLOY / "nightly.toml", [override])
    assert (job.cluster.address, job.cluster.workers) == ("tcp://chunkfold-nightly:8786", 4)
    assert job.cluster.workers == manifest["spec"]["cluster"]["spec"]["worker"]["replicas"]
