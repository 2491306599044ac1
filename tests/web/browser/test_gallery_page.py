"""The gallery in the browser: filtered, changed and brought back, and what looks wrong in it."""

import re

from PIL import Image
from playwright.sync_api import expect


def items(page):
    return page.locator(".items > li")


def total(page, web_app, **query):
    return page.request.get(f"{web_app}api/v1/items", params=query).json()["total"]


def test_filters_are_in_the_address_so_reload_and_back_work(open_page, web_app):
    page = open_page("gallery")
    expect(items(page)).to_have_count(60)
    threes, label = total(page, web_app, label="3"), page.locator("select[name=label]")
    label.focus()
    label.select_option("3")
    expect(items(page)).to_have_count(threes)
    assert set(items(page).locator("strong").all_inner_texts()) == {"3"}
    expect(label).to_be_focused()  # for those who use the keyboard
    page.reload()
    expect(items(page)).to_have_count(threes)
    expect(label).to_have_value("3")
    page.go_back()
    expect(items(page)).to_have_count(60)


def test_labels_are_filtered_by_what_a_neighbour_says(open_page, web_app):
    page = open_page("gallery")
    ranges = {"likely": (0.9, 1), "open": (0.1, 0.9), "unlikely": (0, 0.1)}
    found = {
        part: total(page, web_app, probability_from=low, probability_to=high) for part, (low, high) in ranges.items()
    }
    assert sum(found.values()) == 60 > max(found.values())
    for part, count in found.items():
        page.get_by_role("combobox", name="P(label) by neighbour").select_option(part)
        expect(items(page)).to_have_count(count)


def test_an_item_is_removed_and_comes_back(open_page):
    page = open_page("gallery")
    expect(items(page)).to_have_count(60)
    first = items(page).first.locator(".id").inner_text()
    page.get_by_role("button", name=f"Remove {first}").click()
    expect(items(page)).to_have_count(59)
    expect(page.locator("#about")).to_contain_text("59 items")
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    undo.press("Enter")
    expect(items(page)).to_have_count(60)
    expect(page.get_by_text(f"{first} is back.")).to_be_visible()


def test_many_are_added_with_progress_and_a_bad_one_stops_nothing(open_page, tmp_path, pictures):
    files = [tmp_path / f"{shade}.png" for shade in (60, 61, 62)]
    for file in files:
        Image.new("L", (8, 8), int(file.stem)).save(file)
    page = open_page("gallery?label=wall")
    page.get_by_text("Add pictures").click()
    expect(page.get_by_text("1,000 pictures or 32\u00a0MB go at once")).to_be_visible()  # before anything is sent
    page.get_by_role("textbox", name="Label").fill("wall")
    page.get_by_label(re.compile("Choose pictures")).set_input_files([files[0], pictures["bad"], *files[1:]])
    expect(page.get_by_role("main").get_by_text("Added 3 of 4. They are on disk.")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_js_property("value", 4)
    expect(page.get_by_text(re.compile("bad.png: expected a picture"))).to_be_visible()
    expect(items(page)).to_have_count(3)
    expect(page.locator("#about")).to_contain_text("63 items")
    for left in (2, 1, 0):
        page.get_by_role("button", name=re.compile("^Remove added")).first.click()
        expect(items(page)).to_have_count(left)


def test_duplicates_and_wrong_labels_are_shown_as_the_server_finds_them(open_page, web_app):
    page = open_page("gallery?look=suspects")
    expect(page.get_by_role("heading", name="Labels that the neighbours contradict", exact=True)).to_be_visible()
    found = page.request.get(f"{web_app}api/v1/suspects?limit=40").json()
    wrong, twins = page.locator(".suspects").first, page.locator(".suspects").last
    assert found["label_errors"]  # nobody has trained this network
    expect(wrong.get_by_role("listitem")).to_have_count(len(found["label_errors"]))
    first = found["label_errors"][0]
    expect(wrong.get_by_role("listitem").first).to_contain_text(
        f"Labelled {first['label']}, looks like {first['suggested']}"
    )
    if found["duplicates"]:
        expect(twins.get_by_role("listitem")).to_have_count(len(found["duplicates"]))
    else:
        expect(page.get_by_text("None.")).to_be_visible()


def test_the_best_pictures_of_an_identity(open_page):
    page = open_page("gallery?look=best&label=3&count=2")
    expect(items(page)).to_have_count(2)
    page.get_by_label("How many").fill("3")
    expect(items(page)).to_have_count(3)
    assert all(name.startswith("3/") for name in items(page).locator(".id").all_inner_texts())
    page.reload()
    expect(items(page)).to_have_count(3)
    page.get_by_role("link", name="Items").click()
    expect(items(page)).to_have_count(60)
    page.go_back()
    expect(items(page)).to_have_count(3)
