"""Ids that follow from what an event is made of, so that making it again makes the same id."""

from __future__ import annotations

from hashlib import sha256


def uuid8(noise: bytes) -> str:
    """Return a UUIDv8 (RFC 9562, 5.8) whose free bits are the first 16 bytes of `noise`, such as a digest."""
    bits = noise[:16].hex()
    return f"{bits[:8]}-{bits[8:12]}-8{bits[13:16]}-{'89ab'[noise[8] & 3]}{bits[17:20]}-{bits[20:32]}"


def derived_id(source: bytes, *parts: str | int) -> str:
    """Return a UUIDv8 made of the first 122 bits of SHA-256 over the source and the parts."""
    return uuid8(sha256(b"\0".join((source, *(str(part).encode() for part in parts)))).digest())


def is_derived(id: str) -> bool:
    """Return whether an event's id follows from something; that of a person's event is random."""
    return id[14:15] == "8"


def decisions_id(extraction: str) -> str:
    """Return the id of the decisions that a policy makes about an extraction."""
    return derived_id(extraction.encode(), "consolidated")


def forgetting_id(extraction: str) -> str:
    """Return the id of the event by which a policy gives up items after the decisions about an extraction."""
    return derived_id(extraction.encode(), "forgotten")


def request_key(request_json: str) -> str:
    """Return the key under which a rerun finds a request: SHA-256 of its canonical JSON, in hex."""
    return sha256(request_json.encode()).hexdigest()
