"""Checks the rendered manifests and the compose file. deploy/test-deploy calls it.

    python deploy/k8s/checks [--self-test] [--program FILE] --compose FILE [OVERLAY=FILE]...

Ends with 0 if all checks hold and with 1 if not. With --self-test it breaks what it was given, one
thing at a time, and ends with 0 if the check that is meant to see it does.
"""

import argparse
import pathlib
import sys

import yaml

import breaks
import compose
import manifests
import network
import program
import schemas

CHECKS = [
    schemas.kubernetes, manifests.whole, manifests.selectors, manifests.probes, manifests.resources,
    manifests.security, manifests.rollout, manifests.drain, manifests.settings, manifests.references,
    manifests.workspace, manifests.archive, manifests.certificates, manifests.token, manifests.store,
    network.calls, network.outside,
]  # fmt: skip
COMPOSE_CHECKS = [schemas.compose, *compose.CHECKS]
TRIPPED = "it cannot be checked"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--program")
    parser.add_argument("--compose", type=pathlib.Path, required=True)
    parser.add_argument("rendered", nargs="*", metavar="OVERLAY=FILE")
    given = parser.parse_args()
    worlds = {}
    for one in given.rendered:
        name, _, file = one.partition("=")
        objects = yaml.safe_load_all(pathlib.Path(file).read_text())
        worlds[name] = manifests.World([o for o in objects if o])
    text = compose.interpolated(given.compose.read_text(), compose.VARIABLES)
    document, folder = yaml.safe_load(text), given.compose.parent
    servers = yaml.safe_load(compose.interpolated((folder / "servers.yaml").read_text(), compose.VARIABLES))
    documents = {"compose": document, "compose with servers": compose.with_servers(document, servers)}
    tally = Tally()
    checks = CHECKS + ([program.accepts(given.program)] if given.program else [])
    if given.self_test:
        self_test(tally, checks, worlds, documents, folder)
    else:
        for name, world in worlds.items():
            for check in checks:
                tally.add(f"{name}: {check.__doc__}", faults(check, world))
        for name, document in documents.items():
            for check in COMPOSE_CHECKS if "try" in worlds else COMPOSE_CHECKS[:1]:
                tally.add(f"{name}: {check.__doc__}", faults(check, document, worlds.get("try"), folder))
    return tally.end()


def self_test(tally, checks, worlds, documents, folder):
    """Everything is broken in its turn."""
    by_name = {check.__name__: check for check in checks + COMPOSE_CHECKS}
    for overlay, check, what, change in breaks.MANIFESTS + breaks.PROGRAM:
        if overlay in worlds and check in by_name:
            world = breaks.broken(worlds[overlay], change)
            tally.add(f"{overlay}, {what}: {check} sees it", unseen(faults(by_name[check], world)))
    of_compose = [("compose", *one) for one in breaks.COMPOSE]
    of_compose += [("compose with servers", *one) for one in breaks.COMPOSE_WITH_SERVERS]
    for name, check, what, change in of_compose if "try" in worlds else []:
        seen = faults(by_name[check], breaks.broken(documents[name], change), worlds["try"], folder)
        tally.add(f"{name}, {what}: {check} sees it", unseen(seen))
    tried = {check for _, check, *_ in breaks.MANIFESTS + breaks.PROGRAM + of_compose}
    tally.add("every check is tried", sorted(by_name.keys() - tried))


def unseen(seen):
    """What is wrong with a check that saw this of something broken."""
    tripped = [fault for fault in seen if fault.startswith(TRIPPED)]
    return ["it does not"] if not seen else tripped


def faults(check, *of):
    try:
        return list(check(*of))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as fault:
        return [f"{TRIPPED}: {type(fault).__name__}: {fault}"]


class Tally:
    """Counts what holds, and says what does not."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, what, problems):
        if problems:
            self.failed += 1
            print(f"FAILED: {what}")
            for problem in problems[:20]:
                print(f"  {problem}")
        else:
            self.passed += 1
            print(f"ok: {what}")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


sys.exit(main())
