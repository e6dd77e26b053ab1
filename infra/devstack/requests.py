"""Requests to what listens on this machine, which may be anything."""

import http.client
import urllib.error
import urllib.request

# An answer of the parts asked here is far smaller.
MOST_BYTES = 1_000_000
# All that a request can end with when what listens speaks no HTTP, or stops in the middle.
Unanswered = (OSError, http.client.HTTPException, ValueError)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


# No proxy of the person's shell: it could not reach this machine's own addresses.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)


def ask(url: str, body: bytes | None = None) -> tuple[int, str]:
    """Status and text of the answer, whatever the status; raises one of `Unanswered`."""
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with OPENER.open(request, timeout=10) as answer:
            return answer.status, answer.read(MOST_BYTES).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(MOST_BYTES).decode(errors="replace")


def status(url: str) -> int | str:
    """The status code of a GET, or why there is none."""
    try:
        return ask(url)[0]
    except Unanswered as error:
        return str(error)


def cause(error: Exception) -> Exception:
    """What is behind the library's own wrapping."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, Exception) else error
