"""The document and the blueprint of tests/integration/test_one_blueprint.py on a cluster of Kubernetes."""

from pathlib import Path

import pytest

import deployed
from anywhere import IMAGE, NODE, SUM, Anywhere, workstation

PLACES = ("workstation", "kubernetes")


@pytest.fixture
def anywhere(tmp_path: Path, environment: dict[str, str], site: deployed.Site) -> Anywhere:
    cluster = {"type": "kubernetes", "node": {**NODE, "cores": 4}, "kubernetes": {"namespace": site.namespace}}
    kubeconfig = {"KUBECONFIG": str(site.rig / "kubeconfig")}
    folder = tmp_path / "user"
    folder.mkdir()
    return Anywhere(folder, {**environment, **kubeconfig}, {"workstation": workstation(folder), "kubernetes": cluster})


def test_one_document_by_the_playbooks(anywhere: Anywhere, site: deployed.Site) -> None:
    for place in PLACES:
        done = anywhere.play("deploy", place)
        assert done.code == 0, done.text
        again = anywhere.play("deploy", place)
        assert (again.code, "changed=0" in again.text) == (0, True), again.text
    plans, metrics = zip(*map(anywhere.played, PLACES), strict=True)
    assert [plan["chosen"]["runtime"] for plan in plans] == ["native", "docker"]
    assert plans[1]["chosen"]["image"]["reference"] == IMAGE
    assert [result["sum"] for result in metrics] == [SUM, SUM]
    assert [name.partition("/")[0] for name in site.everything()][:2] == ["job.batch", "pod"]
    for place in PLACES:
        gone = anywhere.play("undeploy", place)
        assert gone.code == 0, gone.text
    assert site.everything() == []


def test_one_blueprint_by_xopera(anywhere: Anywhere, site: deployed.Site) -> None:
    opera = anywhere.opera()
    seen = []
    for place in PLACES:
        outputs, metrics = anywhere.orchestrated(opera, place)
        assert outputs["state"] == "completed"
        assert outputs["plan"]["target"]["name"] == place
        seen.append((outputs["plan"]["chosen"]["runtime"], metrics["sum"], len(site.pods())))
        anywhere.undeploy(opera)
    assert seen == [("native", SUM, 0), ("docker", SUM, 1)]
    assert site.everything() == []
