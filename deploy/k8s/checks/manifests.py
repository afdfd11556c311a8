"""What holds for the rendered manifests beside their schemas.

A check takes a World and yields what is wrong, one text for each fault.
"""

import re
import tomllib

SERVICES = {
    # name: (port, port of the metrics, service that answers for the process)
    "memory": (7881, 9481, "cairn.memory.v1.JournalService"),
    "tools": (7882, 9482, "cairn.tools.v1.ToolsService"),
    "executor": (7883, 9483, "cairn.executor.v1.ExecutorService"),
    "planner": (7884, 9484, "cairn.planner.v1.PlannerService"),
    "orchestrator": (7878, 9485, "cairn.orchestrator.v1.OrchestratorService"),
}
# What a user makes by hand, so that no secret is in a repository.
SECRETS = {"redis", "redis-tls", "model-keys", "tool-keys", "token"}
SETTINGS = "/etc/cairn/cairn.toml"
# What a process may take after serve.grace: answers on their way, the store, the last spans.
AFTER_GRACE = 10


class World:
    """The objects of one rendering."""

    def __init__(self, objects):
        self.objects = objects

    def all(self, kind):
        return [o for o in self.objects if o["kind"] == kind]

    def named(self, kind, name):
        return next((o for o in self.all(kind) if o["metadata"]["name"] == name), None)

    def workloads(self):
        return self.all("Deployment") + self.all("StatefulSet")

    def pods(self):
        """All that runs: workloads, and pods of nobody."""
        return self.workloads() + self.all("Pod")

    def services(self):
        """The Deployments of Cairn's services, by name."""
        return {o["metadata"]["name"]: o for o in self.all("Deployment")}

    def settings(self, deployment):
        """The text of cairn.toml as this Deployment's container sees it."""
        mounted = mount(deployment, SETTINGS.rsplit("/", 1)[0])
        source = volume(deployment, mounted["name"]) if mounted else {}
        config = self.named("ConfigMap", source.get("configMap", {}).get("name"))
        return (config or {}).get("data", {}).get("cairn.toml", "")


def pod(workload):
    spec = workload["spec"]
    return spec if workload["kind"] == "Pod" else spec["template"]["spec"]


def container(workload):
    return pod(workload)["containers"][0]


def labels(workload):
    return workload["spec"]["template"]["metadata"].get("labels", {})


def mount(workload, path):
    mounts = container(workload).get("volumeMounts", [])
    return next((m for m in mounts if m["mountPath"] == path), None)


def volume(workload, name):
    return next((v for v in pod(workload).get("volumes", []) if v["name"] == name), {})


def selects(selector, given):
    """Whether a label selector takes these labels; an empty one takes all."""
    wanted = (selector or {}).get("matchLabels", {})
    if any(given.get(key) != value for key, value in wanted.items()):
        return False
    for rule in (selector or {}).get("matchExpressions", []):
        value, values = given.get(rule["key"]), rule.get("values", [])
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[rule["operator"]]:
            return False
    return True


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def whole(world):
    """five services, each with all that belongs to one"""
    if set(world.services()) != set(SERVICES):
        yield f"the Deployments are {sorted(world.services())}"
    for kind in ("Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"):
        for name in SERVICES:
            if not world.named(kind, name):
                yield f"{name} has no {kind}"
    for one in world.objects:
        if one["kind"] != "Namespace" and one["metadata"].get("namespace") != "cairn":
            yield f"{one['kind']} {one['metadata']['name']} is in another namespace"
    for claim in world.all("HorizontalPodAutoscaler"):
        spec, name = claim["spec"], claim["metadata"]["name"]
        if spec["scaleTargetRef"] != {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}:
            yield f"the HorizontalPodAutoscaler {name} scales another"
        if not 1 <= spec.get("minReplicas", 0) <= spec["maxReplicas"]:
            yield f"the HorizontalPodAutoscaler {name} has no range"
        if "replicas" in world.services().get(name, {"spec": {}})["spec"]:
            yield f"the Deployment {name} has a number of replicas, which undoes what was scaled"


def selectors(world):
    """every selector takes the pods that it means, and no others"""
    for one in world.workloads():
        if not selects(one["spec"]["selector"], labels(one)):
            yield f"{one['metadata']['name']} does not select its own pods"
        for spread in pod(one).get("topologySpreadConstraints", []):
            if not selects(spread["labelSelector"], labels(one)):
                yield f"{one['metadata']['name']} spreads other pods"
    for kind in ("Service", "PodDisruptionBudget"):
        for one in world.all(kind):
            name, selector = one["metadata"]["name"], one["spec"]["selector"]
            selector = {"matchLabels": selector} if kind == "Service" else selector
            taken = [w["metadata"]["name"] for w in world.workloads() if selects(selector, labels(w))]
            if taken != [name]:
                yield f"the {kind} {name} selects the pods of {taken}"
    for one in world.all("Service"):
        name, spec = one["metadata"]["name"], one["spec"]
        owner = next((w for w in world.workloads() if w["metadata"]["name"] == name), None)
        open_ports = {p["name"]: p["containerPort"] for p in container(owner)["ports"]} if owner else {}
        for port in spec["ports"]:
            if open_ports.get(port["targetPort"]) != port["port"]:
                yield f"the Service {name} leads to a port that is not there"
        if name != "orchestrator" and spec.get("clusterIP") != "None":
            yield f"the Service {name} hides the addresses of its pods"


def probes(world):
    """gRPC probes: begun and ready when the whole serves, alive as long as the process answers"""
    for name, one in world.services().items():
        port, _, service = SERVICES.get(name, (None, None, None))
        for probe, asked in (("startup", ""), ("readiness", ""), ("liveness", service)):
            grpc = container(one).get(f"{probe}Probe", {}).get("grpc")
            if not grpc:
                yield f"{name} has no {probe} probe over gRPC"
            elif (grpc["port"], grpc.get("service", "")) != (port, asked):
                yield f"the {probe} probe of {name} asks {grpc}"
    for one in world.all("StatefulSet"):
        missing = {"startupProbe", "readinessProbe", "livenessProbe"} - container(one).keys()
        if missing:
            yield f"{one['metadata']['name']} has no {sorted(missing)}"


def resources(world):
    """requests and limits of every container"""
    for one in world.pods():
        given = container(one).get("resources", {})
        for part in ("requests", "limits"):
            missing = {"cpu", "memory"} - given.get(part, {}).keys()
            if missing:
                yield f"{one['metadata']['name']} has no {part} of {sorted(missing)}"


def security(world):
    """no root, no rights, nothing to write to, no token"""
    account = world.named("ServiceAccount", "cairn") or {}
    if account.get("automountServiceAccountToken") is not False:
        yield "the ServiceAccount gives its token away"
    for one in world.pods():
        name, spec, box = one["metadata"]["name"], pod(one), container(one)
        context, own = spec.get("securityContext", {}), box.get("securityContext", {})
        demands = {
            "may run as root": context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 0,
            "has no seccomp profile": context.get("seccompProfile") == {"type": "RuntimeDefault"},
            "may write to its root": own.get("readOnlyRootFilesystem") is True,
            "may get more rights": own.get("allowPrivilegeEscalation") is False,
            "keeps capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "has a token": spec.get("automountServiceAccountToken") is False,
            "has the account of others": spec.get("serviceAccountName") == "cairn",
            "takes variables from Services": spec.get("enableServiceLinks") is False,
            "shares the host": not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(),
            "has a folder of the host": not any("hostPath" in v for v in spec.get("volumes", [])),
            "has several containers": len(spec["containers"] + spec.get("initContainers", [])) == 1,
        }
        for fault, holds in demands.items():
            if not holds:
                yield f"{name} {fault}"
        tag = box["image"].rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest"):
            yield f"{name} has an image without a version: {box['image']}"


def rollout(world):
    """an update takes no process away before another is there, and spreads them"""
    for name, one in world.services().items():
        rolling = one["spec"].get("strategy", {}).get("rollingUpdate", {})
        if rolling.get("maxUnavailable") != 0 or not rolling.get("maxSurge"):
            yield f"{name} is updated by {rolling}"
        if not pod(one).get("topologySpreadConstraints"):
            yield f"{name} is not spread over nodes"
    for one in world.all("PodDisruptionBudget"):
        if one["spec"].get("maxUnavailable") != 1:
            yield f"the PodDisruptionBudget {one['metadata']['name']} does not let one go"


def drain(world):
    """a process has the time to end that it is configured to take"""
    for name, one in world.services().items():
        grace = tomllib.loads(world.settings(one)).get("serve", {}).get("grace", "10s")
        pause = container(one).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        needed = pause + seconds(grace) + AFTER_GRACE
        given = pod(one).get("terminationGracePeriodSeconds", 30)
        if given < needed:
            yield f"{name} needs {needed:g} s to end and has {given}"


def settings(world):
    """listeners, links and the file of settings fit together"""
    for name, one in world.services().items():
        port, metrics, _ = SERVICES.get(name, (None, None, None))
        listener = "listen" if name == "orchestrator" else "internal"
        wanted = [
            "serve", name, f"--config={SETTINGS}", f"--{listener}=0.0.0.0:{port}",
            f"--metrics=0.0.0.0:{metrics}", "--allow-remote",
        ]
        if container(one)["args"][: len(wanted)] != wanted:
            yield f"{name} is started with {container(one)['args']}"
        ports = {p["name"]: p["containerPort"] for p in container(one)["ports"]}
        if ports != {"grpc": port, "metrics": metrics}:
            yield f"{name} has the ports {ports}"
        text = world.settings(one)
        if not text:
            yield f"{name} does not see {SETTINGS}"
        links = tomllib.loads(text).get("links", {})
        expected = {s: f"http://{s}:{SERVICES[s][0]}" for s in SERVICES if s != "orchestrator"}
        if links != expected:
            yield f"{name} looks for the others at {links}"


def references(world):
    """what is referred to is there, and no secret is written down"""
    for one in world.all("Secret"):
        yield f"the Secret {one['metadata']['name']} is in the repository"
    for one in world.pods():
        name, spec, box = one["metadata"]["name"], pod(one), container(one)
        for part in spec.get("volumes", []):
            config = part.get("configMap", {}).get("name")
            claim = part.get("persistentVolumeClaim", {}).get("claimName")
            if config and not world.named("ConfigMap", config):
                yield f"{name} mounts the ConfigMap {config}, which is not there"
            secret = part.get("secret", {}).get("secretName")
            if secret and secret not in SECRETS:
                yield f"{name} mounts the unknown Secret {secret}"
            if claim and not world.named("PersistentVolumeClaim", claim):
                yield f"{name} mounts the claim {claim}, which is not there"
        known = {v["name"] for v in spec.get("volumes", [])}
        known |= {c["metadata"]["name"] for c in one["spec"].get("volumeClaimTemplates", [])}
        for part in box.get("volumeMounts", []):
            if part["name"] not in known:
                yield f"{name} mounts {part['name']}, which is no volume"
        seen = set()
        for variable in box.get("env", []):
            secret = variable.get("valueFrom", {}).get("secretKeyRef", {}).get("name")
            if secret and secret not in SECRETS:
                yield f"{name} takes {variable['name']} from the unknown Secret {secret}"
            for used in re.findall(r"\$\((\w+)\)", variable.get("value", "")):
                if used not in seen:
                    yield f"{variable['name']} of {name} needs {used}, which is not set before it"
            if re.search(r"(KEY|PASSWORD|TOKEN|AUTH)$", variable["name"]) and "value" in variable:
                yield f"{variable['name']} of {name} is written down"
            seen.add(variable["name"])
        for source in box.get("envFrom", []):
            if source.get("secretRef", {}).get("name") not in SECRETS:
                yield f"{name} takes variables from {source}"


def workspace(world):
    """tools have the one workspace, and of the services nobody else has"""
    for name, one in world.services().items():
        mounted = mount(one, "/workspace")
        claim = volume(one, mounted["name"]).get("persistentVolumeClaim") if mounted else None
        if name == "tools" and not claim:
            yield "tools have no shared workspace"
        if name == "tools" and not pod(one).get("securityContext", {}).get("fsGroup"):
            yield "tools cannot write to the workspace"
        if name != "tools" and mounted:
            yield f"{name} sees the workspace"
        given = tomllib.loads(world.settings(one)).get("workspace", {})
        if given.get("path") != "/workspace" or not given.get("output", "").startswith("/workspace/"):
            yield f"{name} is told of the workspace {given}"
    for one in world.all("Pod"):
        mounted = mount(one, "/workspace")
        if not mounted or volume(one, mounted["name"]).get("persistentVolumeClaim") != {"claimName": "workspace"}:
            yield f"{one['metadata']['name']} does not have the workspace"
        context, wanted = (pod(p)["securityContext"] for p in (one, world.services()["tools"]))
        if any(context.get(part) != wanted[part] for part in ("runAsUser", "runAsGroup", "fsGroup")):
            yield f"{one['metadata']['name']} does not work as the user of tools"


def archive(world):
    """what is archived goes to one folder that all processes of memory may write to"""
    one = world.services()["memory"]
    settings_of_file = tomllib.loads(world.settings(one)).get("store", {}).get("retention", {})
    given = {v["name"]: v.get("value") for v in container(one).get("env", [])}
    after = given.get("CAIRN_STORE__RETENTION__AFTER", settings_of_file.get("after"))
    folder = given.get("CAIRN_STORE__RETENTION__ARCHIVE", settings_of_file.get("archive"))
    if not folder:
        if world.named("PersistentVolumeClaim", "archive"):
            yield "there is a place for an archive, and memory is not told of it"
        return
    if not after:
        yield "memory has an archive, and does not end sessions"
    mounted = mount(one, folder)
    if not mounted:
        yield f"memory archives to {folder}, where nothing is mounted"
        return
    name = volume(one, mounted["name"]).get("persistentVolumeClaim", {}).get("claimName")
    modes = (world.named("PersistentVolumeClaim", name) or {"spec": {}})["spec"].get("accessModes")
    if modes != ["ReadWriteMany"] or "subPathExpr" in mounted:
        yield f"the processes of memory do not share {folder}"
    if mounted.get("readOnly") or not pod(one).get("securityContext", {}).get("fsGroup"):
        yield f"memory cannot write to {folder}"


def certificates(world):
    """what memory is shown of certificates and keys is in a Secret that it mounts"""
    one = world.services()["memory"]
    given = {v["name"]: v["value"] for v in container(one).get("env", []) if v["name"].endswith("_FILE")}
    for name, file in given.items():
        mounted = mount(one, file.rpartition("/")[0])
        if not mounted or not volume(one, mounted["name"]).get("secret"):
            yield f"{name} is {file}, which is in no Secret"
    for part in pod(one).get("volumes", []):
        if part.get("secret", {}).get("secretName", "token") != "token" and not given:
            yield f"memory mounts the Secret {part['secret']['secretName']} and is not told of it"


def token(world):
    """every service has the one token, from a Secret that it mounts and nobody else reads"""
    for name, one in world.services().items():
        file = tomllib.loads(world.settings(one)).get("serve", {}).get("token_file", "")
        mounted = mount(one, file.rpartition("/")[0]) or {}
        secret = volume(one, mounted.get("name")).get("secret", {})
        if secret.get("secretName") != "token":
            yield f"{name} has its token in {file or 'no file'}, which is not in the Secret token"
            continue
        if not mounted.get("readOnly") or secret.get("defaultMode", 0o644) & 0o007:
            yield f"the token of {name} can be read or written by others"
        if not pod(one).get("securityContext", {}).get("fsGroup"):
            yield f"{name} cannot read its token"
        if "--allow-anonymous" in container(one)["args"]:
            yield f"{name} admits clients without a token"


def store(world):
    """only memory knows the store, which is one that keeps what it acknowledged"""
    for name, one in world.services().items():
        given = [v for v in container(one).get("env", []) if v["name"].startswith(("CAIRN_STORE", "REDIS"))]
        addresses = [v.get("value", "") for v in given if v["name"] == "CAIRN_STORE"]
        if name != "memory":
            if given:
                yield f"{name} knows the store"
            continue
        if len(addresses) != 1 or "$(REDIS_PASSWORD)@" not in addresses[0]:
            yield f"memory has its store at {addresses}"
            continue
        own = world.named("StatefulSet", "redis")
        scheme = addresses[0].partition(":")[0]
        if own and scheme != "redis":
            yield "the Redis for trying out has no TLS"
        if not own and scheme != "rediss":
            yield "memory speaks to its store without TLS"
        if "--require-durable" not in container(one)["args"]:
            yield "memory would serve with a store that forgets"
    for one in world.all("StatefulSet"):
        yield from redis(world, one)


def redis(world, one):
    name = volume(one, "config").get("configMap", {}).get("name")
    text = ((world.named("ConfigMap", name) or {}).get("data") or {}).get("redis.conf", "")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    given = {words[0]: " ".join(words[1:]) for words in lines}
    for setting, value in {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "maxmemory-policy": "noeviction",
    }.items():
        if given.get(setting) != value:
            yield f"Redis has {setting} {given.get(setting)}"
    if len(one["spec"].get("volumeClaimTemplates", [])) != 1 or one["spec"].get("replicas") != 1:
        yield "Redis is not one process with one volume"
    command = " ".join(container(one).get("command", []))
    if "requirepass $REDISCLI_AUTH" not in command:
        yield "Redis asks for no password"
