"""Where the token of a server is.

Every call over TCP carries a bearer token. A server whose settings name none makes one for its port, in
a file that only its user can read, so programs of the same user on the same machine find it.
"""

from __future__ import annotations

import hashlib
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
    store = os.environ.get("CAIRN_STORE")
    beside_store = [Path(store).parent] if store else _folders_of_workspace()
    return [*([Path(runtime, "cairn")] if runtime else []), *beside_store]


def _folders_of_workspace() -> list[Path]:
    """Where the store of the current folder is: its name ends with the beginning of the path's SHA-256."""
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path.home() / ".local/state"
    digest = hashlib.sha256(os.fsencode(os.path.realpath("."))).hexdigest()[:12]
    return sorted((state / "cairn").glob(f"*-{digest}"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
