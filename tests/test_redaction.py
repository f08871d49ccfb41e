"""Secrets are taken out of texts and values, quickly, and nothing else is."""

from __future__ import annotations

import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.jsonable import redaction
from fsm_engine.jsonable.redaction import MASK, is_secret_key, redact, redact_mapping
from fsm_engine.jsonable.strict import JsonValue

SECRET = "hunter2-Zx9"

SECRETIVE = [
    f"password={SECRET}",
    f"db.passwd : {SECRET}",
    f"Password => {SECRET}",
    f"PWD={SECRET};user=bob",
    f'{{"password": "{SECRET}"}}',
    f'{{"password": "a \\" {SECRET}", "n": 1}}',
    f"{{'client_secret': '{SECRET}'}}",
    f"{{'passphrase': b'{SECRET}'}}",
    f'"{{\\"api_key\\": \\"{SECRET}\\"}}"',
    f'password="open quote {SECRET}',
    f'passwords=["a", "{SECRET}"]',
    f'{{"credentials": {{"user": "bob", "pin": "{SECRET}"}}}}',
    f"x-api-key: {SECRET}",
    f"apikey={SECRET}",
    f"aws_secret_access_key={SECRET}",
    f"private-key={SECRET}",
    f"access_token={SECRET}&page=2",
    f"https://example.org/?token={SECRET}",
    f"Authorization: Basic {SECRET}",
    f"authorization: Bearer {SECRET}",
    f'{{\\"Authorization\\": \\"Basic {SECRET}\\"}}',
    f"curl -H 'Authorization: token {SECRET}'",
    f"Cookie: a=1; session={SECRET}",
    f"set-cookie: sid={SECRET}; Path=/",
    f"sent Bearer {SECRET} to the server",
    f"postgres://bob:{SECRET}@db/orders",
    f"https://{SECRET}@example.org/",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
]


@pytest.mark.parametrize("text", SECRETIVE)
def test_a_secret_is_masked_wherever_its_key_announces_it(text: str) -> None:
    assert SECRET not in redact(text)
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "token",
    [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwx",
        "github_pat_11ABCDEFG0abcdefghij",
        "glpat-abcdefghijklmnop",
        "xoxb-1234567890-abc",
        "hf_abcdefghijklmnopqrstuv",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a" * 35,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)
def test_a_common_token_is_known_by_its_shape(token: str) -> None:
    assert redact(f"got {token}, and failed") == f"got {MASK}, and failed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No such file or directory: 'a.txt'",
        "max_tokens=100, token_count: 5",
        "the secretary: Bob",
        "a bearer of news",
        "see https://example.org/path?page=2",
        "mail bob@example.org",
        "the task-force met",
        "cwd=/tmp",
    ],
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "part",
    ['password="', "password=\\", "password:\\\"", "://", "://a", "eyJ-", "eyJaaaaaaaa.", "token", "token = ", "sk-",
     "Bearer ", "api-", "secret-", "authorization:", "cookie='", "password=[", "password={", "-----BEGIN PRIVATE KEY-----"],
)  # fmt: skip
def test_no_text_takes_more_than_linear_time(part: str) -> None:
    text = part * (300_000 // len(part)) + "\\"
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 2  # a quadratic pattern takes minutes


@given(st.text(), st.text())
def test_redacting_is_total_and_keeps_half_of_nothing(before: str, after: str) -> None:
    assert SECRET not in redact(f"{before} password='{SECRET}' {after}")


KEYS = {
    "password": True,
    "userPassword": True,
    "PASSWD": True,
    "db_pwd": True,
    "client-secret": True,
    "secrets": True,
    "token": True,
    "refreshToken": True,
    "X-Api-Key": True,
    "api key": True,
    "AWS_ACCESS_KEY_ID": True,
    "privateKey": True,
    "Authorization": True,
    "Set-Cookie": True,
    "credentials": True,
    "max_tokens": False,
    "token_count": False,
    "secretary": False,
    "author": False,
    "key": False,
    "query": False,
}


@pytest.mark.parametrize(("key", "secret"), KEYS.items())
def test_a_field_is_secret_by_its_name_in_any_style(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def test_a_mapping_loses_secret_and_marked_fields_at_every_depth() -> None:
    value: JsonValue = {
        "user": "bob",
        "note": {"any": "thing"},
        "list": [{"token": "abc", "note": 1}, f"password={SECRET}", 5, None, True, 1.5],
        "password": None,
        "secret": {"a": 1},
    }
    assert redact_mapping(value, marked={"note"}) == {
        "user": "bob",
        "note": MASK,
        "list": [{"token": MASK, "note": MASK}, f"password={MASK}", 5, None, True, 1.5],
        "password": None,
        "secret": MASK,
    }
    assert value["secret"] == {"a": 1}, "the value that was given must not change"


def test_what_is_nested_too_deep_is_masked_whole() -> None:
    value: JsonValue = None
    for _ in range(100_000):
        value = [value]
    shown = redact_mapping(value)
    depth = 0
    while isinstance(shown, list):
        shown, depth = shown[0], depth + 1
    assert (shown, depth) == (MASK, 100)


def test_examples_in_the_documentation_are_true() -> None:
    assert doctest.testmod(redaction).failed == 0
