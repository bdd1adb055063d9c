"""The documentation's site as `make docs` builds it: no dead link, no request to others, good at two widths.

Needs the site in .build/site; the browser also Playwright and a Chromium (MODAK_CHROMIUM, or on PATH).
MODAK_PICTURES names a folder that pictures of the pages are written to.
"""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).resolve().parents[2] / ".build" / "site"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if path.name != "404.html" and "files" not in path.parts
)
CHROMIUM = os.environ.get("MODAK_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SIZES = {"phone": (375, 812), "desktop": (1280, 900)}

pytestmark = pytest.mark.skipif(not PAGES, reason="no site: run make docs")


class Links(HTMLParser):
    """The links, sources and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.sources: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif "src" in values or (tag == "link" and values.get("rel") in ("stylesheet", "icon")):
            self.sources.add(values.get("src") or values["href"])


@pytest.mark.parametrize("name", PAGES)
def test_links_and_sources_lead_somewhere(name: str) -> None:
    page = SITE / name
    parsed = Links(page.read_text())
    dead = []
    for link in parsed.links | parsed.sources:
        parts = urlsplit(link)
        if parts.scheme:
            assert link not in parsed.sources, f"{link} is loaded from another server"
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        target = target / "index.html" if target.is_dir() else target
        is_there = target.exists()
        if is_there and parts.fragment and target.suffix == ".html":
            is_there = unquote(parts.fragment) in Links(target.read_text()).anchors
        if not is_there:
            dead.append(link)
    assert dead == []


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="install Playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium: install Debian's package chromium, or name one in MODAK_CHROMIUM")
    with playwright.sync_playwright() as api:
        opened = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.mark.parametrize("size", SIZES)
def test_pages_in_a_browser(browser, size: str) -> None:
    width, height = SIZES[size]
    for name in PAGES:
        context = browser.new_context(viewport={"width": width, "height": height})
        page, messages, requests = context.new_page(), [], []
        page.on("pageerror", lambda error, into=messages: into.append(str(error)))
        page.on("request", lambda request, into=requests: into.append(request.url))
        page.goto((SITE / name).as_uri())
        if folder := os.environ.get("MODAK_PICTURES"):
            page.screenshot(path=f"{folder}/{name.replace('/', '-')}-{size}.png", full_page=True)
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert messages == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} scrolls sideways"
        assert size == "phone" or page.evaluate(CUT_OFF) == [], f"{name} shows pictures in part"
        context.close()


CUT_OFF = """[...document.querySelectorAll("article img")].filter(image =>
    image.getBoundingClientRect().right > image.closest("article").getBoundingClientRect().right + 1).map(i => i.src)"""


@pytest.fixture
def address() -> Iterator[str]:
    """The site on a server of its own: browsers permit no search in pages that they opened as files."""
    handler = partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_search_finds_a_page(browser, address: str) -> None:
    width, height = SIZES["desktop"]
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    page.goto(f"{address}/index.html", wait_until="networkidle")  # before, nothing listens to the field
    page.click("input.md-search__input")
    page.locator("input.md-search__input").press_sequentially("scratch folders", delay=20)
    page.wait_for_selector(".md-search-result__link", timeout=20_000)
    links = page.eval_on_selector_all(".md-search-result__link", "found => found.map(link => link.href)")
    assert any("deployment.html" in link for link in links)
