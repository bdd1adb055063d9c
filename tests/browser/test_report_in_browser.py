"""Reports in headless Chromium: no console error, no request, nothing for axe-core to find, no sideways scrolling.

Needs Playwright for Python, a Chromium (MODAK_CHROMIUM, or one of the names below on PATH) and axe-core
(MODAK_AXE, the path of its axe.min.js). MODAK_PICTURES names a folder that pictures of the pages are written to.
"""

import os
import shutil
from pathlib import Path

import pytest

from evidence_parts import digits_plan, job_values, write_results
from modak_deploy.evidence.page import render
from modak_deploy.evidence.report import read_job, report_of_jobs, report_of_measurements

playwright = pytest.importorskip("playwright.sync_api", reason="install Playwright: pip install playwright")
CHROMIUM = os.environ.get("MODAK_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
AXE = os.environ.get("MODAK_AXE")
SIZES = {"phone": (375, 812), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium: install Debian's package chromium, or name one in MODAK_CHROMIUM")
    if AXE is None:
        pytest.skip("no axe-core: npm install axe-core, and name its axe.min.js in MODAK_AXE")
    with playwright.sync_playwright() as api:
        opened = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def pages(tmp_path):
    plan = digits_plan(request={"numerics": "relaxed"})
    jobs = [read_job(write_results(tmp_path / "digits", plan, job_values(plan)))]
    yield "job", report_of_jobs(jobs)
    yield "jobs", report_of_jobs([*jobs, read_job(write_results(tmp_path / "other", plan, None))])
    yield "measurements", report_of_measurements(None, shipped=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_reports_in_a_browser(browser, tmp_path, size, scheme):
    width, height = SIZES[size]
    for name, report in pages(tmp_path):
        path = tmp_path / f"{name}.html"
        path.write_text(render(report))
        # The page's own policy would keep axe-core out.
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True)
        page, messages, requests = context.new_page(), [], []
        page.on("console", lambda message, into=messages: into.append(message.text))
        page.on("pageerror", lambda error, into=messages: into.append(str(error)))
        page.on("request", lambda request, into=requests: into.append(request.url))
        page.goto(path.as_uri())
        if folder := os.environ.get("MODAK_PICTURES"):
            page.screenshot(path=f"{folder}/{name}-{size}-{scheme}.png", full_page=True)
        assert messages == []
        assert [url for url in requests if url != path.as_uri() and not url.startswith("data:")] == []
        assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        page.evaluate(Path(AXE).read_text())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == []
        context.close()
