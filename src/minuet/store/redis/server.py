"""What a server must be before a store is opened on it, and what it can lose."""

from __future__ import annotations

from typing import Any

from minuet.errors import MinuetError, StoreUnavailableError, StoreUnusableError
from minuet.store.redis.address import Address
from minuet.store.redis.connection import Connection

VERSION_MIN = (7, 0)


async def check_servers(connection: Connection, address: Address) -> tuple[str, bool]:
    """Refuse what cannot work; else say in words what can be lost, and whether it is a cluster."""
    (info,) = await _ask_servers(connection, address)
    is_cluster = bool(info.get("cluster_enabled"))
    if is_cluster:
        await connection.use_cluster()
        infos = await _ask_servers(connection, address)
    else:
        infos = [info]
    for info in infos:
        problem = find_problem(info, accept_loss=address.accept_loss)
        if problem is not None:
            raise StoreUnusableError(f"the Redis server at {address.shown} {problem}")
    said = {describe_durability(info) for info in infos}
    return "; or on another server: ".join(sorted(said)), is_cluster


async def _ask_servers(connection: Connection, address: Address) -> list[dict[str, Any]]:
    """What each server reports about itself; `appendfsync` only where CONFIG is allowed."""
    try:
        infos = await connection.ask_servers("INFO")
    except StoreUnavailableError:
        raise
    except MinuetError as error:
        if "DB index" in str(error):
            raise StoreUnusableError(
                f"the Redis server at {address.shown} has no such database"
            ) from error
        raise
    try:
        settings = await connection.ask_servers("CONFIG GET", "appendfsync")
    except MinuetError:
        settings = [{} for _ in infos]
    return [{**info, **setting} for info, setting in zip(infos, settings, strict=True)]


def find_problem(info: dict[str, Any], *, accept_loss: bool = False) -> str | None:
    """Why a server that reports this about itself cannot be used."""
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < VERSION_MIN:
        return f"is version {version}; Minuet needs Redis 7 or Valkey"
    if info.get("role") not in ("master", None):
        return "is a replica, which cannot be written to; name the master"
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"may remove keys when memory is short (maxmemory-policy {policy}): set `noeviction`"
    if not info.get("aof_enabled") and not accept_loss:
        return (
            "keeps nothing on disk (appendonly no): set `appendonly yes`, or accept the loss of "
            "everything with `?accept_loss=1`"
        )
    return None


def describe_durability(info: dict[str, Any]) -> str:
    """What the server is, and what it can lose."""
    name = f"Redis {info.get('redis_version', '')}"
    if info.get("server_name") == "valkey":
        name = f"Valkey {info.get('valkey_version', '')}"
    if not info.get("aof_enabled"):
        return f"{name}, appendonly no: when the server ends, everything is lost"
    mode = info.get("appendfsync")
    match mode:
        case "always":
            loses = (
                "a crash or a power cut of the server loses nothing that was answered; a failover "
                "can lose the last answers"
            )
        case "everysec":
            loses = "a crash of the server, or a failover, can lose the last 2 seconds"
        case None:
            mode = "unknown (CONFIG is not allowed)"
            loses = "a crash of the server, or a failover, can lose the last answers"
        case _:
            loses = "a power cut of the server can lose the last half minute"
    return f"{name}, appendfsync {mode}: {loses}"
