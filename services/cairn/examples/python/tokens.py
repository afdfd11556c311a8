"""Where the token of a server is.

Every call over TCP carries a bearer token. A server whose settings name none makes one for its port, in
a file that only its user can read, so programs of the same user on the same machine find it.
"""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit


def find_token(address: str) -> str | None:
    """The token for a server at `host:port`: `CAIRN_TOKEN`, or the file of a port of this machine."""
    given = os.environ.get("CAIRN_TOKEN")
    if given:
        return given
    place = urlsplit(f"//{address}")
    if not _is_loopback(place.hostname or ""):
        return None
    for folder in _folders():
        try:
            return (folder / f"{place.port}.token").read_text().strip()
        except OSError:
            continue
    return None


def _folders() -> list[Path]:
    """Where servers put these files: the folder of the user's session, or beside the store."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    store = Path(os.environ.get("CAIRN_STORE") or ".cairn/cairn.db")
    return [*([Path(runtime, "cairn")] if runtime else []), store.parent]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
