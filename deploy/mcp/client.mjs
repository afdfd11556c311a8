// The client of the conformance kit: cairn with the kit's server in its settings. Each tool is called in a
// session of its own, and what it asks is answered.
//   client.mjs PROGRAM URL
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [program, url] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "cairn-mcp-"));
const state = mkdtempSync(join(tmpdir(), "cairn-state-"));
const protocol = process.env.CAIRN_MCP_PROTOCOL ?? "auto";

writeFileSync(
  join(folder, "cairn.toml"),
  `[mcp.servers.kit]\nurl = ${JSON.stringify(url)}\nprotocol = "${protocol}"\n` +
    `[[tools.rules]]\ntool = "kit__*"\nanswer = "allow"\n[telemetry]\nmetrics = "off"\n`,
);

// Standard output of a command; null if it ended with another code than these.
function cairn(codes, ...args) {
  const env = { ...process.env, CAIRN_CONFIG: "cairn.toml", HOME: folder, XDG_STATE_HOME: state };
  try {
    return execFileSync(program, args, { cwd: folder, env, encoding: "utf8", timeout: 60_000 });
  } catch (error) {
    process.stderr.write(`cairn ${args.join(" ")}: ${error.status}\n${error.stderr}\n${error.stdout}\n`);
    return codes.includes(error.status) ? error.stdout : null;
  }
}

// A value that the schema takes.
function example(schema, at) {
  if (schema.enum) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  switch (schema.type) {
    case "number":
    case "integer":
      return [5, 3, 1][at] ?? 1;
    case "boolean":
      return true;
    case "array":
      return [];
    case "object":
      return object(schema);
    default:
      return "text";
  }
}

// One tool of the kit wants the schema of another, as it was listed.
function given(tool, tools) {
  const shown = tools.find((it) => it.name === "kit__json_schema_2020_12_tool");
  return tool.name === "kit__json_schema_echo" ? { schema: shown.parameters } : object(tool.parameters);
}

function object(schema) {
  const names = Object.keys(schema.properties ?? {});
  const wanted = names.filter((name) => (schema.required ?? names).includes(name));
  return Object.fromEntries(wanted.map((name, at) => [name, example(schema.properties[name], at)]));
}

function answers(session) {
  const pending = cairn([], "pending", session, "--json") ?? "";
  for (const line of pending.split("\n").filter(Boolean)) {
    const asked = JSON.parse(line);
    const fields = [...asked.question.matchAll(/^- (\w+): (true or false|a number|a whole number|one of (\w+)|a text)/gm)];
    const values = fields.map(([, name, kind, first]) => [
      name,
      kind.startsWith("true") ? true : kind.includes("number") ? 1 : (first ?? "text"),
    ]);
    cairn([], "decide", session, asked.id, "answer", JSON.stringify(Object.fromEntries(values)));
  }
}

// One process for all commands, as a server would have it.
async function serve() {
  const env = { ...process.env, CAIRN_CONFIG: "cairn.toml", HOME: folder, XDG_STATE_HOME: state };
  const serving = spawn(program, ["serve", "--listen", "127.0.0.1:0", "--json"], { cwd: folder, env });
  await new Promise((ready) => serving.stdout.once("data", ready));
  return serving;
}

const serving = await serve();
let failed = false;
try {
  const listed = (cairn([], "tools", "--json") ?? "").split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const tools = listed.filter((it) => it.kind === "tool" && it.source === "kit" && it.state === "ready");
  // What the kit wants to be called, and each other tool once.
  const { toolCalls = [] } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
  // A schema that wants a text takes no null; a model leaves the argument out.
  const present = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
  const wanted = toolCalls.map((call) => ({ tool: `kit__${call.name}`, arguments: present(call.arguments) }));
  const others = tools.filter((tool) => !wanted.some((call) => call.tool === tool.name));
  const calls = [...wanted, ...others.map((tool) => ({ tool: tool.name, arguments: given(tool, tools) }))];
  for (const [at, call] of calls.entries()) {
    const session = `s${at}`;
    const plan = { steps: [call] };
    writeFileSync(join(folder, "plan.json"), JSON.stringify(plan));
    let ended = cairn([1, 3], "run", "--plan", "plan.json", "--session", session);
    for (let round = 0; round < 6 && ended !== null && /asks/.test(ended); round++) {
      answers(session);
      ended = cairn([1, 3], "resume", session);
    }
    failed ||= ended === null;
  }
} finally {
  const ended = new Promise((gone) => serving.once("exit", gone));
  serving.kill("SIGTERM");
  await ended;
  for (const made of [folder, state]) rmSync(made, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
