//! `cairn serve` in a folder of its own, with a language model that the test plays.

use super::Client;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Address, Link};
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, Site};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::{Status, Streaming};

pub(crate) const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];
/// The session of every run here.
pub(crate) const SESSION: &str = "s";
/// Nothing that is waited for takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server of a site.
pub(crate) fn client(site: &Site) -> Client {
    let socket = site.socket();
    Client::new(Link::remote(&Address::unix(socket)))
}

/// The model under the name `served`, as the default.
pub(crate) fn add_model(site: &Site, model: &ModelServer) {
    let settings = format!(
        "\n[model]\ndefault = \"served\"\n\n[models.served]\nprovider = \"openai\"\n\
         model = \"served-1\"\nbase_url = \"{}\"\napi_key = \"sk-none\"\n",
        model.url()
    );
    site.append("cairn.toml", &settings);
}

/// The title of the step that a question is about; none if a plan is asked for.
pub(crate) fn title(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array().expect("messages");
    let reported = messages.iter().filter(|it| it["role"] == "user");
    let mut reported =
        reported.filter_map(|it| it["content"].as_str()?.split_once("## Current step"));
    let (_, step) = reported.next()?;
    let (_, title) = step.split_once("Title: ").expect("a title");
    title.lines().next().map(str::to_owned)
}

/// How many replies the conversation of a question has.
pub(crate) fn turn(body: &Value) -> usize {
    let messages = body["messages"].as_array().expect("messages");
    messages
        .iter()
        .filter(|it| it["role"] == "assistant")
        .count()
}

/// The reply that ends a step.
pub(crate) fn done(summary: &str) -> Answer {
    let complete = json!({"complete": true, "summary": summary});
    reply("done", "", &[("step", complete)])
}

/// The reply that is a plan.
pub(crate) fn planned(plan: &Value) -> Answer {
    reply("plan", &plan.to_string(), &[])
}

/// A plan as the planner reads it, for requests.
pub(crate) fn wire_plan(plan: &Value) -> wire::Plan {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let step = |step: &Value| wire::PlanStep {
        id: text(&step["id"]),
        title: text(&step["title"]),
        description: text(&step["description"]),
        tool: step["tool"].as_str().map(|name| wire::ToolInvocation {
            name: name.to_owned(),
            arguments_json: step["arguments"].to_string(),
        }),
        depends_on: step["depends_on"]
            .as_array()
            .map(|ids| ids.iter().map(text).collect())
            .unwrap_or_default(),
        ..wire::PlanStep::default()
    };
    let order = match plan["order"].as_str() {
        Some("graph") => wire::Order::Graph,
        _ => wire::Order::Chain,
    };
    wire::Plan {
        order: order.into(),
        steps: plan["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(step)
            .collect(),
    }
}

/// Starts a run with a plan in a session of its own, which is [`SESSION`].
pub(crate) async fn start(client: &mut Client, plan: &Value) {
    start_in(client, SESSION, plan).await;
}

/// The same in a session of this name.
pub(crate) async fn start_in(client: &mut Client, session: &str, plan: &Value) {
    let request = pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: format!("create-{session}"),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
    let request = pb::StartRunRequest {
        session: session.to_owned(),
        request_id: "start".to_owned(),
        run: Some(wire::StartRun {
            goal: "Keep the books.".to_owned(),
            plan: Some(wire_plan(plan)),
            ..wire::StartRun::default()
        }),
        ..pb::StartRunRequest::default()
    };
    client.start_run(request).await.expect("a run");
}

/// The events of a session, in order.
pub(crate) struct Watch(Streaming<pb::WatchSessionResponse>);

impl Watch {
    /// The events after this one.
    pub(crate) async fn after(
        client: &mut Client,
        session: &str,
        seq: u64,
    ) -> Result<Self, Status> {
        let request = pb::WatchSessionRequest {
            session: session.to_owned(),
            after_seq: seq,
            ..pb::WatchSessionRequest::default()
        };
        Ok(Self(client.watch_session(request).await?.into_inner()))
    }

    /// The next event; waits for it.
    pub(crate) async fn next(&mut self) -> Result<(u64, wire::Event), Status> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.message()).await;
            let message = message.expect("an event in time")?;
            let message = message.ok_or_else(|| Status::unavailable("the watch has ended"))?;
            if let Some(event) = message.event {
                return Ok((message.seq, event));
            }
        }
    }

    /// Waits for an event that is wanted.
    ///
    /// # Panics
    /// If the run fails, or the server goes.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&Kind) -> bool) {
        loop {
            let (_, event) = self.next().await.expect("an event");
            let kind = event.kind.expect("a kind");
            if is_wanted(&kind) {
                return;
            }
            let has_failed = matches!(kind, Kind::RunFailed(_));
            assert!(!has_failed, "{kind:?}");
        }
    }
}

/// Watches a session from its beginning until an event has come so often.
pub(crate) async fn wait_for(
    client: &mut Client,
    session: &str,
    times: usize,
    is_wanted: impl Fn(&Kind) -> bool,
) {
    let mut watch = Watch::after(client, session, 0).await.expect("a watch");
    for _ in 0..times {
        watch.until(&is_wanted).await;
    }
}

pub(crate) fn is_completed(kind: &Kind) -> bool {
    matches!(kind, Kind::RunCompleted(_))
}

/// Whether that is the start of a step.
pub(crate) fn starts(kind: &Kind, step: u32) -> bool {
    let Kind::StepStarted(started) = kind else {
        return false;
    };
    started
        .attempt
        .as_ref()
        .is_some_and(|attempt| attempt.step == step)
}

/// How often a model was asked what.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    counts: Mutex<BTreeMap<String, u32>>,
    more: Condvar,
}

impl Counts {
    /// One more.
    pub(crate) fn add(&self, what: &str) {
        *self.lock().entry(what.to_owned()).or_default() += 1;
        self.more.notify_all();
    }

    /// So far.
    pub(crate) fn so_far(&self) -> BTreeMap<String, u32> {
        self.lock().clone()
    }

    /// Waits until it was asked that so often; the thread can do nothing else meanwhile.
    pub(crate) fn wait_for(&self, what: &str, times: u32) {
        let is_less =
            |counts: &mut BTreeMap<String, u32>| counts.get(what).copied().unwrap_or(0) < times;
        let waited = tokio::task::block_in_place(|| {
            let waited = self.more.wait_timeout_while(self.lock(), PATIENCE, is_less);
            waited.map(|(_, timeout)| timeout.timed_out())
        });
        assert!(
            !waited.expect("counts"),
            "nobody asks {what:?} {times} times"
        );
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
