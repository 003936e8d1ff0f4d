"""Read the settings, and report all their problems at once."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from minuet.errors import ConfigError
from minuet.settings.table import (
    BLOB_SCHEMES,
    BY_NAME,
    ENVIRONMENTS,
    FAMILY,
    SCHEMES,
    TABLE,
    Environment,
    Setting,
    Value,
    queues_of,
)

#: Reserved for Minuet: a name with this prefix that has no row is a mistake.
PREFIX = "MINUET_"

#: Not settings: the tests and the demo pass these to their own processes.
PRIVATE = ("MINUET_TEST_", "MINUET_DEMO_")

_FLAGS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}

#: `user:password@` in a URL; and the same when the password is not written as it should be.
_PASSWORD = re.compile(r"(?<=://)([^/?#:]*):([^/?#]*)@")
_ODD_PASSWORD = re.compile(r"(?<=://)([^/?#:@]*):(.*)@")
_PASSWORD_OPTION = re.compile(r"(?<=[?&])(password=)[^&]*", re.IGNORECASE)


class Source(msgspec.Struct, frozen=True):
    """A setting's value and where it comes from."""

    setting: Setting
    name: str
    value: Value
    is_set: bool

    @property
    def shown(self) -> str:
        """The value as it may be printed."""
        return show_value(self.setting, self.value)

    def default_shown(self, environment: Environment) -> str:
        """The default as it may be printed."""
        return show_value(self.setting, self.setting.default_in(environment))


class Settings:
    """The settings of this process."""

    def __init__(self, environment: Environment, sources: dict[str, Source]) -> None:
        self.environment = environment
        #: By name, in the table's order; of a family those that are set.
        self.sources = sources

    def __getitem__(self, name: str) -> Any:
        """A value, of the type that the setting's kind says."""
        return self.sources[name].value

    def is_set(self, name: str) -> bool:
        """Whether it is set in the environment."""
        return self.sources[name].is_set

    # ── what follows from them ──────────────────────────────────────────────────────────

    @property
    def store(self) -> str:
        """The URL of the store that commands work on unless they name one; "": none is chosen."""
        if not self.is_set("MINUET_STORE"):
            if self.is_set("POSTGRES_HOST"):
                return self.complete_store("postgresql://")
            if self.is_set("REDIS_HOST"):
                return self.complete_store("redis://")
        return self.complete_store(self["MINUET_STORE"] or "")

    def complete_store(self, url: str) -> str:
        """Fill in what REDIS_* or POSTGRES_* say if a URL names nothing but the kind of store."""
        if url in ("redis://", "rediss://"):
            return f"{url}{self['REDIS_HOST']}:{self['REDIS_PORT']}/0"
        if url in ("postgresql://", "postgres://"):
            user, password = self["POSTGRES_USER"], self["POSTGRES_PASSWORD"]
            who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
            database = quote(self["POSTGRES_DB"] or user, safe="")
            return f"{url}{who}@{self['POSTGRES_HOST']}:{self['POSTGRES_PORT']}/{database}"
        return url

    def queue_leases(self, handlers: Iterable[str]) -> dict[str, float]:
        """The leases of queues that have their own, for a worker that has these handlers."""
        found: dict[str, float] = {}
        for handler in handlers:
            source = self.sources.get(f"STALE_TIMEOUT_{_capitals(handler)}")
            if source is not None and isinstance(source.value, float):
                found |= dict.fromkeys(queues_of(handler), source.value)
        return found

    @property
    def retry(self) -> dict[str, Any]:
        """The retry policy of nodes that have none, as a document would write it."""
        return {
            "max_attempts": self["RETRY_MAX_RETRIES"],
            "backoff_ms": round(self["RETRY_INITIAL_DELAY"] * 1000),
            "multiplier": self["RETRY_EXPONENTIAL_BASE"],
            "max_delay_ms": round(self["RETRY_MAX_DELAY"] * 1000),
            "jitter": self["RETRY_JITTER"],
        }


def read_settings(variables: Mapping[str, str], *, given: Sequence[str] = ()) -> Settings:
    """Read the settings from environment variables; ConfigError lists all problems.

    A variable that is set to nothing counts as not set. Those in `given` come from
    elsewhere and need not be set.
    """
    texts = {name: text for name, text in variables.items() if text.strip()}
    environment = _environment(texts)
    problems: list[str] = []
    sources: dict[str, Source] = {}
    for setting in TABLE:
        for name in _names(setting, texts):
            text = texts.get(name)
            value = setting.default_in(environment)
            if text is not None:
                try:
                    value = _parse(setting, text.strip())
                except ValueError:
                    problems.append(f"{_shown(setting, name, text)} is not {setting.allowed}")
            sources[name] = Source(setting, name, value, text is not None)
    settings = Settings(environment, sources)
    problems += _missing(settings, given) + _contradictions(settings)
    if problems:
        count = f"{len(problems)} settings are" if len(problems) > 1 else "a setting is"
        raise ConfigError("\n  ".join([f"{count} wrong:", *problems]))
    return settings


def show_value(setting: Setting, value: Value) -> str:
    """A value as it may be printed: no secrets."""
    if value is None:
        return ""
    if setting.kind == "secret":
        return "***"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else masked(str(value))


def masked(url: str) -> str:
    """A URL without the password in it."""
    pattern = _PASSWORD if _PASSWORD.search(url) else _ODD_PASSWORD
    return _PASSWORD_OPTION.sub(r"\1***", pattern.sub(r"\1:***@", url))


def is_true(text: str | None) -> bool:
    """The value of a flag's text; anything that is not a flag counts as true."""
    return bool(text) and _FLAGS.get(str(text).strip().lower(), True)


def _environment(texts: Mapping[str, str]) -> Environment:
    """The environment whose defaults count; a wrong name is found when its row is read."""
    text = texts.get("MINUET_ENV", "").strip()
    return next((name for name in ENVIRONMENTS if name == text), "dev")


def _names(setting: Setting, texts: Mapping[str, str]) -> list[str]:
    """The names that a row stands for."""
    if not setting.is_family:
        return [setting.name]
    beginning = setting.name.removesuffix(FAMILY)
    return sorted(
        name
        for name in texts
        if name.startswith(beginning) and name != beginning and name not in BY_NAME
    )


def _parse(setting: Setting, text: str) -> Value:
    """The value of a text; ValueError when it is not valid."""
    if setting.kind == "flag":
        if text.lower() not in _FLAGS:
            raise ValueError(text)
        return _FLAGS[text.lower()]
    if setting.kind in ("whole", "seconds", "number"):
        number = int(text) if setting.kind == "whole" else float(text)
        if not (math.isfinite(number) and setting.least <= number <= setting.most):
            raise ValueError(text)
        return number
    if setting.kind == "choice" and text not in setting.choices:
        raise ValueError(text)
    scheme, separator, _ = text.partition("://")
    if setting.kind == "store" and separator and scheme not in SCHEMES:
        raise ValueError(text)
    if setting.kind == "blobs" and not (separator and scheme in BLOB_SCHEMES):
        raise ValueError(text)
    return text


def _shown(setting: Setting, name: str, text: str) -> str:
    return name if setting.kind == "secret" else f"{name}={masked(text)!r}"


def _missing(settings: Settings, given: Sequence[str]) -> list[str]:
    """What must be set in this environment and is not."""
    if settings.is_set("POSTGRES_HOST") or settings.is_set("REDIS_HOST"):
        given = (*given, "MINUET_STORE")
    return [
        f"{source.name} is not set, and must be in {settings.environment}"
        for source in settings.sources.values()
        if settings.environment in source.setting.required
        and not (source.is_set or source.name in given)
    ]


def _contradictions(settings: Settings) -> list[str]:
    """Problems of values that are each valid but do not fit together."""
    found = []
    if settings["RETRY_MAX_DELAY"] < settings["RETRY_INITIAL_DELAY"]:
        found.append("RETRY_MAX_DELAY is less than RETRY_INITIAL_DELAY")
    if settings["WORKER_HEARTBEAT_TIMEOUT"] < settings["WORKER_HEARTBEAT_INTERVAL"]:
        found.append("WORKER_HEARTBEAT_TIMEOUT is less than WORKER_HEARTBEAT_INTERVAL")
    return found


def find_unknown(variables: Mapping[str, str]) -> list[str]:
    """Messages about names that look like settings but are not."""
    # Without their prefixes, so that MINUET_CONCURRENCY finds WORKER_CONCURRENCY.
    ends = {name.partition("_")[2]: name for name in BY_NAME}
    found = []
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in BY_NAME and not name.startswith(PRIVATE):
            close = difflib.get_close_matches(name.removeprefix(PREFIX), ends, n=1, cutoff=0.7)
            hint = f": did you mean {ends[close[0]]}?" if close else ""
            found.append(f"there is no setting {name}{hint}")
    return found


def _capitals(handler: str) -> str:
    """A handler's name as names of settings write it."""
    return re.sub(r"[^A-Z0-9]", "_", handler.upper())
