"""What a person chooses for a stack, checked before anything is built."""

import os
import re

from .common import Refused

# As the functions take it: a week at most.
APPROVAL_TTL_MAX = 604_800


def port_number(text: str) -> int:
    """A port as it is written on the command line."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text) or int(text) > 65535:
        raise Refused(f"{text!r} is no port: use a number from 1 to 65535, as in PORT=8080")
    return int(text)


def approval_ttl() -> str:
    """How many seconds a question stays open; empty for the product's own lifetimes."""
    text = os.environ.get("APPROVAL_TTL", "")
    if text and not (re.fullmatch(r"[0-9]{1,6}", text) and 1 <= int(text) <= APPROVAL_TTL_MAX):
        raise Refused(
            f"APPROVAL_TTL is {text!r}: use a number of seconds from 1 to {APPROVAL_TTL_MAX}, "
            "or unset it"
        )
    return text


def own_model() -> tuple[str, str, str] | None:
    """Address, name and key of the person's own model; nothing for the scripted one."""
    url, name, key = (
        os.environ.get(f"TOSHI_LLM_{part}", "").strip() for part in ("URL", "MODEL", "KEY")
    )
    if not url and not name:
        return None
    if not name:
        raise Refused("TOSHI_LLM_URL is set without TOSHI_LLM_MODEL: name the model, or unset both")
    if not url:
        raise Refused(
            "TOSHI_LLM_MODEL is set without TOSHI_LLM_URL: give the model's address, or unset both"
        )
    if not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise Refused(
            f"TOSHI_LLM_URL is {url!r}: use an address such as https://api.example.com/v1"
        )
    return url, name, key


def require_settings() -> None:
    approval_ttl()
    own_model()
