"""From a picture to an answer, whatever the answer and however the picture comes."""

import base64
import re

import pytest
from playwright.sync_api import FileChooser, expect

DROP = """([content, name]) => {
    const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
    const carried = new DataTransfer();
    carried.items.add(new File([bytes], name, { type: "image/png" }));
    return carried;
}"""


def choose(page, *files):
    page.get_by_label(re.compile("Choose a picture")).set_input_files(files)


@pytest.mark.parametrize(
    ("kind", "words", "why"),
    [
        ("match", "This is ", None),
        ("unknown", "Unknown: nothing in the gallery is it.", "Nothing in the gallery is close enough."),
        ("not_sure", "Not sure.", "The picture itself is poor: take another one."),
    ],
)
def test_an_upload_is_answered_in_words_with_the_reason(open_page, pictures, kind, words, why):
    page = open_page()
    choose(page, pictures[kind])
    answer = page.get_by_role("article", name=pictures[kind].name)
    expect(answer.get_by_role("heading", level=2)).to_contain_text(words)
    expect(answer).to_have_class(re.compile(rf"\b{kind}\b"))
    if why:
        expect(answer.get_by_text(why)).to_be_visible()
    expect(answer.get_by_role("listitem")).to_have_count(8)
    expect(answer.get_by_role("img", name=re.compile("Uncertainty of the picture"))).to_be_visible()
    expect(page.get_by_role("status").filter(has_text=words)).to_have_count(1)  # for screen readers


def test_an_uncertainty_is_split_into_picture_and_model(open_page, pictures):
    page = open_page()
    choose(page, pictures["match"])
    with page.expect_response(re.compile("/search$")) as asked:
        page.get_by_role("slider", name="Blur").fill("1")
    split = asked.value.json()["results"][0]["split"]
    share = 100 * split["picture"] / (split["picture"] + split["model"])
    caption = page.locator(".answer figcaption")
    expect(caption).to_contain_text(f"{share:.1f}\u00a0% is about the picture: another one may help.")
    expect(caption).to_contain_text(f"{100 - share:.1f}\u00a0% is about the model: it may learn from more like it.")


def test_too_many_are_not_sent(open_page, pictures):
    page = open_page()
    expect(page.get_by_text("Up to 32 at once.")).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    choose(page, *[pictures["match"]] * 33)
    expect(page.get_by_role("alert")).to_contain_text("These are 33 pictures; 32 can be asked about at once.")
    assert not [url for url in sent if url.endswith("/search")]


def test_several_pictures_get_an_answer_each(open_page, pictures):
    page = open_page()
    choose(page, pictures["match"], pictures["unknown"])
    expect(page.get_by_role("article")).to_have_count(2)


def test_a_bad_file_is_named_and_the_next_picture_is_fine(open_page, pictures):
    page = open_page()
    choose(page, pictures["bad"])
    expect(page.get_by_role("alert")).to_contain_text("bad.png: expected a picture")
    expect(page.get_by_role("article")).to_have_count(0)
    choose(page, pictures["match"])
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(0)  # there is nothing to tell any more


def test_a_picture_can_be_dropped(open_page, pictures):
    page = open_page()
    content = base64.b64encode(pictures["match"].read_bytes()).decode()
    carried = page.evaluate_handle(DROP, [content, "dropped.png"])
    page.dispatch_event(".drop", "dragenter", {"dataTransfer": carried})
    expect(page.locator(".drop")).to_have_class(re.compile("over"))
    page.dispatch_event(".drop", "drop", {"dataTransfer": carried})
    expect(page.get_by_role("article", name="dropped.png")).to_be_visible()
    page.dispatch_event("h1", "drop", {"dataTransfer": carried})  # elsewhere: the page stays
    expect(page.get_by_role("heading", name="What is this?", exact=True)).to_be_visible()


def test_a_picture_can_be_pasted(open_page, pictures):
    page = open_page()
    expect(page.get_by_role("heading", name="What is this?", exact=True)).to_be_visible()
    content = base64.b64encode(pictures["match"].read_bytes()).decode()
    carried = page.evaluate_handle(DROP, [content, "pasted.png"])
    page.evaluate("(data) => document.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data}))", carried)
    expect(page.get_by_role("article", name="pasted.png")).to_be_visible()


@pytest.mark.parametrize("harm", ["Crop", "Blur", "Occlusion", "Noise"])
def test_certainty_changes_as_a_slider_moves_and_comes_back(open_page, pictures, harm):
    page = open_page()
    choose(page, pictures["match"])
    chance = page.locator(".probabilities dd").first
    slider = page.get_by_role("slider", name=harm)
    before = chance.inner_text()
    slider.fill("5")
    expect(chance).to_contain_text(f"before: {before}")
    expect(slider).to_have_attribute("aria-valuetext", "5 of 5")
    slider.fill("0")
    expect(chance).to_have_text(before)


def test_a_crop_is_what_the_server_looks_at_and_does_not_count(open_page, pictures, web_app):
    page = open_page()
    choose(page, pictures["match"])
    shown = page.get_by_role("img", name=re.compile("The picture that was looked at"))
    expect(shown).to_have_js_property("naturalWidth", 8)
    seen = page.request.get(f"{web_app}api/v1/quality").json()["drift"]["seen"]
    page.get_by_role("slider", name="Crop").fill("5")
    expect(shown).to_have_js_property("naturalWidth", 4)
    assert page.request.get(f"{web_app}api/v1/quality").json()["drift"]["seen"] == seen > 0


def test_a_verdict_is_kept(open_page, pictures, web_app):
    page = open_page()
    choose(page, pictures["match"])
    row = page.get_by_role("group", name=re.compile("Is it the same")).first
    row.get_by_role("button", name=re.compile("^Yes")).click()
    expect(row.get_by_role("button", name=re.compile("^Yes"))).to_have_attribute("aria-pressed", "true")
    row.get_by_role("button", name=re.compile("^No")).click()
    expect(row.get_by_role("button", name=re.compile("^Yes"))).to_have_attribute("aria-pressed", "false")
    pairs = page.request.get(f"{web_app}api/v1/feedback").json()["pairs"]
    assert [pair["same"] for pair in pairs[-2:]] == [True, False]
    with page.expect_download() as table:
        page.get_by_role("link", name="download them as pairs").click()
    assert len(table.value.path().read_text(encoding="utf-8").splitlines()) == 1 + len(pairs)


def _ignored(chooser: FileChooser) -> None:
    """A listener that does nothing; that there is one makes the browser report its dialogues."""


def test_the_keyboard_alone_is_enough(open_page, pictures):
    page = open_page()
    page.on("filechooser", _ignored)  # early: nothing tells when the browser has begun to listen
    expect(page.locator("input[type=file]")).to_be_attached()  # before that, there is nowhere to go
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("input[type=file]")).to_be_focused()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    page.remove_listener("filechooser", _ignored)
    chooser.value.set_files(pictures["match"])
    expect(page.get_by_role("article")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Crop")).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_text("before:")).to_be_visible()
    for _ in range(4):  # the other sliders, then the first verdict
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=re.compile("^Yes")).first).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name=re.compile("^Yes")).first).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Gallery").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Gallery", exact=True)).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()


def test_the_answer_is_there_after_a_look_elsewhere_and_a_reload_starts_over(open_page, pictures):
    page = open_page()
    choose(page, pictures["match"])
    expect(page.get_by_role("article")).to_be_visible()
    page.get_by_role("link", name="Quality").click()
    expect(page.get_by_role("heading", name="Quality", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("article")).to_be_visible()
    page.go_forward()
    expect(page).to_have_title("Quality · howsure")
    page.reload()
    expect(page.get_by_role("heading", name="Quality", exact=True)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="What is this?", exact=True)).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(0)
