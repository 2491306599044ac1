"""The API keeps what its description says, whatever it is asked: requests made from the description, by lot."""

import shutil
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from howsure.web.app import create_app
from howsure.web.settings import Settings
from web.listening import listening

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 5  # of each operation, with data that fit and with data that do not


@pytest.fixture(scope="module")
def described(made, tmp_path_factory):
    gallery = shutil.copytree(made / "gallery", tmp_path_factory.mktemp("described") / "gallery")
    here = Settings()
    app = create_app(gallery, here)
    with listening(app, here) as port:
        yield schemathesis.openapi.from_dict(app.openapi()), f"http://127.0.0.1:{port}"


@pytest.mark.filterwarnings("default")  # those of the tool are not ours
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_mistake_of_the_server_and_no_breach_of_the_description(described, mode):
    schema, url = described
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    judged = 0
    for operation in operations:
        takes = [*operation.iter_parameters(), *operation.body]
        if mode is GenerationMode.NEGATIVE and not takes:
            continue

        @seed(0)
        @settings(
            max_examples=EXAMPLES if takes else 1,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def keeps_its_word(case):
            case.call_and_validate(base_url=url, checks=CHECKS, timeout=120)

        with suppress(Unsatisfiable):  # any text fits a path: there is nothing that does not
            keeps_its_word()
            judged += 1
    assert judged >= 10
