"""The requests of one run of the server and their files, and the wait for a reply."""

import contextlib
import re
import threading
import time

from parts import to_json
from reply import Unreadable, read_json, read_text
from request import Request

# A reply that has not changed for so many seconds is whole.
UNCHANGED = 0.3


class Play:
    def __init__(self, folder, replay=None, once=0):
        self.folder, self.once = folder, once
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.recorded = [path for _, path in sorted(numbered(replay, r"(\d+)\.reply\.(?:json|md)"))] if replay else []
        self.last = max((number for number, _ in numbered(folder, r"(\d+)\.request\.json")), default=0)
        self.requests, self.cache, self.outstanding = [], set(), 0
        self.lock, self.is_over = threading.Lock(), threading.Event()

    def path(self, request, ending):
        return self.folder / f"{request.number}.{ending}"

    def write(self, request, ending, text):
        """Writes a file that is whole when it appears."""
        draft = self.folder / f".{request.number}.{ending}"
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(self.path(request, ending))

    def log(self, what, request=None):
        about = f"request {request.number}: " if request else ""
        print(f"{time.strftime('%H:%M:%S')} {about}{what}", flush=True)

    def add(self, protocol, body):
        with self.lock:
            request = Request(self.last + 1, protocol, body)
            request.follow(self.requests)
            request.count(self.cache)
            self.last = request.number
            self.requests.append(request)
            self.outstanding += 1
            recorded = self.recorded.pop(0) if self.recorded else None
        if recorded:
            self.write(request, "reply" + recorded.suffix, recorded.read_text(encoding="utf-8", errors="replace"))
        self.write(request, "request.json", to_json(body, 2) + "\n")
        self.write(request, "request.md", request.readable())
        what = f"{protocol.name}, about {request.tokens} tokens"
        if request.before:
            what += f", continues request {request.before.number}"
        self.log(f"{what}; read {self.path(request, 'request.md')}", request)
        return request

    def end(self, request, what, is_gone=False):
        if is_gone:
            self.write(request, "gone", what + "\n")
        self.log(what, request)
        with self.lock:
            self.outstanding -= 1
            ended = len(self.requests) - self.outstanding
        if self.once and ended >= self.once:
            self.is_over.set()


class Inbox:
    """The place of the reply to one request."""

    def __init__(self, play, request):
        self.play, self.request = play, request
        # The file as it was looked at last and since when it has been so, and the file that was refused last.
        self.seen, self.since, self.refused = None, 0.0, None

    def take(self):
        """The reply, once it is there, whole and readable."""
        for ending in ("reply.json", "reply.md"):
            path = self.play.path(self.request, ending)
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                state = (path, stat.st_ino, stat.st_mtime_ns, stat.st_size)
                if state == self.refused:
                    return None
                return self.read(path, state) if self.is_whole(state, stat.st_mtime) else None
        return None

    def is_whole(self, state, changed):
        if state != self.seen:
            self.seen, self.since = state, time.monotonic()
        # The clock of the files may be another one.
        return max(time.time() - changed, time.monotonic() - self.since) >= UNCHANGED

    def read(self, path, state):
        try:
            text = path.read_text(encoding="utf-8-sig")
            is_json = path.suffix == ".json"
            reply = read_json(text) if is_json else read_text(text, [tool.title for tool in self.request.tools])
        except (Unreadable, UnicodeDecodeError) as error:
            self.refused = state
            problem = f"{path.name} cannot be read: {error}"
            advice = "Correct the file: the request still waits. deploy/model-by-hand --help shows the form."
            self.play.write(self.request, "problem.txt", f"{problem}\n{advice}\n")
            self.play.log(problem, self.request)
            return None
        with contextlib.suppress(FileNotFoundError):
            self.play.path(self.request, "problem.txt").unlink()
        return reply


def numbered(folder, pattern):
    """The files of a folder whose names have this pattern, with their numbers."""
    found = [(re.fullmatch(pattern, path.name), path) for path in folder.iterdir()]
    return [(int(name[1]), path) for name, path in found if name]
