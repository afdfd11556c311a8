/**
 * A tour of Cairn for a client in TypeScript; every part checks what it shows.
 *
 * It goes on while the server is killed and started again, and ends with 0 only if all of it held.
 */

import { randomUUID } from "node:crypto";
import { isDeepStrictEqual, parseArgs } from "node:util";

import { status } from "@grpc/grpc-js";

import { Client, Watch, type Numbered } from "./client.js";
import { memory, orchestrator } from "./contracts.js";
import { CairnError } from "./errors.js";
import type { Event__Output } from "./generated/cairn/event/v1/Event.js";
import type { PlanStep } from "./generated/cairn/event/v1/PlanStep.js";
import type { StartRun } from "./generated/cairn/event/v1/StartRun.js";
import type { Pending__Output } from "./generated/cairn/orchestrator/v1/Pending.js";
import type { StartRunResponse__Output as Started } from "./generated/cairn/orchestrator/v1/StartRunResponse.js";

const USAGE = `usage: run [options]
  --address HOST:PORT  the server (default: CAIRN_ADDRESS, else 127.0.0.1:7878)
  --goal TEXT          a goal to be planned by the server's model; without it, a plan of our own
  --cut-every N        cut the watch on purpose after every N events; 0: never (default: 4)
  --patience SECONDS   how long a call or a watch goes without an answer or an event (default: 60)
  --begin-call         only start a run whose call can be brought in doubt by killing the server
  --expect-pending     no call in doubt is an error`;

/** The tool with side effects that clients.toml gives to the server. */
const LETTER_TOOL = "post_letter";

function check(held: boolean, claim: string): asserts held {
  if (!held) throw new Error(`this did not hold: ${claim}`);
}

function say(topic: string, text: string): void {
  console.log(`${topic.padEnd(9)} ${text}`);
}

/** A step that is one call of a tool and needs no model. */
function toolStep(title: string, tool: string, args: object): PlanStep {
  return { id: title.toLowerCase(), title, tool: { name: tool, argumentsJson: JSON.stringify(args) } };
}

/** The goal, to be planned by a model; or, without one, a plan of our own. */
function whatToDo(goal: string | undefined): StartRun {
  if (goal) return { goal };
  const survey = toolStep("Survey", "list_files", { max: 20 });
  const search = toolStep("Search", "search_files", { pattern: "lantern", max: 20 });
  const text = { path: "cairn-out/typescript.md", content: "Surveyed and searched.\n" };
  // Survey and search run at the same time, and the note waits for both.
  const note = { ...toolStep("Note", "write_file", text), dependsOn: ["survey", "search"] };
  return { goal: "Survey the workspace", plan: { order: "ORDER_GRAPH", steps: [survey, search, note] } };
}

/** The error of a call that is meant to fail. */
async function failure(call: Promise<unknown>, claim: string): Promise<CairnError> {
  try {
    await call;
  } catch (thrown) {
    if (thrown instanceof CairnError) return thrown;
    throw thrown;
  }
  throw new Error(`this did not hold: ${claim}`);
}

/** A request with a mistake: the error names the field, what is wrong, and what is allowed. */
async function beRefused(client: Client): Promise<void> {
  const request = { requestId: "two words", run: whatToDo(undefined) };
  const call = client.call(orchestrator.StartRun, request);
  const error = await failure(call, "a requestId with a space is refused");
  if (error.code !== status.INVALID_ARGUMENT) throw error;
  check(error.violations.map((one) => one.field).join() === "request_id", "it names the field");
  say("refused", error.reason);
  for (const { field, problem, allowed } of error.violations) {
    say("", `${field}: ${problem}; allowed: ${allowed}`);
  }
}

/** Starts a run. However often it is asked for, it starts once. */
async function start(client: Client, run: StartRun): Promise<Started> {
  // Made once, before the first attempt. A program that may itself be killed stores it first.
  const requestId = `typescript-${randomUUID()}`;
  const started = await client.call(orchestrator.StartRun, { requestId, run });
  const again = await client.call(orchestrator.StartRun, { requestId, run });
  check(isDeepStrictEqual(started, again), "the same request has the same answer");
  const other = client.call(orchestrator.StartRun, { requestId, run: { goal: "Another" } });
  const error = await failure(other, "a requestId stands for one request");
  if (error.reason !== "REQUEST_MISMATCH") throw error;
  say("started", `${started.session} run ${started.run}; asked twice, started once`);
  return started;
}

/** The number of the run that ends with this event, or undefined. */
function endedRun(event: Event__Output): number | undefined {
  switch (event.kind) {
    case "runCompleted":
      return event.runCompleted?.run;
    case "runFailed":
      return event.runFailed?.run;
    case "runCancelled":
      return event.runCancelled?.run;
    default:
      return undefined; // Among them kinds that are newer than this program.
  }
}

/** Watches a run from its first event to its last, over a line that breaks. Gives the last. */
async function follow(client: Client, started: Started, cutEvery: number): Promise<Event__Output> {
  const { session, run, seq } = started;
  const watch = new Watch(client, session, seq - 1, cutEvery);
  const seen: Numbered[] = [];
  let last: Event__Output | undefined;
  for await (const numbered of watch.events()) {
    seen.push(numbered);
    last = numbered.event;
    say(String(numbered.seq).padStart(6), last.kind ?? "of a kind that is newer than this program");
    if (last.runWaiting?.reason === "WAIT_REASON_IN_DOUBT") {
      say("", "somebody has to decide; see ListPending");
    }
    if (endedRun(last) === run) break;
  }
  // The watch has checked that each number is one more than the one before. Here it is compared
  // with the journal, read in one go.
  const unread = seen.slice();
  for await (const theirs of new Watch(client, session, seq - 1).events()) {
    const mine = unread.shift();
    check(isDeepStrictEqual(mine, theirs), `event ${theirs.seq} is the same however it is read`);
    if (unread.length === 0) break;
  }
  const { cuts, losses } = watch;
  const breaks = `${cuts} cuts by us, ${losses} lost connections`;
  say("watched", `${seen.length} events, ${breaks}; none missed, none twice`);
  check(last !== undefined, "a run has events");
  return last;
}

/** The plan with the state of its steps, the execution tree, the report. */
async function look(client: Client, { session, run }: Started): Promise<void> {
  const plan = await client.call(orchestrator.GetPlan, { session, run });
  say("plan", `revision ${plan.revision}, ${plan.order}`);
  for (const { number, step, status: state, summary } of plan.steps) {
    const word = state.replace("STEP_STATUS_", "").toLowerCase();
    say("", `${number} ${step?.title ?? ""}: ${word}, ${summary}`);
    check(state === "STEP_STATUS_COMPLETED", `step ${number} is completed`);
  }
  const tree = await client.call(orchestrator.GetTree, { session, run, view: "TREE_VIEW_NODES" });
  const known = new Set([""]);
  for (const node of tree.nodes) {
    check(known.has(node.parentId), "parents come before their children");
    known.add(node.id);
  }
  const todo = await client.call(orchestrator.GetTree, { session, run, view: "TREE_VIEW_TODO" });
  say("tree", `${tree.nodes.length} nodes; their goals:`);
  for (const line of todo.text.trimEnd().split("\n")) say("", line);
  const report = await client.call(orchestrator.GetReport, { session, run });
  const lines = report.markdown.trimEnd().split("\n");
  check(report.markdown !== "", "there is a report");
  say("report", `${lines.length} lines; the first: ${lines[0]}`);
}

/** Session memory: what steps and clients of one session tell each other. */
async function remember(client: Client, session: string): Promise<void> {
  // No requestId here: a repeat sets the same value again.
  const entry = { key: "tea", value: "green, <hot>\nand no sugar" };
  await client.call(memory.SetMemory, { session, ...entry });
  const got = await client.call(memory.GetMemory, { session, key: "tea" });
  check(got.value === entry.value, "what was set is read");
  const absent = await client.call(memory.GetMemory, { session, key: "coffee" });
  check(absent.value === undefined, "an absent key has no value, and is no error");
  const { entries } = await client.call(memory.ListMemory, { session });
  say("memory", entries.map(({ key, value }) => `${key} = ${JSON.stringify(value)}`).join(", "));
}

/** Starts a run that calls the slow tool with side effects, and waits until it is on its way. */
async function beginLetter(client: Client): Promise<void> {
  const steps = [toolStep("Post", LETTER_TOOL, { to: "Ada" }), toolStep("Survey", "list_files", {})];
  const { session, seq } = await start(client, { goal: "Post a letter", plan: { steps } });
  for await (const { event } of new Watch(client, session, seq - 1).events()) {
    const why = event.runFailed?.failure?.message;
    check(event.kind !== "runFailed", `the server has the tool of clients.toml (it says: ${why})`);
    if (event.kind === "callIntended") break;
  }
  say("begun", "the call may be on its way now: kill the server and start it again,");
  say("", "then run this example with --expect-pending");
}

/** The letters of which nobody knows whether they were posted. */
async function findLetters(client: Client, expected: boolean): Promise<Pending__Output[]> {
  const patience = client.patience();
  for (;;) {
    // Without a session: in all sessions of this caller.
    const { pending } = await client.call(orchestrator.ListPending, {});
    // There may be questions of other programs; those are not ours to answer.
    const found = pending.filter((one) => one.tool === LETTER_TOOL);
    if (found.length > 0 || !expected) return found;
    // A server that was just started may still be taking up what was interrupted.
    await patience.wait().catch(() => {
      check(false, `there is a pending call of '${LETTER_TOOL}', as --expect-pending says`);
    });
  }
}

/** Answers for a call whose outcome nobody knows, and sees its run go on. */
async function settle(client: Client, letter: Pending__Output, cutEvery: number): Promise<void> {
  const { session, run, id, settleAfterUnixMs } = letter;
  say("in doubt", `${letter.tool} ${letter.argumentsJson} of ${session}`);
  say("", `its key, to look for where the letters are: ${letter.callKey}`);
  const request = {
    session,
    pendingId: id,
    settlement: { done: { output: "posted, says the post office" } },
    // Made from the question: a second copy of this program gives the same answer, not another. A
    // call that is sent again and comes in doubt again has the same id, but another time.
    requestId: `typescript-${id}-${settleAfterUnixMs}`,
  };
  try {
    await client.call(orchestrator.Decide, request);
    say("decided", "done; takes effect when the call can no longer be running");
  } catch (thrown) {
    const reason = thrown instanceof CairnError ? thrown.reason : "";
    if (reason !== "ALREADY_DECIDED" && reason !== "NOT_PENDING") throw thrown;
    say("decided", "by somebody else");
  }
  const { runs } = await client.call(orchestrator.ListRuns, { session });
  check(runs.length === run, "the run that waits is the last of its session");
  // The whole session, as our StartRun made it: the first run begins with its events.
  const last = await follow(client, { session, run, seq: 1 }, cutEvery);
  check(last.kind === "runCompleted", "the run goes on and is completed");
}

interface Options {
  readonly goal: string | undefined;
  readonly cutEvery: number;
  readonly expectPending: boolean;
}

async function tour(client: Client, { goal, cutEvery, expectPending }: Options): Promise<void> {
  await beRefused(client);
  const started = await start(client, whatToDo(goal));
  const last = await follow(client, started, cutEvery);
  check(last.kind === "runCompleted", `the run is completed: ${JSON.stringify(last)}`);
  say("answer", last.runCompleted?.answer ?? "");
  await look(client, started);
  await remember(client, started.session);
  const letters = await findLetters(client, expectPending);
  if (letters.length === 0) {
    say("settle", "skipped: no call is in doubt (see README.md for how to make one)");
  }
  for (const letter of letters) await settle(client, letter, cutEvery);
  console.log(`all of it held; calls repeated: ${client.repeats}`);
}

function commandLine() {
  const text = (value: string) => ({ type: "string", default: value }) as const;
  const flag = { type: "boolean", default: false } as const;
  try {
    const { values } = parseArgs({
      options: {
        address: text(process.env["CAIRN_ADDRESS"] || "127.0.0.1:7878"),
        goal: { type: "string" },
        "cut-every": text("4"),
        patience: text("60"),
        "begin-call": flag,
        "expect-pending": flag,
        help: flag,
      },
    });
    if (!values.help) return values;
    console.log(USAGE);
    process.exit(0);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    process.exit(2);
  }
}

const values = commandLine();
const client = new Client(values.address, Number(values.patience) * 1000);
try {
  if (values["begin-call"]) {
    await beginLetter(client);
  } else {
    const cutEvery = Number(values["cut-every"]);
    await tour(client, { goal: values.goal, cutEvery, expectPending: values["expect-pending"] });
  }
} catch (error) {
  console.error(`FAILED    ${error} (server: ${values.address})`);
  process.exitCode = 1;
} finally {
  client.close();
}
