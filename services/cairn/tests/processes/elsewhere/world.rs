//! Two orchestrators, each with a memory process before it, over one store on Redis. Runs are begun
//! at the first, and everything else is asked of the second.

use crate::support::CAIRN;
use crate::support::{Client, connect, model_step, tool_step};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::apply_plan_request::Change;
use cairn_testkit::{Cluster, Site, TestStore};
use std::time::{Duration, Instant};
use tonic::Streaming;

/// Owners look for commands that nobody told them of when they renew their leases, every third of
/// this.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Nothing that is waited for takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The step "Wait" has no answer for an hour; all others are thought about for ever. The planner is
/// asked in the words of a feedback, and answers at once.
const PLAYED: &str = r#"{"match": {"contains": "another way"}, "reply": {"text": "{\"steps\": [{\"title\": \"Wait\", \"description\": \"Do it another way.\"}]}"}}
{"match": {"step": "Title: Wait"}, "reply": {"delay_ms": 3600000, "text": "late"}}
{"match": {"step": "Title: Think"}, "reply": {"text": "hm"}, "repeat": true}
"#;

/// What is asked of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Command {
    Pause,
    Cancel,
    Skip,
    Plan,
    Feedback,
    Decision,
}

impl Command {
    pub(crate) const ALL: [Self; 6] = [
        Self::Pause,
        Self::Cancel,
        Self::Skip,
        Self::Plan,
        Self::Feedback,
        Self::Decision,
    ];

    fn is_granted(self, kind: &Kind) -> bool {
        match self {
            Self::Pause => matches!(kind, Kind::RunPaused(_)),
            Self::Cancel => matches!(kind, Kind::RunCancelled(_)),
            Self::Skip => matches!(kind, Kind::StepSkipped(it) if it.by_person),
            Self::Plan | Self::Feedback => {
                matches!(kind, Kind::PlanApplied(it) if it.revision == 2)
            }
            Self::Decision => matches!(kind, Kind::BudgetRaised(_)),
        }
    }
}

/// How long it took from the request on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Until whoever watches has seen the event.
    pub(crate) seen: Duration,
    /// Until the answer was there.
    pub(crate) answered: Duration,
}

pub(crate) struct World<'a> {
    pub(crate) cluster: Cluster<'a>,
    _store: TestStore,
}

pub(crate) fn site() -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let lease = format!("lease = \"{}s\"", LEASE.as_secs());
    let settings = settings.replace("lease = \"1s\"", &lease);
    let played = "\n[model]\ndefault = \"played\"\n\n[models.played]\nprovider = \"recorded\"\n\
                  path = \"played.jsonl\"\n";
    site.write("cairn.toml", &(settings + played));
    site.write("played.jsonl", PLAYED);
    site
}

impl<'a> World<'a> {
    pub(crate) fn start(site: &'a Site, store: TestStore) -> Self {
        let cluster = Cluster::several(site, &store.variables(), [2, 1, 1, 1, 2]);
        Self {
            cluster,
            _store: store,
        }
    }

    fn client(&self, orchestrator: usize) -> Client {
        let url = &self.cluster.addresses("orchestrator")[orchestrator];
        connect(url)
    }

    /// Begins a run at the first orchestrator, asks the second, and watches there, too.
    ///
    /// # Panics
    /// If another orchestrator has taken the session over meanwhile. Nobody owns one that waits for a
    /// decision: whoever takes it then must be told of it, too.
    pub(crate) async fn ask(&self, change: Command, name: &str) -> Times {
        let mut owner = self.client(0);
        let session = begin(&mut owner, change, name).await;
        let mut other = self.client(1);
        let mut watch = watch(&mut other, &session).await;
        let is_ready = |kind: &Kind| match change {
            Command::Decision => matches!(kind, Kind::RunWaiting(_)),
            _ => matches!(kind, Kind::StepStarted(_)),
        };
        until(&mut watch, change, is_ready).await;
        let began = Instant::now();
        let asked = async {
            send(&mut other, change, &session).await;
            began.elapsed()
        };
        let seen = async {
            until(&mut watch, change, |kind| change.is_granted(kind)).await;
            began.elapsed()
        };
        let (answered, seen) = tokio::join!(asked, seen);
        if !matches!(change, Command::Cancel) {
            send(&mut other, Command::Cancel, &session).await;
        }
        Times { seen, answered }
    }
}

async fn begin(client: &mut Client, change: Command, name: &str) -> String {
    let title = if change == Command::Decision {
        "Think"
    } else {
        "Wait"
    };
    let request = pb::StartRunRequest {
        request_id: name.to_owned(),
        run: Some(wire::StartRun {
            goal: "Wait or think.".to_owned(),
            plan: Some(plan(title)),
            limits: Some(wire::LimitOverrides {
                max_turns: if change == Command::Decision { 1 } else { 0 },
                ..wire::LimitOverrides::default()
            }),
            ..wire::StartRun::default()
        }),
        ..pb::StartRunRequest::default()
    };
    let started = client.start_run(request).await.expect("a run");
    started.into_inner().session
}

fn plan(title: &str) -> wire::Plan {
    wire::Plan {
        order: wire::Order::Chain.into(),
        steps: vec![model_step(title), model_step("Wait")],
    }
}

/// Asks, and waits for the answer.
async fn send(client: &mut Client, change: Command, session: &str) {
    let session = session.to_owned();
    let request_id = format!("{change:?}");
    let answer = match change {
        Command::Pause => {
            let request = pb::PauseRunRequest {
                session,
                request_id,
                ..pb::PauseRunRequest::default()
            };
            client.pause_run(request).await.map(drop)
        }
        Command::Cancel => {
            let request = pb::CancelRunRequest {
                session,
                request_id,
                ..pb::CancelRunRequest::default()
            };
            client.cancel_run(request).await.map(drop)
        }
        Command::Skip => {
            let request = pb::SkipStepRequest {
                session,
                request_id,
                step: 1,
                ..pb::SkipStepRequest::default()
            };
            client.skip_step(request).await.map(drop)
        }
        Command::Plan => {
            let mut plan = plan("Wait");
            plan.steps.insert(0, tool_step("list_files"));
            let request = pb::ApplyPlanRequest {
                session,
                request_id,
                change: Some(Change::Plan(plan)),
                ..pb::ApplyPlanRequest::default()
            };
            client.apply_plan(request).await.map(drop)
        }
        Command::Feedback => {
            let request = pb::SendFeedbackRequest {
                session,
                request_id,
                feedback: "do it another way".to_owned(),
                ..pb::SendFeedbackRequest::default()
            };
            client.send_feedback(request).await.map(drop)
        }
        Command::Decision => decide(client, session, request_id).await,
    };
    answer.unwrap_or_else(|status| panic!("{change:?}: {status:?}"));
}

async fn decide(
    client: &mut Client,
    session: String,
    request_id: String,
) -> Result<(), tonic::Status> {
    let settlement = wire::Settlement {
        outcome: Some(Outcome::Retry(Retry {})),
    };
    let request = pb::DecideRequest {
        session,
        request_id,
        pending_id: "budget-1".to_owned(),
        settlement: Some(settlement),
    };
    client.decide(request).await.map(drop)
}

async fn watch(client: &mut Client, session: &str) -> Streaming<pb::WatchSessionResponse> {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        ..pb::WatchSessionRequest::default()
    };
    let watch = client.watch_session(request).await.expect("a watch");
    watch.into_inner()
}

async fn until(
    watch: &mut Streaming<pb::WatchSessionResponse>,
    change: Command,
    is_wanted: impl Fn(&Kind) -> bool,
) {
    loop {
        let message = tokio::time::timeout(PATIENCE, watch.message()).await;
        let message = message.expect("an event in time").expect("an event");
        let event = message.expect("the session is there").event;
        let Some(kind) = event.and_then(|event| event.kind) else {
            continue;
        };
        let is_taken = matches!(kind, Kind::AttemptContinued(_)) && change != Command::Decision;
        assert!(!is_taken && !matches!(kind, Kind::RunFailed(_)), "{kind:?}");
        if is_wanted(&kind) {
            return;
        }
    }
}
