"""Laws of every view: open to everybody, on a phone, in the dark, and with nothing from elsewhere."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

VIEWS = ("search", "compare", "gallery", "gallery?look=suspects", "gallery?look=best", "map", "quality", "audit")
READY = {
    "search": ".answer",
    "compare": ".answer",
    "gallery": ".items > li",
    "gallery?look=suspects": ".suspects",
    "gallery?look=best": ".items > li",
    "map": "canvas",
    "quality": ".plot",
    "audit": ".suspects > li",
}


def shown(open_page, view, pictures, **how):
    """A view with something in it."""
    page = open_page(view, **how)
    if view == "search":
        page.get_by_label(re.compile("Choose a picture")).set_input_files([pictures["match"], pictures["not_sure"]])
    if view == "compare":
        for which in ("First", "Second"):
            page.get_by_label(re.compile(which)).set_input_files(pictures["match"])
    expect(page.locator(READY[view]).first).to_be_visible()
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_by_day_and_by_night(open_page, pictures, view):
    page = shown(open_page, view, pictures)
    for closed in page.locator("details:not([open]) > summary").all():
        closed.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_need_not_scroll_sideways(open_page, pictures, view):
    page = shown(open_page, view, pictures, width=390)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 390


def test_the_dark_is_dark(open_page):
    shades = [
        sum(
            map(
                int,
                re.findall(
                    r"\d+", open_page(scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
                ),
            )
        )
        for scheme in ("light", "dark")
    ]
    assert shades[0] > 700 > 100 > shades[1]


def test_every_view_is_a_link_with_its_own_title_and_address(open_page):
    page = open_page()
    for name in ("Compare", "Gallery", "Map", "Quality", "Audit", "Search"):
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        expect(page).to_have_title(f"{name} · howsure")
        expect(page).to_have_url(re.compile(f"#/{name.lower()}$"))
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("aria-current", "page")
