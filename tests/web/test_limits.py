"""Who may come in, with what, and how a refusal looks."""

import asyncio
import io
import struct
import threading
import time
import zipfile
import zlib

import pytest
from PIL import Image

from howsure.errors import InputError
from howsure.web.settings import Settings
from web.browser import Browser, as_png, uploads

TOKEN = "a token that is long enough"


def assert_problem(reply, status: int, *words: str) -> None:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert (body["status"], body["type"]) == (status, "about:blank")
    assert body["title"]
    for word in words:
        assert word in body["detail"]


def test_every_response_tells_browsers_to_be_strict(browser):
    for path in ("/", "/style.css", "/api/v1/gallery", "/health", "/nothing", "/api/v1/items/nobody"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[::1"])
def test_a_host_that_is_not_this_machine_is_refused(browser, host):
    assert_problem(browser.get("/api/v1/gallery", headers={"Host": host}), 421, "this machine")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "[::1]:8765"])
def test_a_host_that_is_this_machine_is_fine(browser, host):
    assert browser.get("/api/v1/gallery", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_site_cannot_post(browser, photo, headers):
    assert_problem(browser.post("/api/v1/search", files=uploads(photo), headers=headers), 403, "this site")
    same = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/api/v1/search", files=uploads(photo), headers=same).status_code == 200


def test_beyond_this_machine_a_token_is_needed():
    with pytest.raises(InputError, match="token"):
        Settings(host="0.0.0.0")
    with pytest.raises(InputError, match="16"):
        Settings(host="0.0.0.0", token="short")
    assert Settings(host="::1").loopback
    assert not Settings(host="192.168.0.7", token=TOKEN).loopback


def test_a_token_opens_the_api_and_a_cookie_carries_it(made):
    with Browser(made / "gallery", Settings(host="0.0.0.0", token=TOKEN)) as browser:
        assert browser.get("/health").status_code == 200
        assert browser.get("/").status_code == 200
        for path in ("/api/v1/gallery", "/metrics", "/api/v1/openapi.json", "/api/v1/items/x"):
            assert_problem(browser.get(path), 401, "token")
        assert_problem(browser.get("/api/v1/gallery", headers={"Authorization": "Bearer wrong"}), 401)
        assert_problem(browser.get("/api/v1/gallery", headers={"Cookie": "howsure=wrong"}), 401)
        mine = {"Authorization": f"Bearer {TOKEN}"}
        assert browser.get("/api/v1/gallery", headers=mine).status_code == 200
        cookie = browser.post("/api/v1/session", headers=mine).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert browser.get("/api/v1/gallery", headers={"Cookie": cookie.partition(";")[0]}).status_code == 200


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (b"%!PS-Adobe-3.0\n", "not a picture"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_name(browser, photo, content, why):
    assert_problem(browser.search(photo, content), 422, "1.png", why)


def test_a_truncated_picture_is_refused(browser):
    whole = as_png(Image.effect_noise((64, 64), 50))
    assert_problem(browser.search(whole[: len(whole) // 2]), 422, "truncated")


def test_an_archive_is_not_a_picture_and_what_hides_behind_one_is_gone(browser, photo):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("0.png", photo)
    assert_problem(browser.search(file.getvalue()), 422, "not a picture")
    both = browser.search(photo + file.getvalue()).json()["results"][0]
    plain = browser.search(photo).json()["results"][0]
    assert (both["picture"], both["query"]) == (plain["picture"], plain["query"])


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims to be large, in a few bytes."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"\0" * 1000)
    parts = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, data))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("side", [7_000, 60_000])
def test_pixels_are_counted_before_they_are_decoded(browser, side):
    assert_problem(browser.search(png_header(side, side)), 422, "too many pixels", "40,000,000")


def test_the_orientation_is_used_and_exif_is_gone(browser):
    image = Image.new("L", (4, 8))
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "where I live"
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    result = browser.search(file.getvalue()).json()["results"][0]
    kept = Image.open(io.BytesIO(browser.service.state.recent.get(result["query"])))
    assert kept.size == (8, 4)
    assert not kept.getexif()
    assert "where I live" not in str(kept.info)


FORM = {"Content-Type": "multipart/form-data; boundary=b"}
OPENING = b'--b\r\nContent-Disposition: form-data; name="pictures"; filename="x"\r\n\r\n'


def test_too_many_bytes_or_pictures_are_refused(made, photo):
    small = Settings(upload=20_000, pictures=2)
    with Browser(made / "gallery", small) as browser:
        assert browser.search(photo, photo).status_code == 200
        assert_problem(browser.search(photo, photo, photo), 413, "at most 2")
        assert_problem(browser.search(b"x" * 20_000), 413, "20,000 bytes")

        async def chunks():  # without a length that could be looked at first
            yield OPENING
            for _ in range(30):
                yield b"x" * 1000

        assert_problem(browser.post("/api/v1/search", content=chunks(), headers=FORM), 413, "20,000 bytes")


def test_a_client_that_dribbles_is_cut_off(made):
    with Browser(made / "gallery", Settings(patience=0.2)) as browser:

        async def dribble():
            yield OPENING
            while True:
                yield b"x"
                await asyncio.sleep(0.05)

        began = time.monotonic()
        assert_problem(browser.post("/api/v1/search", content=dribble(), headers=FORM), 408, "0.2 s")
        assert time.monotonic() - began < 10


def test_a_full_queue_sends_away_and_the_loop_stays_free(made, photo):
    with Browser(made / "gallery", Settings(waiting=1)) as browser:
        free = threading.Event()

        async def crowd():
            work = browser.service.pictures
            blocked = [asyncio.create_task(work.run(free.wait, 60)) for _ in range(2)]  # one works, one waits
            await asyncio.sleep(0.05)
            refused = await browser.ask("POST", "/api/v1/search", files=uploads(photo))
            health = await browser.ask("GET", "/health")
            looked = await browser.ask("GET", "/api/v1/items")
            free.set()
            await asyncio.gather(*blocked)
            await asyncio.sleep(0.05)
            return refused, health, looked, await browser.ask("POST", "/api/v1/search", files=uploads(photo))

        refused, health, looked, later = asyncio.run(crowd())
        assert_problem(refused, 503, "busy")
        assert int(refused.headers["retry-after"]) >= 1
        assert (health.status_code, looked.status_code, later.status_code) == (200, 200, 200)


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../../app.py", "//etc/passwd", "/%00", "/..\\app.py"],
)
def test_static_paths_lead_nowhere_else(browser, path):
    assert browser.get(path).status_code in (400, 404)


@pytest.mark.parametrize("name", ["..%2f..%2fmodel%2fcard.json", "%2fetc%2fpasswd", "%00", "a" * 2000])
def test_ids_are_names_and_not_paths(browser, name):
    for kind in ("items", "thumbnails"):
        assert_problem(browser.get(f"/api/v1/{kind}/{name}"), 404)


def test_a_mistake_of_the_server_is_a_problem_without_its_insides(own, monkeypatch, caplog):
    with Browser(own) as browser:
        monkeypatch.setattr(browser.service.state, "view", lambda: 1 / 0)
        reply = browser.get("/api/v1/gallery")
    assert_problem(reply, 500, "log")
    assert "division" not in reply.text
    assert "division" in caplog.text
