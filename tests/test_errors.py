import pytest

from howsure import errors
from howsure.errors import GalleryError, GalleryLockedError, HowsureError, InputError

KINDS = [value for value in vars(errors).values() if isinstance(value, type)]


@pytest.mark.parametrize("kind", KINDS)
def test_message_says_expected_got_and_what_to_do(kind: type[HowsureError]) -> None:
    error = kind("scale", expected="3", got="4", fix="cut it")
    assert str(error) == "scale: expected 3, got 4; cut it"
    assert (error.what, error.expected, error.got, error.fix) == ("scale", "3", "4", "cut it")
    assert isinstance(error, HowsureError)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "scale"),
        ({"fix": "cut it"}, "scale; cut it"),
        ({"got": "4"}, "scale: got 4"),
        ({"expected": "3"}, "scale: expected 3"),
        ({"expected": "3", "fix": "cut it"}, "scale: expected 3; cut it"),
    ],
)
def test_parts_may_be_missing(parts: dict[str, str], message: str) -> None:
    assert str(InputError("scale", **parts)) == message


def test_hierarchy() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(GalleryLockedError, GalleryError)
    assert not any(
        issubclass(a, b) for a in KINDS for b in KINDS if a is not b and b not in (HowsureError, GalleryError)
    )
