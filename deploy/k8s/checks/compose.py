"""What holds for the compose file beside its schema: the same settings as in the cluster."""

import re
import tomllib

from manifests import AFTER_GRACE, SERVICES, container, seconds, volume
from network import ASK_MODELS, CALLS, ask_the_world


def interpolated(text, given):
    """Puts in variables as compose does: ${NAME:-default} and ${NAME:?why}."""

    def value(match):
        if match[0] == "$$":
            return "$"
        name, way, rest = match[1], match[2], match[3]
        if name in given:
            return given[name]
        if way == ":?":
            raise ValueError(f"{name} is not set: {rest}")
        return rest or ""

    return re.sub(r"\$\$|\$\{(\w+)(?:(:[-?])([^}]*))?\}", value, text)


def started(document):
    return {name: document["services"].get(name, {}) for name in SERVICES}


def same_settings(document, world, folder):
    """every service is started as in the cluster, with the same file of settings"""
    for name, one in started(document).items():
        deployment = world.services()[name]
        if one.get("command") != container(deployment)["args"]:
            yield f"{name} is started with {one.get('command')}"
        if one.get("image") != container(deployment)["image"]:
            yield f"{name} has another image: {one.get('image')}"
        text = configured(document, folder, one, "/etc/cairn/cairn.toml")
        if text != world.settings(deployment):
            yield f"{name} has other settings"
        grace = tomllib.loads(world.settings(deployment))["serve"]["grace"]
        if seconds(one.get("stop_grace_period", "10s")) < seconds(grace) + AFTER_GRACE:
            yield f"{name} is not given the time to end"
    redis, stateful = document["services"].get("redis", {}), world.named("StatefulSet", "redis")
    own = configured(document, folder, redis, "/etc/redis/redis.conf")
    config = world.named("ConfigMap", volume(stateful, "config")["configMap"]["name"])
    if own != config["data"]["redis.conf"]:
        yield "Redis has other settings"
    if redis.get("image") != container(stateful)["image"]:
        yield f"Redis has another image: {redis.get('image')}"
    if redis.get("command") != container(stateful)["command"]:
        yield "Redis is started in another way"


def configured(document, folder, service, target):
    source = next((c["source"] for c in service.get("configs", []) if c["target"] == target), None)
    file = document.get("configs", {}).get(source, {}).get("file")
    return (folder / file).read_text() if file else None


def with_servers(document, more):
    """Both files together, as compose merges them."""
    tools = document["services"]["tools"]
    added = more["services"]["tools"]
    tools = tools | added | {"networks": tools["networks"] + added["networks"]}
    return document | {
        "services": document["services"] | more["services"] | {"tools": tools},
        "networks": document["networks"] | more["networks"],
    }


def same_walls(document, world, _):
    """no rights, nothing to write to, and no network between those who do not talk"""
    for name, one in document["services"].items():
        walls = {
            "may write to its root": one.get("read_only") is True,
            "keeps capabilities": one.get("cap_drop") == ["ALL"],
            "may get more rights": one.get("security_opt") == ["no-new-privileges:true"],
            "may run as root": re.fullmatch(r"[1-9]\d*:\d+", one.get("user", "")),
            "may take all memory": one.get("mem_limit"),
            "is privileged": not {"privileged", "cap_add", "network_mode", "pid", "ipc"} & one.keys(),
        }
        for fault, holds in walls.items():
            if not holds:
                yield f"{name} {fault}"
        for port in one.get("ports", []):
            if name != "orchestrator" or not str(port).startswith("127.0.0.1:"):
                yield f"{name} opens {port} to others"
        if "/workspace" in [v["target"] for v in one.get("volumes", []) if isinstance(v, dict)] and name != "tools":
            yield f"{name} sees the workspace"
    networks = {name: set(one.get("networks", ["default"])) for name, one in document["services"].items()}
    closed = {n for n, made in document["networks"].items() if (made or {}).get("internal")}
    asking = ask_the_world(document["services"]["tools"].get("env_file"))
    for name, joined in networks.items():
        leaves = joined - closed
        if bool(leaves) != (name in asking or name == "orchestrator"):
            yield f"{name} is in {sorted(joined)}"
        if name in ("orchestrator", "tools") and leaves & (networks["executor"] | networks["planner"]):
            yield f"{name} is in the network of those who ask models"
        if name == "orchestrator" and leaves & networks["tools"]:
            yield "the orchestrator is in the network of those who ask servers of tools"
        if bool(joined & networks["redis"]) != (name in ("memory", "redis")):
            yield f"{name} {'reaches' if name != 'memory' else 'does not reach'} the store"
    for caller, called in CALLS:
        if not networks[caller] & networks[called] & closed:
            yield f"{caller} does not reach {called}"


def same_store(document, world, _):
    """only memory is told of the store, and by the address of the cluster"""
    wanted = next(
        v["value"] for v in container(world.services()["memory"])["env"] if v["name"] == "CAIRN_STORE"
    )
    for name, one in started(document).items():
        given = one.get("environment", {}).get("CAIRN_STORE")
        if name == "memory" and given != wanted.replace("$(REDIS_PASSWORD)", "a-password"):
            yield f"memory has its store at {given}"
        if name != "memory" and given:
            yield f"{name} knows the store"
        has_keys = "OPENAI_API_KEY" in one.get("environment", {})
        if has_keys != (name in ASK_MODELS):
            yield f"{name} {'has' if has_keys else 'has no'} keys of models"
    if document["services"]["redis"].get("environment") != {"REDISCLI_AUTH": "a-password"}:
        yield "Redis has another password"


def same_token(document, *_):
    """every service has the token that the variable names, and clients need it"""
    for name, one in document["services"].items():
        given = one.get("environment", {}).get("CAIRN_TOKEN")
        if given != (VARIABLES["CAIRN_TOKEN"] if name in SERVICES else None):
            yield f"{name} has the token {given}"
        if "--allow-anonymous" in one["command"]:
            yield f"{name} admits clients without a token"


def health(document, *_):
    """every service is asked for its health, at its own port, and nothing that grows with the sessions"""
    for name, one in started(document).items():
        test = one.get("healthcheck", {}).get("test")
        if not test:
            yield f"{name} has no health check"
            continue
        listens = [flag.rpartition(":")[2] for flag in one["command"] if flag.startswith(("--listen=", "--internal="))]
        if test != ["CMD", "/cairn", "doctor", f"--server=http://127.0.0.1:{listens[0]}"]:
            yield f"{name} is healthy by {test}"


CHECKS = [same_settings, same_walls, same_store, same_token, health]
VARIABLES = {
    "CAIRN_REDIS_PASSWORD": "a-password",
    "CAIRN_TOKEN": "a-token-for-the-checks",
    "CAIRN_WORKSPACE": "/somewhere",
}
