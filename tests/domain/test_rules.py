"""Every rule has a smallest document that breaks it alone, and the error names rule and place."""

from __future__ import annotations

import pytest

from muster.domain.canonical import sha256_hex
from muster.domain.errors import StateCorrupt
from muster.domain.rule_registry import RULES
from muster.domain.session_document import SessionDocument, encode
from muster.domain.session_rules import check_document, decode_document, violations
from tests.domain import builders as b
from tests.domain.rule_cases import ALSO, CASES, QUESTION, W1, Case, broken
from tests.domain.shape_cases import SHAPES


@pytest.mark.parametrize("name", sorted(b.VALID))
def test_each_kind_of_document_keeps_every_rule_and_survives_the_disk(name: str) -> None:
    document = b.VALID[name]()
    assert violations(document) == []
    assert decode_document(encode(document), b.NAMESPACE, b.SESSION) == document


def test_every_registered_rule_has_a_document_that_breaks_it() -> None:
    assert sorted(CASES) == sorted(RULES)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        *sorted(CASES.items(), key=lambda each: each[0]),
        *((name, case) for name, cases in ALSO.items() for case in cases),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_document_that_breaks_one_rule_is_refused_with_its_name_and_place(
    name: str, case: Case
) -> None:
    document = SessionDocument.model_validate_json(broken(case))
    assert {each.rule for each in violations(document)} == {name}
    with pytest.raises(StateCorrupt) as refused:
        check_document(document)
    assert refused.value.details["rule"] == name
    assert refused.value.details["where"] == case.where
    assert name in refused.value.message
    assert case.where in refused.value.message


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_document_of_the_wrong_shape_is_refused_with_its_place(name: str) -> None:
    case = SHAPES[name]
    with pytest.raises(StateCorrupt) as refused:
        decode_document(broken(case), b.NAMESPACE, b.SESSION)
    assert refused.value.details == {"rule": "shape", "where": case.where}


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 512, b"[]", b"null", encode(b.done())[:-200], b"\xff\xfe{}"]
)
def test_a_torn_zeroed_or_foreign_file_is_refused_as_corrupt(data: bytes) -> None:
    with pytest.raises(StateCorrupt) as refused:
        decode_document(data, b.NAMESPACE, b.SESSION)
    assert refused.value.details["rule"] == "shape"


def test_a_document_in_another_session_s_place_is_refused() -> None:
    with pytest.raises(StateCorrupt) as refused:
        decode_document(encode(b.idle()), b.NAMESPACE, "s-2")
    assert refused.value.details["rule"] == "document.identity"


def test_a_rejected_answer_stays_valid_after_the_corrected_one_won() -> None:
    document = b.corrected()
    refused = document.requests.answers[W1].safe_receipt
    assert refused is not None
    assert refused.status == "rejected"
    assert violations(document) == []


def test_a_binding_is_the_digest_of_its_plaintext() -> None:
    question = b.asking().canonical.questions[QUESTION]
    assert question.binding_sha256 == sha256_hex(question.binding_plaintext)
