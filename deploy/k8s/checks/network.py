"""Who may talk to whom, reckoned from the NetworkPolicies as a cluster would."""

import ipaddress
import itertools

from manifests import SERVICES, container, labels, selects

# The calls between services: who calls, who is called.
CALLS = {
    ("orchestrator", "memory"),
    ("orchestrator", "tools"),
    ("orchestrator", "executor"),
    ("orchestrator", "planner"),
    ("executor", "tools"),
    ("tools", "memory"),
}
ASK_MODELS = {"executor", "planner"}
# Addresses of every sort that is not the world: this machine, networks of one's own, services of
# clouds that hand out rights.
NOT_THE_WORLD = (
    "0.0.0.1 10.1.2.3 100.64.1.2 127.0.0.1 169.254.169.254 172.16.3.4 172.31.255.1 192.168.1.1 "
    "198.18.0.1 224.0.0.1 255.255.255.255 ::1 fd00::1 fe80::1 ff02::1 ::ffff:10.1.2.3"
).split()
WORLD = "1.0.0.1 9.9.9.9 172.32.0.1 2620:fe::fe".split()
NODE_DNS = "169.254.20.10"
# Redis, and the sentinels that know where it is.
STORE = [6379, 26379]
PORTS = [22, 53, 80, 443, 4317, 6379, 7878, 7881, 8080, 26379]


def rules(world, pod_labels, way):
    """The rules that hold for pods with these labels, or None if there is no policy for them."""
    found = None
    for policy in world.all("NetworkPolicy"):
        spec = policy["spec"]
        if way in spec["policyTypes"] and selects(spec["podSelector"], pod_labels):
            found = (found or []) + (spec.get(way.lower()) or [])
    return found


def opens(rule, port, protocol="TCP"):
    ports = rule.get("ports")
    return not ports or any(
        p.get("protocol", "TCP") == protocol and p["port"] <= port <= p.get("endPort", p["port"])
        for p in ports
    )


def peers(rule, way):
    """None stands for everybody."""
    return rule.get("to" if way == "Egress" else "from") or None


def of_namespace(peer, given, other_labels):
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer and not selects(peer["namespaceSelector"], given):
        return False
    return "podSelector" not in peer or selects(peer["podSelector"], other_labels)


def may(world, one, other, way, port):
    """Whether `one` may send to (Egress) or take from (Ingress) `other` on this port."""
    given = rules(world, labels(one), way)
    if given is None:
        return True
    name = one["metadata"]["namespace"]
    own = (world.named("Namespace", name) or {"metadata": {}})["metadata"].get("labels", {})
    own = {**own, "kubernetes.io/metadata.name": name}
    return any(
        opens(rule, port)
        and (peers(rule, way) is None or any(of_namespace(p, own, labels(other)) for p in peers(rule, way)))
        for rule in given
    )


def reaches(world, one, address, port, protocol="TCP"):
    """Whether `one` may send to an address outside the cluster."""
    address = ipaddress.ip_address(address)

    def inside(block):
        here = address in ipaddress.ip_network(block["cidr"])
        return here and not any(address in ipaddress.ip_network(e) for e in block.get("except", []))

    given = rules(world, labels(one), "Egress")
    return given is None or any(
        opens(rule, port, protocol)
        and (
            peers(rule, "Egress") is None
            or any("ipBlock" in p and inside(p["ipBlock"]) for p in peers(rule, "Egress"))
        )
        for rule in given
    )


def others(world, one, way):
    """What of other namespaces a workload may talk to, as (namespaces, pods, ports)."""
    found = set()
    for rule in rules(world, labels(one), way) or []:
        ports = tuple(sorted((p["protocol"], p["port"], p.get("endPort")) for p in rule.get("ports", [])))
        for peer in peers(rule, way) or [{"namespaceSelector": {}}]:
            if "namespaceSelector" in peer:
                found.add((str(peer["namespaceSelector"]), str(peer.get("podSelector")), ports))
    return found


def calls(world):
    """each call between services may be sent and taken, and there are no others"""
    default = world.named("NetworkPolicy", "default-deny") or {"spec": {}}
    if default["spec"] != {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}:
        yield "what no policy allows is not forbidden"
    wanted = {(caller, called, SERVICES[called][0]) for caller, called in CALLS}
    if world.named("StatefulSet", "redis"):
        wanted.add(("memory", "redis", 6379))
    for one in world.workloads():
        for other in world.workloads():
            for port in [p["containerPort"] for p in container(other)["ports"]]:
                call = (one["metadata"]["name"], other["metadata"]["name"], port)
                sent = may(world, one, other, "Egress", port)
                taken = may(world, other, one, "Ingress", port)
                if call in wanted and not (sent and taken):
                    yield f"{call} is needed; it may {'' if sent else 'not '}be sent and {'' if taken else 'not '}be taken"
                if call not in wanted and (sent or taken):
                    yield f"{call} is not needed; it may be {'sent' if sent else 'taken'}"


def ask_the_world(keys_of_tools):
    """Tools only with the component `servers`, which brings their keys, too."""
    return ASK_MODELS | ({"tools"} if keys_of_tools else set())


def outside(world):
    """names are looked up; models and servers of tools are asked by those who ask them; nothing else leaves"""
    asking = ask_the_world(container(world.services()["tools"]).get("envFrom"))
    dns = (
        "{'matchLabels': {'kubernetes.io/metadata.name': 'kube-system'}}",
        "{'matchLabels': {'k8s-app': 'kube-dns'}}",
        (("TCP", 53, None), ("UDP", 53, None)),
    )
    monitoring = "{'matchLabels': {'kubernetes.io/metadata.name': 'monitoring'}}"
    clients = "{'matchLabels': {'cairn/clients': 'true'}}"
    has_monitoring = bool(world.named("NetworkPolicy", "observability"))
    for one in world.workloads():
        name = one["metadata"]["name"]
        is_ours = name in SERVICES
        sent = {dns} if is_ours else set()
        taken = {(clients, "None", (("TCP", 7878, None),))} if name == "orchestrator" else set()
        if has_monitoring and is_ours:
            sent.add((monitoring, "None", (("TCP", 4317, None),)))
            taken.add((monitoring, "None", (("TCP", 9481, 9485),)))
        for way, expected in (("Egress", sent), ("Ingress", taken)):
            if others(world, one, way) != expected:
                yield f"{way} of {name} with other namespaces: {others(world, one, way)}"
        for address in WORLD + NOT_THE_WORLD + [NODE_DNS]:
            for port in PORTS:
                if name == "memory" and port in STORE:
                    continue  # The way to its store is looked at below.
                wanted = address in WORLD and port == 443 and name in asking
                wanted = wanted or (address == NODE_DNS and port == 53 and is_ours)
                if reaches(world, one, address, port) != wanted:
                    yield f"{name} may {'not ' if wanted else ''}reach {address}, port {port}"
        if is_ours and not reaches(world, one, NODE_DNS, 53, "UDP"):
            yield f"{name} may not look names up on its node"
    if not world.named("StatefulSet", "redis"):
        yield from way_to_store(world)


def way_to_store(world):
    """Memory alone may reach the network of a store that is elsewhere."""
    for (name, one), port in itertools.product(world.services().items(), STORE):
        blocks = [
            peer["ipBlock"]["cidr"]
            for rule in rules(world, labels(one), "Egress") or []
            if opens(rule, port)
            for peer in peers(rule, "Egress") or []
            if "ipBlock" in peer
        ]
        if bool(blocks) != (name == "memory"):
            yield f"{name} reaches a store in {blocks}, port {port}"
        if any(ipaddress.ip_network(block).prefixlen < 16 for block in blocks):
            yield f"{name} reaches far more than a store: {blocks}"
