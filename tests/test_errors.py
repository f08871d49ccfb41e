"""Which code an exception gets, and what of it the model and the operator may read."""

from __future__ import annotations

import asyncio
import concurrent.futures
import doctest
import email.utils
import errno
import http.client
import io
import json
import pickle
import socket
import ssl
import subprocess
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.errors import Effect, ErrorCategory, Issue, ToolError, ToolErrorCode, classify, code_facts
from fsm_engine.errors import codes as _codes
from fsm_engine.errors import exceptions as errors
from fsm_engine.errors import issue as _issue
from fsm_engine.errors.http_clients import MAX_RETRY_AFTER
from fsm_engine.response.tool_response import ToolResponse

NOW = 1_700_000_000.0
RETRY_DATE = email.utils.formatdate(NOW + 30, usegmt=True)

# The table of the requirements, written down a second time on purpose: category, transient, counts.
CODES = {
    "NOT_FOUND": ("resource", False, False),
    "ACCESS_DENIED": ("resource", False, False),
    "PERMISSION_DENIED": ("resource", False, False),
    "IS_DIRECTORY": ("resource", False, False),
    "BINARY_FILE": ("resource", False, False),
    "INVALID_PARAM": ("parameter", False, False),
    "INVALID_FORMAT": ("parameter", False, False),
    "EXECUTION_ERROR": ("execution", False, True),
    "TIMEOUT": ("execution", True, True),
    "INTERNAL_ERROR": ("execution", False, True),
    "CONFLICT": ("state", False, False),
    "CIRCUIT_OPEN": ("state", False, False),
    "NETWORK_ERROR": ("network", True, True),
    "API_ERROR": ("network", True, True),
    "RATE_LIMIT": ("network", True, True),
    "CANCELLED": ("state", False, False),
    "APPROVAL_DENIED": ("state", False, False),
    "APPROVAL_EXPIRED": ("state", False, False),
}


@pytest.mark.parametrize("module", [errors, _codes, _issue])
def test_examples_in_the_documentation_are_true(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_the_codes_are_exactly_the_fifteen_and_the_engines_three() -> None:
    assert {str(code) for code in ToolErrorCode} == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_the_facts_of_the_table(code: str) -> None:
    member = ToolErrorCode(code)
    assert (member.category, member.transient, member.counts) == CODES[code]
    assert code_facts(code) == code_facts(member) == CODES[code]


def test_a_tools_own_code_is_a_non_transient_execution_error_that_counts() -> None:
    assert code_facts("WAREHOUSE_CLOSED") == (ErrorCategory.EXECUTION, False, True)


@pytest.mark.parametrize(
    "error",
    [
        errors.TransitionRefusedError("PENDING", "retry"),
        ToolError("CONFLICT", "taken", reason="taken", data={"a": 1}, retry_after=2.0, effect=Effect.DONE),
        errors.LifecycleError("unsound"),
    ],
)
def test_exceptions_survive_the_way_to_another_process(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            errors.TransitionRefusedError("PENDING", "retry", allowed=("validate", "abort")),
            "'retry' is not allowed in state 'PENDING'; allowed is validate, abort",
        ),
        (
            errors.TransitionRefusedError("FAILED", "retry"),
            "'retry' is not allowed in state 'FAILED'; allowed is nothing, it is final",
        ),
        (
            errors.TransitionRefusedError("EXECUTING", "fail", guards=("may_retry",)),
            "'fail' leads nowhere in state 'EXECUTING': no guard passed (may_retry)",
        ),
    ],
)
def test_a_refused_transition_says_what_would_have_been_allowed(
    error: errors.TransitionRefusedError, text: str
) -> None:
    assert (str(error), error.args[:2]) == (text, (error.state, error.trigger))


def test_wrong_setups_are_value_errors_and_all_have_one_root() -> None:
    for kind in (errors.LifecycleError, errors.SchemaError, errors.RegistrationError):
        assert issubclass(kind, errors.ConfigurationError)
    assert issubclass(errors.ConfigurationError, ValueError)
    for name in errors.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(errors, name), errors.FsmEngineError)


def named(name: str, *bases: type[BaseException], module: str = "some_client.exceptions") -> BaseException:
    """Make an exception such as a client library that is not installed here would raise."""
    return type(name, bases or (Exception,), {"__module__": module})("it failed")


OS_ERRORS = {
    errno.ENOENT: "NOT_FOUND",
    errno.ENOTDIR: "NOT_FOUND",
    errno.EISDIR: "IS_DIRECTORY",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED",
    errno.EEXIST: "CONFLICT",
    errno.ENOTEMPTY: "CONFLICT",
    errno.ETIMEDOUT: "TIMEOUT",
    errno.ECONNREFUSED: "NETWORK_ERROR",
    errno.ECONNRESET: "NETWORK_ERROR",
    errno.EPIPE: "NETWORK_ERROR",
    errno.EHOSTUNREACH: "NETWORK_ERROR",
    errno.ENETUNREACH: "NETWORK_ERROR",
    errno.ENOSPC: "EXECUTION_ERROR",
}


@pytest.mark.parametrize(("number", "code"), OS_ERRORS.items())
def test_errors_of_the_operating_system_have_precise_codes(number: int, code: str) -> None:
    assert classify(OSError(number, "no")).code == code


BUILT_IN = [
    (TimeoutError(), "TIMEOUT"),
    (asyncio.TimeoutError(), "TIMEOUT"),  # noqa: UP041 # the name that a tool may use
    (concurrent.futures.TimeoutError(), "TIMEOUT"),
    (subprocess.TimeoutExpired("ls", 1), "TIMEOUT"),
    (socket.gaierror(-2, "Name or service not known"), "NETWORK_ERROR"),
    (ssl.SSLCertVerificationError("bad certificate"), "NETWORK_ERROR"),
    (http.client.RemoteDisconnected("gone"), "NETWORK_ERROR"),
    (http.client.IncompleteRead(b"x"), "NETWORK_ERROR"),
    (urllib.error.ContentTooShortError("short", io.BytesIO()), "NETWORK_ERROR"),  # type: ignore[arg-type] # any content
    (urllib.error.URLError(TimeoutError()), "TIMEOUT"),
    (urllib.error.URLError("unknown url type: foo"), "EXECUTION_ERROR"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "BINARY_FILE"),
    (UnicodeEncodeError("ascii", "é", 0, 1, "no"), "EXECUTION_ERROR"),
    (tarfile.ReadError("not a tar file"), "EXECUTION_ERROR"),
    (ValueError("bad"), "EXECUTION_ERROR"),
    (KeyError("a"), "EXECUTION_ERROR"),
    (ZeroDivisionError(), "EXECUTION_ERROR"),
    (MemoryError(), "EXECUTION_ERROR"),
    (OSError("no number"), "EXECUTION_ERROR"),
    (SystemExit(404), "EXECUTION_ERROR"),
    (asyncio.CancelledError(), "EXECUTION_ERROR"),
]


@pytest.mark.parametrize(("error", "code"), BUILT_IN, ids=repr)
def test_built_in_exceptions_have_the_most_precise_code(error: BaseException, code: str) -> None:
    found = classify(error)
    facts = code_facts(code)
    assert (found.code, found.transient, found.counts) == (code, facts.transient, facts.counts)


REQUEST = httpx.Request("GET", "http://example.org/")
CLIENTS = [
    (httpx.ConnectTimeout("slow", request=REQUEST), "TIMEOUT"),
    (httpx.ReadTimeout("slow", request=REQUEST), "TIMEOUT"),
    (httpx.PoolTimeout("slow", request=REQUEST), "TIMEOUT"),
    (httpx.ConnectError("refused", request=REQUEST), "NETWORK_ERROR"),
    (httpx.ReadError("reset", request=REQUEST), "NETWORK_ERROR"),
    (httpx.ProxyError("no", request=REQUEST), "NETWORK_ERROR"),
    (httpx.RemoteProtocolError("no", request=REQUEST), "NETWORK_ERROR"),
    (httpx.UnsupportedProtocol("foo", request=REQUEST), "EXECUTION_ERROR"),
    (httpx.InvalidURL("bad"), "EXECUTION_ERROR"),
    # requests: a connect time-out is both, and the exact class decides
    (named("ConnectTimeout", type("ConnectionError", (OSError,), {}), type("Timeout", (OSError,), {})), "TIMEOUT"),
    (named("ProxyError", type("ConnectionError", (OSError,), {})), "NETWORK_ERROR"),
    (named("ChunkedEncodingError", OSError), "NETWORK_ERROR"),
    # aiohttp: a server time-out is a connection error and a TimeoutError
    (named("ServerTimeoutError", type("ClientConnectionError", (Exception,), {}), TimeoutError), "TIMEOUT"),
    (named("ClientConnectorError", type("ClientConnectionError", (Exception,), {}), OSError), "NETWORK_ERROR"),
    # openai, anthropic
    (named("APITimeoutError", type("APIConnectionError", (Exception,), {})), "TIMEOUT"),
    (named("APIConnectionError"), "NETWORK_ERROR"),
]


@pytest.mark.parametrize(("error", "code"), CLIENTS, ids=lambda each: getattr(type(each), "__name__", ""))
def test_timeouts_and_connection_errors_of_clients_are_known_by_their_classes(error: Exception, code: str) -> None:
    assert classify(error).code == code


# status: code, transient, counts
STATUSES = {
    400: ("API_ERROR", False, False),
    401: ("ACCESS_DENIED", False, False),
    403: ("PERMISSION_DENIED", False, False),
    404: ("NOT_FOUND", False, False),
    408: ("TIMEOUT", True, True),
    409: ("CONFLICT", False, False),
    410: ("API_ERROR", False, False),
    422: ("API_ERROR", False, False),
    429: ("RATE_LIMIT", True, True),
    499: ("API_ERROR", False, False),
    500: ("API_ERROR", True, True),
    502: ("API_ERROR", True, True),
    503: ("API_ERROR", True, True),
    504: ("TIMEOUT", True, True),
    599: ("API_ERROR", True, True),
}
BODY = b'{"error": "no such field: sku_id", "token": "abc123"}'


class Answers(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the base's name
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def ask_httpx(url: str) -> None:
    httpx.get(url).raise_for_status()


def ask_urllib(url: str) -> None:
    urllib.request.urlopen(url)


@pytest.mark.parametrize("ask", [ask_httpx, ask_urllib])
@pytest.mark.parametrize("status", STATUSES)
def test_an_http_error_is_judged_by_its_status(server: str, ask: Callable[[str], None], status: int) -> None:
    with pytest.raises((httpx.HTTPStatusError, urllib.error.HTTPError)) as caught:
        ask(f"{server}/{status}")
    found = classify(caught.value)
    assert (found.code, found.transient, found.counts) == STATUSES[status]
    assert (found.retry_after, found.reason, found.effect) == (7.0, f"http_{status}", None)
    if isinstance(caught.value, urllib.error.HTTPError):
        caught.value.close()


def test_status_and_redacted_body_are_kept_for_the_operator_alone(server: str) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        ask_httpx(f"{server}/422")
    found = classify(caught.value)
    assert "HTTP 422:" in found.detail
    assert "no such field: sku_id" in found.detail
    assert "no such field" not in found.message
    assert "abc123" not in found.detail


def test_a_refused_connection_is_a_network_error_for_httpx_and_urllib() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers on this port
        taken.bind(("127.0.0.1", 0))
        for ask in (ask_httpx, ask_urllib):
            with pytest.raises((httpx.ConnectError, urllib.error.URLError)) as caught:
                ask(f"http://127.0.0.1:{taken.getsockname()[1]}/")
            assert classify(caught.value).code == "NETWORK_ERROR"


class Fields:
    """An object with the given attributes, as client libraries hang them on their exceptions."""

    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)


def with_fields(**fields: object) -> Exception:
    error = RuntimeError("it failed")
    vars(error).update(fields)
    return error


SHAPES = [
    ("httpx, requests, openai", with_fields(response=Fields(status_code=404)), "NOT_FOUND"),
    ("starlette", with_fields(status_code=403, detail="no"), "PERMISSION_DENIED"),
    ("aiohttp", with_fields(status=429, headers={}), "RATE_LIMIT"),
    ("tornado", with_fields(code=500, response=Fields()), "API_ERROR"),
    ("a code that is no HTTP status", with_fields(code=404), "EXECUTION_ERROR"),
    ("a status that is no error", with_fields(status=200), "EXECUTION_ERROR"),
    ("a status that is text", with_fields(status="404"), "EXECUTION_ERROR"),
    ("an enum member", with_fields(status_code=http.HTTPStatus.NOT_FOUND), "NOT_FOUND"),
]


@pytest.mark.parametrize(("error", "code"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_the_status_is_found_where_each_client_keeps_it(error: Exception, code: str) -> None:
    assert classify(error).code == code


RETRY_AFTER = [
    ("7", 7.0),
    (" 2.5 ", 2.5),
    ("0", 0.0),
    (RETRY_DATE, 30.0),
    (email.utils.formatdate(NOW - 30, usegmt=True), 0.0),
    ("999999999", MAX_RETRY_AFTER),
    (email.utils.formatdate(NOW + 10**8, usegmt=True), MAX_RETRY_AFTER),
    ("-1", None),
    ("nan", None),
    ("inf", None),
    ("soon", None),
    ("", None),
    ("Fri, 31 Dec 9999 99:99:99 GMT", None),
    (7, None),
]


@pytest.mark.parametrize(("header", "seconds"), RETRY_AFTER)
@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_retry_after_is_read_in_both_forms_and_bounded(name: str, header: object, seconds: float | None) -> None:
    error = with_fields(response=Fields(status_code=503, headers={name: header}))
    assert classify(error, now=NOW).retry_after == seconds


def test_a_retry_after_date_means_nothing_without_the_time() -> None:
    assert classify(with_fields(status=503, headers={"Retry-After": RETRY_DATE})).retry_after is None


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        (Fields(status_code=500, content=b"x" * 5000), "x" * 2000 + "… (5000 bytes)"),
        (Fields(status_code=500, content=b"ok \xff"), "ok �"),
        (Fields(status_code=500, content="text"), "(no body)"),
        (Fields(status_code=500, content=b"waits for the network", _content_consumed=False), "(no body)"),
        (Fields(status_code=500, content=b"already here", _content_consumed=True), "already here"),
        (Fields(status_code=500), "(no body)"),
    ],
)
def test_only_a_body_in_memory_is_taken_and_it_is_bounded(response: Fields, shown: str) -> None:
    assert classify(with_fields(response=response)).detail.endswith(f"HTTP 500: {shown}")


def test_urllibs_body_in_memory_is_taken() -> None:
    error = urllib.error.HTTPError("http://example.org/", 500, "no", {}, io.BytesIO(b"boom"))  # type: ignore[arg-type] # any mapping
    assert classify(error).detail.endswith("HTTP 500: boom")
    error.close()


def test_a_body_that_has_not_arrived_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n")
        answer = http.client.HTTPResponse(here)
        answer.begin()
        error = urllib.error.HTTPError("http://example.org/", 500, "no", answer.headers, answer)
        found = classify(error)  # the test would hang here
        error.close()
    assert found.code == "API_ERROR"
    assert found.detail.endswith(("HTTP 500: ", "HTTP 500: (no body)"))


def test_the_model_sees_type_and_words_on_one_line_without_secrets() -> None:
    found = classify(RuntimeError("login failed\n  password=hunter2 for bob"))
    assert found.message == "RuntimeError: login failed password=*** for bob"
    assert found.exception_type == "RuntimeError"
    assert "hunter2" not in found.detail


def test_the_message_is_bounded_and_an_empty_one_is_the_types_name() -> None:
    assert len(classify(RuntimeError("x " * 100_000)).message) <= 520
    assert classify(RuntimeError()).message == "RuntimeError"


def test_a_traceback_inside_the_words_is_cut_to_its_last_line() -> None:
    text = 'worker died:\nTraceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: bad\n'
    assert classify(RuntimeError(text)).message == "RuntimeError: worker died: ValueError: bad"
    assert classify(RuntimeError("Traceback (most recent call last)")).message == "RuntimeError"


def test_pydantics_errors_are_told_without_the_input() -> None:
    class Login(pydantic.BaseModel):
        pin: int

    with pytest.raises(pydantic.ValidationError) as caught:
        Login.model_validate({"pin": "s3cr3t"})
    found = classify(caught.value)
    assert found.code == "EXECUTION_ERROR"
    assert found.message.startswith("ValidationError: pin: Input should be a valid integer")
    assert "s3cr3t" not in found.message + found.detail


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise LookupError("innermost")


def fail_again(cause: bool, suppress: bool = False) -> None:
    try:
        deep(30)
    except LookupError as error:
        if cause:
            raise RuntimeError("outer") from error
        if suppress:
            raise RuntimeError("outer") from None
        raise RuntimeError("outer")  # noqa: B904 # without `from` on purpose


def test_the_operator_sees_the_chain_of_causes_with_the_places() -> None:
    with pytest.raises(RuntimeError) as caught:
        fail_again(cause=True)
    lines = classify(caught.value).detail.splitlines()
    assert lines[0] == "builtins.RuntimeError: outer"
    assert "builtins.LookupError: innermost" in lines
    assert lines[-1].endswith("in deep")
    assert "  ..." in lines
    assert len(lines) < 20


@pytest.mark.parametrize("suppress", [False, True])
def test_a_context_is_shown_unless_it_was_suppressed(suppress: bool) -> None:
    with pytest.raises(RuntimeError) as caught:
        fail_again(cause=False, suppress=suppress)
    assert ("innermost" in classify(caught.value).detail) is not suppress


def test_each_cause_of_a_chain_without_end_is_told_once_and_a_long_one_is_cut() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).detail.count("builtins.RuntimeError") == 2
    last = RuntimeError("last")
    for _ in range(50):
        last, last.__cause__ = RuntimeError("next"), last
    assert classify(last).detail.count("builtins.RuntimeError") == 5


def test_a_group_of_one_is_judged_by_its_member_however_deep_it_is() -> None:
    nested: Any = TimeoutError("slow")
    for _ in range(500):
        nested = ExceptionGroup("one", [nested])
    found = classify(nested)
    assert (found.code, found.message, found.exception_type) == ("TIMEOUT", "TimeoutError: slow", "TimeoutError")


REFUSED = ConnectionError("north refused")
MISSING = FileNotFoundError("no order")
SHIPPED = ToolError("SHIPPED", "Order 7 is gone.", retry_after=7, effect=Effect.DONE, issues=(Issue("gone", "order"),))


@pytest.mark.parametrize(
    ("members", "code", "transient", "words"),
    [
        ([REFUSED, ConnectionError("south refused")], "NETWORK_ERROR", True, ["north refused", "south refused"]),
        ([TimeoutError(), REFUSED], "TIMEOUT", True, ["TimeoutError", "north refused"]),
        ([REFUSED, MISSING], "NOT_FOUND", False, ["north refused", "no order"]),
        ([MISSING, ValueError("odd")], "EXECUTION_ERROR", False, ["no order", "odd"]),
        ([REFUSED, SHIPPED], "SHIPPED", False, ["north refused", "Order 7 is gone."]),
        ([REFUSED, ExceptionGroup("in", [REFUSED, MISSING])], "NOT_FOUND", False, ["north refused", "no order"]),
        ([REFUSED, ConnectionError("north refused")], "NETWORK_ERROR", True, ["north refused (2 times)"]),
        ([REFUSED, RuntimeError("password=hunter2")], "EXECUTION_ERROR", False, ["password=***"]),
    ],
)
def test_a_group_has_its_members_code_or_the_least_hopeful_of_them_and_names_them(
    members: list[Exception], code: str, transient: bool, words: list[str]
) -> None:
    found = classify(ExceptionGroup("unhandled", members))
    assert (found.code, found.transient, found.counts) == (code, transient, True)
    assert all(word in found.message for word in words)
    assert "failures at once" in found.message
    assert "unhandled" not in found.message
    assert all(type(each).__name__ in found.detail for each in members)


def test_a_group_takes_from_its_members_the_longest_wait_the_worst_effect_and_all_issues() -> None:
    again = ToolError("BUSY", "Later.", retry_after=30, effect=Effect.NONE)
    found = classify(ExceptionGroup("both", [again, SHIPPED]))
    assert (found.retry_after, found.effect, found.issues) == (30, Effect.DONE, SHIPPED.issues)
    assert classify(ExceptionGroup("one", [again, again])).effect is Effect.NONE
    assert classify(ExceptionGroup("both", [again, REFUSED])).effect is None


def test_siblings_that_were_only_cancelled_are_passed_over() -> None:
    group = BaseExceptionGroup("all", [asyncio.CancelledError(), REFUSED, asyncio.CancelledError()])
    assert classify(group).message == "ConnectionError: north refused"
    alone = BaseExceptionGroup("all", [asyncio.CancelledError(), asyncio.CancelledError()])
    assert classify(alone).code == "EXECUTION_ERROR"


def test_of_very_many_members_some_are_named_and_the_rest_counted() -> None:
    found = classify(ExceptionGroup("many", [ConnectionError("x" * 5_000 + str(each)) for each in range(1_000)]))
    assert found.code == "NETWORK_ERROR"
    assert "failures at once" in found.message
    assert len(found.message) < 4_000
    assert len(found.detail) < 10_000


def test_the_operator_sees_what_was_noted_on_an_exception() -> None:
    error = RuntimeError("broken")
    error.add_note("while reading token=abc123")
    assert "note: while reading token=***" in classify(error).detail


def test_the_places_are_those_of_the_authors_code_and_the_innermost_of_what_it_called() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    places = [line for line in classify(caught.value).detail.splitlines() if line.startswith("  at ")]
    assert __file__ in places[0]
    assert len(places) <= 3
    assert "json" in places[-1]


def test_a_wrapper_is_judged_by_itself_not_by_its_cause() -> None:
    error = ValueError("cannot read the order")
    error.__cause__ = TimeoutError()
    assert classify(error).code == "EXECUTION_ERROR"


def test_urllibs_wrapper_is_followed_only_so_far() -> None:
    error = urllib.error.URLError("x")
    error.reason = error
    assert classify(error).code == "EXECUTION_ERROR"


def test_a_tool_error_speaks_for_itself() -> None:
    issue = Issue("shipped", "$.order")
    error = ToolError(
        "SHIPPED",
        "Order 7 is on its way.",
        reason="shipped",
        data={"order": 7},
        retry_after=3,
        transient=True,
        counts=False,
        effect=Effect.NONE,
        issues=(issue,),
    )
    found = classify(error)
    assert found[:6] == ("SHIPPED", "Order 7 is on its way.", True, False, 3.0, "shipped")
    assert (found.exception_type, found.data, found.effect, found.issues) == (
        "ToolError",
        {"order": 7},
        Effect.NONE,
        (issue,),
    )


def test_a_tool_error_takes_from_its_code_what_it_does_not_say() -> None:
    found = classify(ToolError(ToolErrorCode.TIMEOUT, "slow"))
    assert (type(found.code), found.code, found.transient, found.counts) == (str, "TIMEOUT", True, True)
    assert (found.retry_after, found.reason, found.effect, found.issues) == (None, None, None, ())


def test_a_tool_error_with_odd_fields_is_made_well_typed() -> None:
    odd: Any = object()
    error = ToolError(odd, odd, reason=odd, retry_after=odd, transient=odd, counts=odd, effect=odd, issues=(odd,))
    found = classify(error)
    assert found[:6] == ("EXECUTION_ERROR", "The tool gave no reason.", False, True, None, None)
    assert (found.effect, found.issues) == (None, ())


@pytest.mark.parametrize(
    ("code", "message", "read"),
    [
        (5, None, "Error EXECUTION_ERROR: The tool gave no reason."),
        ("", "  ", "Error EXECUTION_ERROR: The tool gave no reason."),
        ("SHIP\nPED\x00 \u2028now", "Gone.", "Error SHIP PED now: Gone."),
        ("X" * 5_000, "Gone.", f"Error {'X' * 100}: Gone."),
        ("SHIPPED", 7, "Error SHIPPED: 7"),
        ("SHIPPED", {"order": 7, "password": "p"}, 'Error SHIPPED: {"order":7,"password":***}'),
        ("SHIPPED", ["a", None], 'Error SHIPPED: ["a",null]'),
    ],
)
def test_whatever_a_tool_puts_for_code_and_message_the_model_reads_one_line_with_words(
    code: Any, message: Any, read: str
) -> None:
    assert ToolResponse.from_exception(ToolError(code, message)).for_model().splitlines()[0] == read


def test_a_tool_error_may_keep_its_words_on_its_class_or_in_its_arguments_and_have_no_issues() -> None:
    class ShippedError(ToolError):
        code = "SHIPPED"
        issues: Any = None

        def __init__(self, order: int) -> None:
            Exception.__init__(self, f"Order {order} is gone.")

    assert classify(ShippedError(7))[:2] == ("SHIPPED", "Order 7 is gone.")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 10**400])
def test_a_tool_error_with_an_impossible_wait_asks_for_none(seconds: float) -> None:
    assert classify(ToolError("RATE_LIMIT", "later", retry_after=seconds)).retry_after is None


class Raises:
    """A descriptor that raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __get__(self, owner: object, kind: type) -> Any:
        if owner is None:
            return self
        raise self.error


def hostile(name: str, error: BaseException) -> BaseException:
    return type("HostileError", (Exception,), {name: Raises(error)})("x")


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize(
    "name", ["__str__", "__class__", "__cause__", "__traceback__", "response", "status_code", "headers", "code", "fp"]
)
def test_a_hostile_exception_never_gets_through(name: str, error: BaseException) -> None:
    found = classify(hostile(name, error))
    assert (found.code, found.exception_type) == ("EXECUTION_ERROR", "HostileError")
    json.dumps(found._replace(issues=()), allow_nan=False).encode()


def test_a_hostile_metaclass_never_gets_through() -> None:
    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override] # as hostile as can be
            raise ZeroDivisionError

    class HostileError(Exception, metaclass=Meta):
        pass

    found = classify(HostileError("x"))
    assert (found.code, found.exception_type) == ("EXECUTION_ERROR", "Exception")


@pytest.mark.parametrize("name", ["__str__", "__class__"])
def test_only_the_users_interrupt_passes(name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        classify(hostile(name, KeyboardInterrupt()))


def test_words_with_half_characters_can_be_encoded() -> None:
    found = classify(RuntimeError("\ud835 x"))
    assert (found.message + found.detail).encode()


def _cause_each_other(errors: list[BaseException]) -> BaseException:
    for error, cause in zip(errors, errors[1:] + errors[:1], strict=True):
        error.__cause__ = cause
    return errors[0]


_TEXT = st.text(max_size=20)
_ANY_VALUE = st.one_of(st.none(), st.integers(), st.floats(), _TEXT, st.lists(_TEXT), st.builds(object))
_SINGLE: st.SearchStrategy[BaseException] = st.one_of(
    st.builds(ToolError, _ANY_VALUE, _ANY_VALUE, reason=_ANY_VALUE, retry_after=_ANY_VALUE, issues=_ANY_VALUE),
    st.builds(lambda kind, text: kind(text), st.sampled_from([ValueError, OSError, SystemExit, MemoryError]), _TEXT),
    st.builds(asyncio.CancelledError),
)
_FAILURE = st.recursive(
    _SINGLE,
    lambda inner: st.one_of(
        st.builds(BaseExceptionGroup, _TEXT, st.lists(inner, min_size=1, max_size=4)),
        st.lists(inner, min_size=1, max_size=4).map(_cause_each_other),
    ),
    max_leaves=20,
)


@given(error=_FAILURE)
def test_any_exception_becomes_a_bounded_error_with_words_on_strict_json(error: BaseException) -> None:
    response = ToolResponse.from_exception(error)
    first = response.for_model().splitlines()[0]
    code, _, words = first.removeprefix("Error ").partition(": ")
    info = response.error_info
    assert info is not None
    assert code == info.code.strip()
    assert words.strip()
    assert len(info.message) < 5_000
    assert len(info.detail) < 10_000
    assert ToolResponse.from_dict(json.loads(response.to_json())).error_info == info
