"""Proof that the checks can fail: each line breaks one thing, and the check named must see it."""

import copy

from manifests import container, mount, pod, volume


def put(path, value):
    """Sets what is at a path, such as "spec.replicas"; a value of None takes it away."""

    def change(one):
        *way, last = path.split(".")
        for part in way:
            one = one[int(part) if part.isdigit() else part]
        last = int(last) if last.isdigit() else last
        if value is None:
            del one[last]
        else:
            one[last] = value

    return change


def at(kind, name, change):
    def broken(world):
        change(world.named(kind, name))

    return broken


def box(name, path, value):
    return at("Deployment", name, lambda one: put(path, value)(container(one)))


def of_pod(name, path, value):
    return at("Deployment", name, lambda one: put(path, value)(pod(one)))


def of_files(path, value):
    return at("Pod", "files", lambda one: put(path, value)(pod(one)))


def remove(kind, name):
    return lambda world: world.objects.remove(world.named(kind, name))


def add(kind, name, path, value):
    def change(one):
        for part in path.split("."):
            one = one[int(part) if part.isdigit() else part]
        one.append(value)

    return at(kind, name, change)


def settings(old, new):
    def broken(world):
        for config in world.all("ConfigMap"):
            for file, text in config["data"].items():
                config["data"][file] = text.replace(old, new)

    return broken


def variable(name, wanted, value):
    """Sets a variable of a container, or takes it away."""

    def change(one):
        env = container(one)["env"]
        found = next(v for v in env if v["name"] == wanted)
        env.remove(found) if value is None else found.update(value=value)

    return at("Deployment", name, change)


def policy(name, way, rules):
    return at("NetworkPolicy", name, put(f"spec.{way}", rules))


def renamed(one):
    one["metadata"]["name"] = "memory2"


ANYWHERE = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis", "namespace": "cairn"}, "stringData": {"password": "x"}}
ARCHIVE = "CAIRN_STORE__RETENTION__ARCHIVE"

# (overlay, check, what is broken, how)
MANIFESTS = [
    ("try", "kubernetes", "a field is misspelt", box("memory", "readinesProbe", {})),
    ("try", "kubernetes", "a number is a text", at("Service", "tools", put("spec.ports.0.port", "7882"))),
    ("try", "kubernetes", "a field of another kind", at("PodDisruptionBudget", "memory", put("spec.minReady", 1))),
    ("try", "kubernetes", "an unknown kind", at("Deployment", "memory", put("kind", "Deploiment"))),
    ("try", "whole", "a service is missing", remove("Deployment", "planner")),
    ("try", "whole", "no PodDisruptionBudget", remove("PodDisruptionBudget", "executor")),
    ("try", "whole", "no HorizontalPodAutoscaler", remove("HorizontalPodAutoscaler", "tools")),
    ("try", "whole", "another is scaled", at("HorizontalPodAutoscaler", "tools", put("spec.scaleTargetRef.name", "memory"))),
    ("try", "whole", "another namespace", at("Service", "memory", put("metadata.namespace", "default"))),
    ("try", "whole", "a fixed number of replicas", at("Deployment", "memory", put("spec.replicas", 3))),
    ("try", "selectors", "a Deployment selects others", at("Deployment", "memory", put("spec.selector.matchLabels", {"a": "b"}))),
    ("try", "selectors", "a Service selects two", at("Service", "memory", put("spec.selector", {"app.kubernetes.io/name": "cairn"}))),
    ("try", "selectors", "a budget for none", at("PodDisruptionBudget", "memory", put("spec.selector.matchLabels", {"a": "b"}))),
    ("try", "selectors", "a port that is not open", at("Service", "executor", put("spec.ports.0.port", 7884))),
    ("try", "selectors", "a name for one address", at("Service", "executor", put("spec.clusterIP", None))),
    ("try", "probes", "no startup probe", box("memory", "startupProbe", None)),
    ("try", "probes", "no readiness probe", box("tools", "readinessProbe", None)),
    ("try", "probes", "no liveness probe", box("executor", "livenessProbe", None)),
    ("try", "probes", "a probe on another port", box("planner", "readinessProbe.grpc.port", 7883)),
    ("try", "probes", "alive only if all is well", box("memory", "livenessProbe.grpc.service", "")),
    ("try", "probes", "no probe of Redis", at("StatefulSet", "redis", lambda one: put("readinessProbe", None)(container(one)))),
    ("try", "resources", "no limit of memory", box("planner", "resources.limits.memory", None)),
    ("try", "resources", "no requests", box("orchestrator", "resources.requests", None)),
    ("try", "security", "root", of_pod("tools", "securityContext.runAsNonRoot", False)),
    ("try", "security", "no seccomp profile", of_pod("tools", "securityContext.seccompProfile", None)),
    ("try", "security", "a root to write to", box("tools", "securityContext.readOnlyRootFilesystem", False)),
    ("try", "security", "capabilities", box("memory", "securityContext.capabilities", {"drop": ["NET_RAW"]})),
    ("try", "security", "more rights", box("memory", "securityContext.allowPrivilegeEscalation", True)),
    ("try", "security", "a token", of_pod("executor", "automountServiceAccountToken", True)),
    ("try", "security", "variables from Services", of_pod("memory", "enableServiceLinks", None)),
    ("try", "security", "the network of the host", of_pod("memory", "hostNetwork", True)),
    ("try", "security", "a folder of the host", of_pod("tools", "volumes.0", {"name": "config", "hostPath": {"path": "/"}})),
    ("try", "security", "an image without a version", box("memory", "image", "cairn:latest")),
    ("try", "rollout", "an update that takes one away", at("Deployment", "memory", put("spec.strategy.rollingUpdate.maxUnavailable", 1))),
    ("try", "rollout", "all on one node", of_pod("executor", "topologySpreadConstraints", None)),
    ("try", "rollout", "a budget that lets none go", at("PodDisruptionBudget", "memory", put("spec.maxUnavailable", 0))),
    ("try", "drain", "too little time to end", of_pod("executor", "terminationGracePeriodSeconds", 30)),
    ("try", "drain", "a longer grace", settings('grace = "25s"', 'grace = "2m"')),
    ("try", "drain", "a longer pause", box("orchestrator", "lifecycle.preStop.sleep.seconds", 40)),
    ("try", "settings", "a link to nobody", settings("http://tools:7882", "http://tool:7882")),
    ("try", "settings", "a link to another port", settings("http://tools:7882", "http://tools:7881")),
    ("try", "settings", "a listener for nobody", box("memory", "args.3", "--internal=127.0.0.1:7881")),
    ("try", "settings", "another role", box("memory", "args.1", "tools")),
    ("try", "settings", "no file of settings", of_pod("memory", "volumes.0.configMap.name", "other")),
    ("try", "references", "a ConfigMap that is not there", of_pod("memory", "volumes.0.configMap.name", "other")),
    ("try", "references", "a claim that is not there", remove("PersistentVolumeClaim", "workspace")),
    ("try", "references", "a Secret in the repository", lambda world: world.objects.append(SECRET)),
    ("try", "references", "an unknown Secret", box("memory", "env.0.valueFrom.secretKeyRef.name", "reddis")),
    ("try", "references", "a password written down", box("memory", "env.0", {"name": "REDIS_PASSWORD", "value": "x"})),
    ("try", "references", "a variable before what it needs", at("Deployment", "memory", lambda one: container(one)["env"].reverse())),
    ("try", "workspace", "a workspace for each", at("Deployment", "tools", lambda one: next(v for v in pod(one)["volumes"] if v["name"] == "workspace").update(persistentVolumeClaim=None, emptyDir={}))),
    ("try", "workspace", "a workspace elsewhere", at("Deployment", "tools", lambda one: mount(one, "/workspace").update(mountPath="/files"))),
    ("try", "workspace", "output outside of it", settings("/workspace/cairn-out", "/tmp")),
    ("try", "workspace", "a folder of other users", of_pod("tools", "securityContext.fsGroup", None)),
    ("filed", "workspace", "a pod with other files", at("Pod", "files", lambda one: mount(one, "/workspace").update(mountPath="/files"))),
    ("filed", "workspace", "a pod of another user", of_files("securityContext.runAsUser", 1000)),
    ("filed", "security", "a pod that is root", of_files("securityContext.runAsNonRoot", False)),
    ("filed", "resources", "a pod without limits", of_files("containers.0.resources", {})),
    ("filed", "references", "a pod with a claim that is not there", of_files("volumes.0.persistentVolumeClaim.claimName", "files")),
    ("archived", "archive", "no folder is mounted", at("Deployment", "memory", lambda one: container(one)["volumeMounts"].remove(mount(one, "/archive")))),
    ("archived", "archive", "another folder is mounted", at("Deployment", "memory", lambda one: mount(one, "/archive").update(mountPath="/archives"))),
    ("archived", "archive", "another folder is written to", variable("memory", ARCHIVE, "/data")),
    ("archived", "archive", "a place that memory is not told of", variable("memory", ARCHIVE, None)),
    ("archived", "archive", "nothing is ever old enough", variable("memory", "CAIRN_STORE__RETENTION__AFTER", None)),
    ("archived", "archive", "an archive for each", at("Deployment", "memory", lambda one: volume(one, "archive").update(persistentVolumeClaim={}, emptyDir={}))),
    ("archived", "archive", "an archive for one node", at("PersistentVolumeClaim", "archive", put("spec.accessModes", ["ReadWriteOnce"]))),
    ("archived", "archive", "an archive to read", at("Deployment", "memory", lambda one: mount(one, "/archive").update(readOnly=True))),
    ("archived", "archive", "a folder of other users", of_pod("memory", "securityContext.fsGroup", None)),
    ("archived", "references", "a claim for the archive that is not there", remove("PersistentVolumeClaim", "archive")),
    ("certified", "certificates", "a file elsewhere", variable("memory", "CAIRN_STORE__REDIS__CA_FILE", "/etc/ca.crt")),
    ("certified", "certificates", "no Secret", at("Deployment", "memory", lambda one: volume(one, "redis-tls").update(secret={}, emptyDir={}))),
    ("certified", "certificates", "a Secret for nothing", at("Deployment", "memory", lambda one: container(one).pop("env"))),
    ("certified", "references", "a volume of an unknown Secret", at("Deployment", "memory", lambda one: volume(one, "redis-tls")["secret"].update(secretName="tls"))),
    ("try", "token", "no file in the settings", settings('token_file = "/run/secrets/cairn/token"', "")),
    ("try", "token", "a file elsewhere", settings("/run/secrets/cairn/token", "/etc/token")),
    ("try", "token", "no Secret", at("Deployment", "memory", lambda one: volume(one, "token").update(secret={}, emptyDir={}))),
    ("try", "token", "a token of its own", at("Deployment", "tools", lambda one: volume(one, "token")["secret"].update(secretName="model-keys"))),
    ("try", "token", "a token for everybody", at("Deployment", "planner", lambda one: volume(one, "token")["secret"].update(defaultMode=0o644))),
    ("try", "token", "a token that nobody reads", of_pod("executor", "securityContext.fsGroup", None)),
    ("external", "token", "clients without a token", at("Deployment", "orchestrator", lambda one: container(one)["args"].append("--allow-anonymous"))),
    ("try", "store", "Redis that forgets", settings("appendfsync always", "appendfsync everysec")),
    ("try", "store", "Redis that throws out", settings("noeviction", "allkeys-lru")),
    ("try", "store", "Redis without a password", at("StatefulSet", "redis", lambda one: put("command", ["redis-server"])(container(one)))),
    ("try", "store", "Redis without a volume", at("StatefulSet", "redis", put("spec.volumeClaimTemplates", []))),
    ("try", "store", "others know the store", box("tools", "env", [{"name": "CAIRN_STORE", "value": "redis://redis"}])),
    ("external", "store", "no TLS", box("memory", "env.2.value", "redis://$(REDIS_USER):$(REDIS_PASSWORD)@redis.example:6379/0")),
    ("try", "store", "a Redis of one's own that may forget", at("Deployment", "memory", lambda one: container(one)["args"].remove("--require-durable"))),
    ("external", "store", "a store that may forget", box("memory", "args", ["serve", "memory"])),
    ("try", "calls", "no default", remove("NetworkPolicy", "default-deny")),
    ("try", "calls", "sent, but not taken", policy("executor", "ingress", [])),
    ("try", "calls", "taken, but not sent", policy("tools", "egress", [])),
    ("try", "calls", "another port", at("NetworkPolicy", "memory", put("spec.ingress.0.ports.0.port", 7882))),
    ("try", "calls", "open to all", policy("memory", "ingress", [{}])),
    ("try", "calls", "a call that is none", add("NetworkPolicy", "planner", "spec.egress", {"to": [{"podSelector": {}}]})),
    ("try", "calls", "others reach Redis", policy("redis", "ingress", [{"from": [{"podSelector": {}}]}])),
    ("try", "outside", "no names", remove("NetworkPolicy", "dns")),
    ("try", "outside", "tools reach the world", add("NetworkPolicy", "tools", "spec.egress", ANYWHERE)),
    ("try", "outside", "models in networks of one's own", at("NetworkPolicy", "models", lambda one: one["spec"]["egress"][0]["to"][0]["ipBlock"]["except"].remove("169.254.0.0/16"))),
    ("try", "outside", "models on every port", at("NetworkPolicy", "models", lambda one: one["spec"]["egress"][0].pop("ports"))),
    ("try", "outside", "nobody asks models", remove("NetworkPolicy", "models")),
    ("try", "outside", "tools reach the world", at("NetworkPolicy", "models", lambda one: one["spec"]["podSelector"]["matchExpressions"][1]["values"].append("tools"))),
    ("served", "outside", "tools reach no server", at("NetworkPolicy", "models", lambda one: one["spec"]["podSelector"]["matchExpressions"][1]["values"].remove("tools"))),
    ("served", "outside", "tools reach servers on every port", at("NetworkPolicy", "models", lambda one: one["spec"]["egress"][0].pop("ports"))),
    ("try", "outside", "clients from everywhere", at("NetworkPolicy", "orchestrator", put("spec.ingress.0.from.1", {"namespaceSelector": {}}))),
    ("external", "outside", "no way to the store", policy("memory", "egress", [])),
    ("external", "outside", "no way to the sentinels", at("NetworkPolicy", "memory", put("spec.egress.0.ports", [{"protocol": "TCP", "port": 6379}]))),
    ("external", "outside", "a way to far more than the store", at("NetworkPolicy", "memory", put("spec.egress.0.to.0.ipBlock.cidr", "10.0.0.0/8"))),
]
# What only the program can see, where there is one.
PROGRAM = [
    ("try", "accepted", "a setting is misspelt", settings("grace =", "grce =")),
    ("try", "accepted", "a setting has a wrong value", settings('"25s"', '"25"')),
    ("try", "accepted", "a section is misspelt", settings("[links]", "[lnks]")),
    ("try", "accepted", "a flag is misspelt", box("tools", "args.5", "--alow-remote")),
    ("archived", "accepted", "a retention that is no time", variable("memory", "CAIRN_STORE__RETENTION__AFTER", "30")),
    ("certified", "accepted", "a certificate without its key", variable("memory", "CAIRN_STORE__REDIS__KEY_FILE", None)),
    ("try", "accepted", "a variable is misspelt", box("memory", "env.1.name", "CAIRN_STOR")),
]


def in_compose(path, value):
    return put(f"services.{path}", value)


COMPOSE = [
    ("compose", "a field is misspelt", in_compose("memory.commnd", [])),
    ("compose", "a service without a form", in_compose("memory", [])),
    ("same_settings", "another flag", in_compose("tools.command.3", "--internal=0.0.0.0:7881")),
    ("same_settings", "a store that may forget", lambda one: one["services"]["memory"]["command"].remove("--require-durable")),
    ("same_settings", "another image", in_compose("tools.image", "cairn:other")),
    ("same_settings", "no settings", in_compose("executor.configs", [])),
    ("same_settings", "too little time to end", in_compose("executor.stop_grace_period", "10s")),
    ("same_settings", "Redis with settings of its own", in_compose("redis.configs", [])),
    ("same_settings", "Redis without a password", in_compose("redis.command", ["redis-server"])),
    ("same_walls", "root", in_compose("memory.user", "0:0")),
    ("same_walls", "a root to write to", in_compose("memory.read_only", False)),
    ("same_walls", "capabilities", in_compose("memory.cap_drop", [])),
    ("same_walls", "a privileged one", in_compose("tools.privileged", True)),
    ("same_walls", "a port for everybody", in_compose("orchestrator.ports", ["7878:7878"])),
    ("same_walls", "a port of memory", in_compose("memory.ports", ["127.0.0.1:7881:7881"])),
    ("same_walls", "tools reach the world", in_compose("tools.networks", ["internal", "models"])),
    ("same_walls", "planner reaches the store", in_compose("planner.networks", ["internal", "models", "store"])),
    ("same_walls", "executor reaches nobody", in_compose("executor.networks", ["models"])),
    ("same_walls", "an open network", put("networks.internal", {})),
    ("same_store", "another store", in_compose("memory.environment.CAIRN_STORE", "redis://redis")),
    ("same_store", "others know the store", in_compose("tools.environment", {"CAIRN_STORE": "redis://redis"})),
    ("same_store", "another password", in_compose("redis.environment.REDISCLI_AUTH", "another")),
    ("same_token", "no token", lambda one: one["services"]["executor"]["environment"].pop("CAIRN_TOKEN")),
    ("same_token", "a token written down", in_compose("memory.environment.CAIRN_TOKEN", "a-token-in-the-file")),
    ("same_token", "a token for Redis", in_compose("redis.environment.CAIRN_TOKEN", "a-token-for-the-checks")),
    ("same_token", "clients without a token", lambda one: one["services"]["orchestrator"]["command"].append("--allow-anonymous")),
    ("health", "a service without a health check", lambda one: one["services"]["tools"].pop("healthcheck")),
    ("health", "a health check that lists all sessions", in_compose("orchestrator.healthcheck.test.2", "sessions")),
    ("health", "a health check of another service", in_compose("planner.healthcheck.test.3", "--server=http://127.0.0.1:7878")),
    ("same_store", "keys of models for tools", in_compose("tools.environment", {"OPENAI_API_KEY": "x"})),
]
# The same with the file that lets tools reach servers.
COMPOSE_WITH_SERVERS = [
    ("same_walls", "tools reach no server", in_compose("tools.networks", ["internal"])),
    ("same_walls", "tools reach those who ask models", in_compose("tools.networks", ["internal", "models"])),
    ("same_walls", "the orchestrator beside tools", in_compose("orchestrator.networks", ["internal", "servers"])),
]


def broken(original, change):
    one = copy.deepcopy(original)
    change(one)
    return one
