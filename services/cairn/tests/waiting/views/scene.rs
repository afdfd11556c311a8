//! A session with two runs, made by a real server for a client over TCP: one of mixed steps that
//! completes, one that fails.

use super::place::Place;
use crate::support::{Client, connect};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::TestStore;
use serde_json::Value;

pub(crate) const GOAL: &str = "Count the stores under docs.";

/// Every reply has a price of its own, so that no two sums are alike by chance.
const PLAYED: &str = r#"
{"model": {"name": "played-1"}}
{"match": {"contains": "Count the stores"}, "reply": {"text": "{\"order\": \"graph\", \"steps\": [{\"id\": \"survey\", \"title\": \"Survey\", \"description\": \"Look at docs.\"}, {\"id\": \"find\", \"title\": \"Find\", \"tool\": \"search_files\", \"arguments\": {\"path\": \"docs\", \"pattern\": \"Redis\"}, \"depends_on\": [\"survey\"]}, {\"id\": \"tell\", \"title\": \"Tell\", \"description\": \"Say what was found.\", \"depends_on\": [\"survey\", \"find\"]}]}", "usage": {"input_tokens": 100, "output_tokens": 20, "cost_nano_usd": 1000000}}}
{"match": {"step": "Survey"}, "replies": [
{"text": "I split this. Then I look.", "tool_calls": [{"name": "step", "arguments": {"plan": ["List the files", "Read the first"], "focus": "List the files"}}], "usage": {"input_tokens": 200, "output_tokens": 30, "cost_nano_usd": 2000000}},
{"tool_calls": [{"name": "list_files", "arguments": {"path": "docs"}}, {"name": "read_file", "arguments": {"path": "nowhere.md"}}], "usage": {"input_tokens": 300, "output_tokens": 40, "cost_nano_usd": 3000000}},
{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Two files.", "focus": "Read the first"}}], "usage": {"input_tokens": 400, "output_tokens": 10, "cost_nano_usd": 500000}},
{"tool_calls": [{"name": "read_file", "arguments": {"path": "docs/one.md", "from_line": 1, "to_line": 2}}, {"name": "scratchpad", "arguments": {"text": "docs/one.md names Redis"}}, {"name": "session_memory_set", "arguments": {"key": "seen", "value": "docs/one.md"}}], "usage": {"input_tokens": 500, "output_tokens": 50}},
{"text": "All parts are done.", "tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "One mention."}}], "usage": {"input_tokens": 600, "output_tokens": 20, "cost_nano_usd": 1000000}},
{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "docs holds two files."}}], "usage": {"input_tokens": 700, "output_tokens": 10, "cost_nano_usd": 1000000}}]}
{"match": {"step": "Tell"}, "replies": [
{"text": "Redis is named twice.", "usage": {"input_tokens": 800, "output_tokens": 40, "cost_nano_usd": 4000000}},
{"tool_calls": [{"name": "record", "arguments": {"what": "two mentions"}}], "usage": {"input_tokens": 900, "output_tokens": 30}},
{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Two lines name Redis: docs/one.md:2 and docs/two.md:3."}}], "usage": {"input_tokens": 1000, "output_tokens": 20, "cost_nano_usd": 5000000}}]}
"#;

const SETTINGS: &str = r#"
[models.played]
provider = "recorded"
path = "played.jsonl"
"#;

/// The server, its client, and what was watched of the session.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) client: Client,
    pub(crate) session: String,
    pub(crate) events: Vec<(u64, wire::Event)>,
}

impl Scene {
    /// Both runs, watched to their ends.
    pub(crate) async fn play(store: TestStore) -> Self {
        let mut place = Place::over(store);
        place.site.append("cairn.toml", SETTINGS);
        place
            .site
            .write("played.jsonl", &one_exchange_a_line(PLAYED));
        place.keep_serving();
        let mut scene = Self {
            client: connect(place.address()),
            place,
            session: "both".to_owned(),
            events: Vec::new(),
        };
        let request = pb::CreateSessionRequest {
            session: scene.session.clone(),
            request_id: "create".to_owned(),
            title: "Stores".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        let created = scene.client.create_session(request).await;
        created.expect("a session");
        let goal = wire::StartRun {
            goal: GOAL.to_owned(),
            model: "played".to_owned(),
            ..wire::StartRun::default()
        };
        scene.run("r-1", goal).await;
        scene.run("r-2", failing()).await;
        scene
    }

    async fn run(&mut self, request_id: &str, run: wire::StartRun) {
        let request = pb::StartRunRequest {
            session: self.session.clone(),
            request_id: request_id.to_owned(),
            run: Some(run),
            ..pb::StartRunRequest::default()
        };
        self.client.start_run(request).await.expect("a run");
        let after_seq = self.events.last().map_or(0, |(seq, _)| *seq);
        let request = pb::WatchSessionRequest {
            session: self.session.clone(),
            after_seq,
            ..pb::WatchSessionRequest::default()
        };
        let stream = self.client.watch_session(request).await.expect("a watch");
        let mut stream = stream.into_inner();
        loop {
            let message = stream.message().await.expect("an event");
            let message = message.expect("the stream continues");
            let Some(event) = message.event else {
                continue;
            };
            let kind = event.kind.clone();
            self.events.push((message.seq, event));
            if matches!(kind, Some(Kind::RunCompleted(_) | Kind::RunFailed(_))) {
                return;
            }
        }
    }

    pub(crate) async fn tree(&mut self, run: u32, view: pb::TreeView) -> pb::GetTreeResponse {
        let request = pb::GetTreeRequest {
            session: self.session.clone(),
            run,
            view: view.into(),
            at_seq: 0,
        };
        let tree = self.client.get_tree(request).await.expect("a tree");
        tree.into_inner()
    }

    pub(crate) async fn report(&mut self, run: u32) -> String {
        let request = pb::GetReportRequest {
            session: self.session.clone(),
            run,
            at_seq: 0,
        };
        let report = self.client.get_report(request).await.expect("a report");
        report.into_inner().markdown
    }

    pub(crate) async fn plan(&mut self, run: u32) -> pb::GetPlanResponse {
        let request = pb::GetPlanRequest {
            session: self.session.clone(),
            run,
            with_resources: true,
            ..pb::GetPlanRequest::default()
        };
        let plan = self.client.get_plan(request).await.expect("a plan");
        plan.into_inner()
    }

    pub(crate) async fn state(&mut self, at_seq: u64) -> (u64, Value) {
        let request = pb::GetStateRequest {
            session: self.session.clone(),
            at_seq,
        };
        let state = self.client.get_state(request).await.expect("a state");
        let state = state.into_inner();
        (state.seq, serde_json::from_str(&state.json).expect("JSON"))
    }

    /// The whole log, so many entries a page.
    pub(crate) async fn log(&mut self, max_entries: u32) -> Vec<pb::LogEntry> {
        let (mut entries, mut after_seq) = (Vec::new(), 0);
        loop {
            let request = pb::GetExecutionLogRequest {
                session: self.session.clone(),
                after_seq,
                max_entries,
            };
            let page = self.client.get_execution_log(request).await;
            let page = page.expect("a page").into_inner();
            entries.extend(page.entries);
            after_seq = page.next_after_seq;
            if after_seq == 0 {
                return entries;
            }
        }
    }

    /// What a command prints.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        self.place.with_code(0, arguments).out
    }

    /// The events of a run.
    pub(crate) fn events_of(&self, run: u32) -> Vec<(u64, wire::Event)> {
        let begins = |(_, event): &(u64, wire::Event)| matches!(&event.kind, Some(Kind::RunStarted(started)) if started.run == run);
        let events = self.events.iter().skip_while(|event| !begins(event));
        let mut events = events.cloned().collect::<Vec<_>>();
        let is_end = |(_, event): &(u64, wire::Event)| {
            matches!(event.kind, Some(Kind::RunCompleted(_) | Kind::RunFailed(_)))
        };
        let end = events.iter().position(is_end).expect("its end");
        events.truncate(end + 1);
        events
    }
}

/// A recording has one exchange a line; here the replies stand below each other.
fn one_exchange_a_line(text: &str) -> String {
    text.trim_start()
        .replace("\"replies\": [\n", "\"replies\": [")
        .replace("},\n", "}, ")
}

/// The second of three tool steps fails.
fn failing() -> wire::StartRun {
    let step = |tool: &str, arguments: &str| wire::PlanStep {
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments.to_owned(),
        }),
        ..wire::PlanStep::default()
    };
    wire::StartRun {
        plan: Some(wire::Plan {
            order: wire::Order::Chain.into(),
            steps: vec![
                step("list_files", r#"{"path":"docs"}"#),
                step("read_file", r#"{"path":"nowhere.md"}"#),
                step("record", r#"{"what":"never"}"#),
            ],
        }),
        ..wire::StartRun::default()
    }
}
