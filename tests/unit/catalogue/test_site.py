"""A site's catalogue from folders, files and addresses, and the commands over it."""

import hashlib
import http.server
import threading

import pytest
import yaml
from typer.testing import CliRunner

from modak_deploy.catalogue.cli import app
from modak_deploy.catalogue.site import catalogue_for, fetch
from modak_deploy.errors import InputError

IMAGES = """\
version: 1
images:
  - name: ours
    source: hub
    framework: pytorch
    version: "2.9.0"
    reference: docker://registry.example.org/ours:1
"""


@pytest.fixture
def server(tmp_path):
    """Serve a folder; yields its address, the folder, and the list of paths that were asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, *_):
            asked.append(self.path)

    (tmp_path / "served").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", tmp_path / "served", asked
        running.shutdown()
        thread.join()


def test_a_folder_is_looked_for_where_the_document_lies(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "images-ours.yaml").write_text(IMAGES)
    catalogue = catalogue_for(["site"], [tmp_path / "elsewhere", tmp_path])
    assert catalogue.images["ours"].version == "2.9.0"


def test_a_place_that_is_not_there_names_where_it_was_looked_for(tmp_path):
    with pytest.raises(InputError, match=rf"'site' not found; looked for {tmp_path}/a/site, {tmp_path}/b/site"):
        catalogue_for(["site"], [tmp_path / "a", tmp_path / "b"])


def test_a_pinned_address_is_fetched_once(server, tmp_path):
    address, folder, asked = server
    (folder / "images.yaml").write_text(IMAGES)
    pin = hashlib.sha256(IMAGES.encode()).hexdigest()
    for _ in range(2):
        path = fetch(f"{address}/images.yaml#sha256={pin}", tmp_path / "cache")
        assert path.read_text() == IMAGES
    assert asked == ["/images.yaml"]


def test_a_pinned_copy_that_was_damaged_is_fetched_again(server, tmp_path):
    address, folder, asked = server
    (folder / "images.yaml").write_text(IMAGES)
    pinned = f"{address}/images.yaml#sha256={hashlib.sha256(IMAGES.encode()).hexdigest()}"
    fetch(pinned, tmp_path / "cache").write_text("")
    assert fetch(pinned, tmp_path / "cache").read_text() == IMAGES
    assert len(asked) == 2


def test_a_pinned_address_with_other_content_is_refused(server, tmp_path):
    address, folder, _ = server
    (folder / "images.yaml").write_text(IMAGES)
    with pytest.raises(InputError, match="not the one that it is pinned to"):
        fetch(f"{address}/images.yaml#sha256={'0' * 64}", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://example.org/images.yaml", "needs https"),
        ("ftp://example.org/images.yaml", "is not an https:// address"),
        ("https://example.org/images.yaml#sha256=12", "is not an https:// address"),
        ("https://127.0.0.1:1/images.yaml", "cannot be fetched: "),
    ],
)
def test_an_address_that_will_not_do(tmp_path, address, words):
    with pytest.raises(InputError, match=words):
        fetch(address, tmp_path)


def test_an_address_that_is_not_there(server, tmp_path):
    address, _, _ = server
    with pytest.raises(InputError, match="cannot be fetched: "):
        fetch(f"{address}/images.yaml#sha256={'0' * 64}", tmp_path)


SECRETIVE = [
    ("https://user:hunter2@127.0.0.1:1/levers.yaml", r"https://\*\*\*@127.0.0.1:1/levers.yaml' cannot be fetched"),
    ("https://user:hunter2@127.0.0.1", "names no file"),
    ("https://user:hunter2@two words/levers.yaml", "is not an https:// address"),
    ("http://user:hunter2@127.0.0.1/levers.yaml", "needs https"),
    ("https://user:with/hunter2@127.0.0.1:1/levers.yaml", "cannot be fetched"),
    ("https://hunter2@127.0.0.1:1/levers.yaml", "cannot be fetched"),
]


@pytest.mark.parametrize(("address", "words"), SECRETIVE)
def test_no_message_repeats_a_password(tmp_path, address, words):
    with pytest.raises(InputError, match=words) as caught:
        fetch(address, tmp_path)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        catalogue_for([f"{address}\x1b"])
    assert "hunter2" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_user_and_password_go_to_that_host_only(tmp_path):
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302 if self.path == "/first.yaml" else 200)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/second.yaml")
            self.end_headers()

        def log_message(self, *_):
            pass

    pin = hashlib.sha256(b"").hexdigest()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        fetch(f"http://me:p%40ss@127.0.0.1:{server.server_port}/first.yaml#sha256={pin}", tmp_path)
        server.shutdown()
        thread.join()
    assert seen == [("/first.yaml", "Basic bWU6cEBzcw=="), ("/second.yaml", None)]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_list_shows_one_kind_of_one_framework(tmp_path):
    (tmp_path / "images.yaml").write_text(IMAGES)
    result = run("list", "images", "--framework", "pytorch", "--catalogue", tmp_path)
    names = [line.split()[1] for line in result.output.splitlines()]
    assert "ours" in names
    assert "pytorch-1.4-src-cpu" in names
    assert not any(name.startswith("tensorflow") for name in names)


def test_what_show_prints_is_a_catalogue_entry(tmp_path):
    shown = yaml.safe_load(run("show", "tensorflow-2.1-src-gpu").output)
    assert shown["images"][0]["microarchitecture"] == "broadwell"
    (tmp_path / "images.yaml").write_text(yaml.safe_dump({"version": 1, **shown}))
    assert run("validate", tmp_path).exit_code == 0


def test_show_knows_the_nearest_name():
    with pytest.raises(InputError, match="no entry 'h20'; did you mean 'h200'"):
        run("show", "h20")


def test_validate_tells_the_line(tmp_path):
    (tmp_path / "images.yaml").write_text(IMAGES.replace("version: 1", "version: 1\nimagez: []"))
    with pytest.raises(InputError, match=r"images.yaml:2: .*imagez.*images"):
        run("validate", tmp_path)


HUB = {"name": "a", "source": "hub", "framework": "tensorflow", "version": "2.1", "reference": "docker://x/y:1"}
PIP = {"name": "a", "source": "pip", "framework": "tensorflow", "version": "2.1", "base": "debian12-cpu"}
DIGESTS = ["sha256:" + letter * 64 for letter in "ab"]


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ([PIP | {"base": "b"}, PIP | {"name": "b", "base": "a"}], "'a' is built on itself, by its base 'b'"),
        ([PIP | {"base": "a"}], "'a' is built on itself"),
        ([PIP | {"base": "b"}], "'a' is built on 'b', which no file describes"),
        (
            [PIP | {"base": "debian12-cpu", "architecture": "arm64"}],
            "the image 'a' is for arm64, and 'debian12-cpu', which it is built on, for amd64",
        ),
        ([PIP], r"images\.yaml: the image 'a': either a 'reference' or a recipe"),
        ([HUB | {"microarchitecture": "zen33"}], "the microarchitecture 'zen33' is not supported; did you mean 'zen3'"),
        ([HUB | {"microarchitecture": "zen3", "architecture": "arm64"}], "for arm64, and 'zen3' is a x86_64"),
        ([HUB | {"reference": "docker://X Y"}], "the image 'a': image reference 'docker://X Y'"),
        (
            [HUB | {"reference": f"docker://x/y@{DIGESTS[0]}", "digest": DIGESTS[1]}],
            "and its reference names sha256:aaa",
        ),
    ],
)
def test_validate_looks_at_what_images_are_made_from(tmp_path, images, words):
    (tmp_path / "images.yaml").write_text(yaml.safe_dump({"version": 1, "images": images}))
    with pytest.raises(InputError, match=words):
        run("validate", tmp_path)
    with pytest.raises(InputError, match=words):
        run("add", tmp_path / "images.yaml", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_add_takes_a_lever_with_its_launcher(tmp_path):
    new = tmp_path / "new"
    (new / "launchers").mkdir(parents=True)
    (new / "launchers" / "wrap.py").write_text("# wraps\n")
    lever = {"name": "wrap", "group": "allocator", "summary": "wrapped", "launcher": "wrap.py"}
    (new / "levers-wrap.yaml").write_text(yaml.safe_dump({"version": 1, "levers": [lever]}))
    result = run("add", new / "levers-wrap.yaml", tmp_path / "site")
    assert result.exit_code == 0
    assert (tmp_path / "site" / "launchers" / "wrap.py").read_text() == "# wraps\n"
    assert "wrap" in catalogue_for([str(tmp_path / "site")]).levers
    with pytest.raises(InputError, match="already exists"):
        run("add", new / "levers-wrap.yaml", tmp_path / "site")
    assert run("add", new / "levers-wrap.yaml", tmp_path / "site", "--replace").exit_code == 0


def test_add_writes_nothing_when_something_is_wrong(tmp_path):
    (tmp_path / "images-bad.yaml").write_text(IMAGES.replace("hub", "web"))
    with pytest.raises(InputError, match=r"images-bad\.yaml:4"):
        run("add", tmp_path / "images-bad.yaml", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_file_of_no_known_kind_is_not_passed_over(tmp_path):
    (tmp_path / "image.yaml").write_text(IMAGES)
    with pytest.raises(InputError, match=r"a catalogue file is named levers\*.yaml"):
        run("validate", tmp_path)


@pytest.mark.parametrize("kind", ["levers", "images", "accelerators"])
def test_the_schema_of_a_file_is_json(kind):
    assert '"version"' in run("schema", kind).output
