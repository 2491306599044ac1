"""Compare, Map, Quality and Audit in the browser."""

import re

from playwright.sync_api import expect

CORNER = 12  # pixels; nothing lies so near the edge, and it is round there
PAINTED = """([canvas, wanted]) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] === 255) colours.add((pixels[i] << 16) + (pixels[i + 1] << 8) + pixels[i + 2]);
    }
    return wanted.every((colour) => colours.has(colour));
}"""
A_DOT = """(canvas) => {
    const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const at = data.findIndex((value, i) => i % 4 === 3 && value === 255) >> 2;
    return [at % width, Math.floor(at / width)];
}"""


def test_two_pictures_are_compared(open_page, pictures):
    page = open_page("compare")
    page.get_by_label(re.compile("First picture")).set_input_files(pictures["match"])
    expect(page.get_by_role("article")).to_have_count(0)  # one is not enough
    page.get_by_label(re.compile("Second picture")).set_input_files(pictures["match"])
    answer = page.get_by_role("article", name="Answer")
    expect(answer.get_by_text("Distance")).to_be_visible()
    expect(answer.get_by_role("img", name=re.compile("^The means lie"))).to_be_visible()
    page.get_by_label(re.compile("Second picture")).set_input_files(pictures["bad"])
    expect(page.get_by_role("alert")).to_contain_text("bad.png")
    expect(page.get_by_role("article")).to_have_count(0)


def test_the_map_is_painted_in_the_colours_that_its_key_names(open_page):
    page = open_page("map")
    canvas, key = page.locator("canvas"), page.locator(".key circle")
    for by, colours in (("label", 10), ("uncertainty", 7), ("error", 2)):
        page.get_by_label("Colour by").select_option(by)
        expect(key).to_have_count(colours)
        named = [int(one.get_attribute("fill")[1:], 16) for one in key.all()]
        page.wait_for_function(PAINTED, arg=[canvas.element_handle(), named])


def test_the_map_moves_selects_and_says_the_same_in_a_table(open_page):
    page = open_page("map")
    canvas = page.locator("canvas")
    box = canvas.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + CORNER, box["y"] + CORNER)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - CORNER, box["y"] + box["height"] - CORNER, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.get_by_text(re.compile("60 selected"))).to_be_visible()
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    canvas.focus()
    for key in ("+", "ArrowLeft", "0"):
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        after = canvas.evaluate("(canvas) => canvas.toDataURL()")
        assert after != before, key
        before = after
    page.get_by_text("As a table").click()
    counts = page.locator("tbody td:nth-of-type(1)").all_inner_texts()
    assert sum(map(int, counts)) == 60


def test_an_item_of_the_map_is_shown_where_the_mouse_is(open_page):
    page = open_page("map")
    canvas = page.locator("canvas")
    canvas.hover(position={"x": CORNER, "y": CORNER})
    expect(page.locator(".hint")).to_be_hidden()
    x, y = canvas.evaluate(A_DOT)
    canvas.hover(position={"x": x, "y": y})
    expect(page.locator(".hint")).to_contain_text("uncertainty")


def test_quality_shows_the_promise_the_cost_of_errors_and_unknown_detection(open_page, web_app):
    page = open_page("quality")
    expect(page.get_by_text("At most 4.0 % of the matches are wrong")).to_be_visible()
    slider, result = page.get_by_role("slider"), page.locator("output")
    slider.fill("0")
    expect(result).to_have_text("No bin of the held-out queries was that good.")
    slider.press("End")
    expect(result).to_contain_text("100 % of the queries get an answer")
    roc = page.request.get(f"{web_app}api/v1/quality").json()["unknown_roc"]
    curve = page.get_by_role("img", name=re.compile("ROC of unknown detection"))
    expect(curve).to_have_attribute("aria-label", re.compile(f"{100 * roc['auroc']:.1f}"))
    expect(page.get_by_role("img", name=re.compile("^Reliability"))).to_be_visible()


def test_drawn_queries_are_judged_in_order_with_the_keyboard_alone(open_page):
    page = open_page("audit")
    rows = page.locator(".suspects > li")
    expect(rows.first.get_by_role("img")).to_be_visible()
    before = rows.count()
    page.get_by_label("Query 1 shows").fill("8")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(before - 1)
    expect(page.get_by_label("Query 2 shows")).to_be_focused()
    page.get_by_role("button", name="Query 2: Nobody can tell").press("Enter")
    expect(rows).to_have_count(before - 2)
    expect(page.get_by_role("status")).to_have_text("Query 2 is saved.")
