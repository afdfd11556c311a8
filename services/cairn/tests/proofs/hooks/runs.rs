//! A run with one hook, in a node of its own.

use super::cases::{Behaviour, Case, Kind, STEP, printed, printed_not_taken};
use super::follows::{End, TURNS};
use super::hosts::{Counts, Here, Host, url};
use super::played::{Noted, Played};
use super::seen::Seen;
use crate::support::{Client, chain, client, node, parts};
use cairn::node::Parts;
use cairn_engine::hooks::Point;
use cairn_engine::message::Message;
use cairn_hooks::{Definition, Hook, Means, Policy, ProgramConfig};
use cairn_model::ModelRegistry;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind as Event;
use cairn_proto::event::settlement::{Approve, Outcome};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use cairn_testkit::free_port;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::Streaming;

/// Nothing takes so long, also if a hook cannot be reached for 30 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a hook has that is to be late.
pub(super) const SHORT: Duration = Duration::from_secs(2);
/// How long every other hook has. A program needs a moment to start on a busy machine.
pub(super) const ENOUGH: Duration = Duration::from_secs(30);
/// After so long a hook comes back.
const AWAY: Duration = Duration::from_secs(1);
pub(super) const SESSION: &str = "s";

/// What a case that holds came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) end: End,
    /// How often a person was asked.
    pub(super) decisions: usize,
    /// Questions that the hook got once.
    pub(super) once: usize,
    /// Questions that it got again, with the same key.
    pub(super) again: usize,
}

/// A case, and all that it needs.
pub(super) struct Stage<'a> {
    pub(super) case: Case,
    pub(super) hook: String,
    /// Of a service that is away at first; else 0.
    port: u16,
    folder: TempDir,
    host: &'a Host,
    pub(super) model: Arc<Played>,
    pub(super) tool: Arc<Noted>,
}

/// Tries a case. The error says what is wrong.
pub(super) async fn check(number: usize, case: Case, host: &Host) -> Result<Held, String> {
    let stage = Stage::of(number, case, host)?;
    let node = node(stage.parts()).await;
    let link = node.link();
    let seen = Box::pin(stage.seen(&link, client(&node)));
    let seen = timeout(PATIENCE, seen).await;
    node.drain().await;
    let seen = seen.map_err(|_| "it does not end".to_owned())?;
    stage.check_answer(&seen)?;
    let end = stage.check_end(&seen)?;
    let (once, again) = stage.check_questions(&seen)?;
    Ok(Held {
        end,
        decisions: seen.decisions,
        once,
        again,
    })
}

impl<'a> Stage<'a> {
    fn of(number: usize, case: Case, host: &'a Host) -> Result<Self, String> {
        let hook = format!("hook-{number}");
        host.questions.expect(&hook, case.point, case.behaviour);
        let is_away = case.kind == Kind::Host && case.is_away();
        Ok(Self {
            case,
            hook,
            port: if is_away { free_port() } else { 0 },
            folder: tempfile::tempdir().map_err(|error| error.to_string())?,
            host,
            model: Arc::new(Played::reaching(case.point)),
            tool: Arc::new(Noted::new()),
        })
    }

    fn parts(&self) -> Parts {
        let mut models = ModelRegistry::new();
        models.insert("recorded", self.model.clone());
        let mut parts = parts(self.folder.path(), models);
        // The model is asked again at once.
        parts.executor.retry.max_retries = 1;
        parts.executor.retry.min_delay = Duration::from_millis(1);
        parts.executor.retry.max_delay = Duration::from_millis(2);
        parts.orchestrator.hooks = vec![self.definition()];
        let here: Arc<dyn Hook> = Arc::new(Here(Arc::clone(&self.host.questions)));
        parts.more_hooks = vec![(self.hook.clone(), here)];
        parts.more_tools.push(self.tool.clone());
        parts
    }

    /// The hook of the case.
    fn definition(&self) -> Definition {
        let means = match self.case.kind {
            Kind::InProcess => Means::InProcess,
            Kind::Host if self.port > 0 => Means::Host(url(self.port)),
            Kind::Host => Means::Host(self.host.url()),
            Kind::Program => Means::Program(ProgramConfig {
                argv: self.argv(),
                env: Vec::new(),
            }),
        };
        Definition {
            name: self.hook.clone(),
            points: [self.case.point].into_iter().collect(),
            agents: None,
            tools: Vec::new(),
            means,
            policy: Policy {
                timeout: match self.case.behaviour {
                    Behaviour::Late => SHORT,
                    _ => ENOUGH,
                },
                on_error: self.case.on_error,
            },
        }
    }

    fn argv(&self) -> Vec<String> {
        match self.case.is_away() {
            true => vec![self.program().display().to_string()],
            false => ["sh", "-c", &self.script()].map(str::to_owned).to_vec(),
        }
    }

    /// A program that is not there at first.
    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// What a program does. It knows its first question by a folder that it makes, and notes the key of each.
    fn script(&self) -> String {
        let point = self.case.point;
        let print = |answer| format!("printf '%s' '{answer}'");
        let first = match self.case.behaviour {
            Behaviour::Answers(kind) | Behaviour::ComesBack(kind) => print(printed(point, kind)),
            Behaviour::NotTaken => print(printed_not_taken(point)),
            Behaviour::Late => "exec sleep 30".to_owned(),
            Behaviour::Wrong => "exit 3".to_owned(),
            // It is there once the question that it was away for is over.
            Behaviour::Unreachable => ":".to_owned(),
        };
        let folder = self.folder.path().display();
        format!(
            "cat >/dev/null; echo \"$CAIRN_HOOK_KEY\" >>'{folder}/keys'; \
             if mkdir '{folder}/asked' 2>/dev/null; then {first}; fi"
        )
    }

    /// The hook is there from now on, for as long as the value lives.
    async fn arrive(&self) -> Option<Host> {
        match self.case.kind {
            Kind::InProcess => None,
            Kind::Program => {
                let text = format!("#!/bin/sh\n{}\n", self.script());
                write_program(&self.program(), &text).expect("a program");
                None
            }
            Kind::Host => {
                let questions = Arc::clone(&self.host.questions);
                Some(Host::at(self.port, questions).await)
            }
        }
    }

    async fn seen(&self, link: &Link, mut client: Client) -> Seen {
        let request = pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await.expect("a session");
        let run = match self.case.point {
            Point::OnCompaction => compact(link, &mut client).await,
            _ => start(&mut client).await,
        };
        let comes_back = async {
            match self.case.behaviour {
                Behaviour::ComesBack(_) => {
                    sleep(AWAY).await;
                    self.arrive().await
                }
                _ => None,
            }
        };
        // The service lives until both are over.
        let (seen, _host) = tokio::join!(self.watch(run, &mut client), comes_back);
        seen
    }

    /// Watches a run to its end, and approves what it asks a person.
    async fn watch(&self, run: u32, client: &mut Client) -> Seen {
        let request = pb::WatchSessionRequest {
            session: SESSION.to_owned(),
            ..pb::WatchSessionRequest::default()
        };
        let events = client.watch_session(request).await.expect("a watch");
        let mut events = events.into_inner();
        let mut seen = Seen::of(run, self.case.point);
        let mut is_away = self.case.behaviour == Behaviour::Unreachable;
        let mut there = None;
        while !seen.is_over() {
            let event = next(&mut events).await;
            seen.take(&event);
            // Later questions find the hook.
            if is_away && seen.answered.is_some() {
                is_away = false;
                there = self.arrive().await;
            }
            if matches!(&event, Event::RunWaiting(waiting) if waiting.run == run) {
                approve(client).await;
            }
        }
        // The service lives until the end.
        drop(there);
        seen
    }

    /// How often the hook got each question.
    pub(super) fn asked(&self) -> Counts {
        let mut asked = self.host.questions.asked(&self.hook);
        let keys = std::fs::read_to_string(self.folder.path().join("keys"));
        for key in keys.unwrap_or_default().lines() {
            *asked.entry(key.to_owned()).or_default() += 1;
        }
        asked
    }
}

/// The program appears whole.
fn write_program(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    std::fs::rename(&draft, path)
}

async fn next(events: &mut Streaming<pb::WatchSessionResponse>) -> Event {
    loop {
        let message = events.message().await.expect("an event");
        let message = message.expect("the session is there");
        if let Some(kind) = message.event.and_then(|event| event.kind) {
            return kind;
        }
    }
}

/// Starts a run with one step for the model. Returns its number.
async fn start(client: &mut Client) -> u32 {
    let step = wire::PlanStep {
        title: STEP.to_owned(),
        description: STEP.to_owned(),
        ..wire::PlanStep::default()
    };
    let request = pb::StartRunRequest {
        session: SESSION.to_owned(),
        request_id: "run".to_owned(),
        run: Some(chain(vec![step])),
        ..pb::StartRunRequest::default()
    };
    client.start_run(request).await.expect("a run");
    1
}

/// Has turns, and then their messages compacted. Returns the number of the run that compacts.
async fn compact(link: &Link, client: &mut Client) -> u32 {
    for number in 0..TURNS {
        let text = "Tell me more about the bridge. ".repeat(40);
        let message = Message::user(text);
        let request = pb::SubmitTurnRequest {
            session: SESSION.to_owned(),
            request_id: format!("turn-{number}"),
            turn: Some(wire::SubmitTurn {
                message: Some(message.into()),
                ..wire::SubmitTurn::default()
            }),
            after_seq: 0,
        };
        let events = client.submit_turn(request).await.expect("a turn");
        let mut events = events.into_inner();
        while events.message().await.expect("an event").is_some() {}
    }
    let request = pb::CompactContextRequest {
        session: SESSION.to_owned(),
        request_id: "compact".to_owned(),
        compact: Some(wire::CompactContext::default()),
    };
    let mut contexts = ContextServiceClient::new(link.clone());
    contexts
        .compact_context(request)
        .await
        .expect("a compaction");
    u32::try_from(TURNS + 1).expect("a small number")
}

/// Approves what a hook requires an approval of.
async fn approve(client: &mut Client) {
    let request = pb::ListPendingRequest {
        session: SESSION.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let pending = client.list_pending(request).await.expect("questions");
    for pending in pending.into_inner().pending {
        let request = pb::DecideRequest {
            session: SESSION.to_owned(),
            request_id: format!("decide-{}", pending.id),
            pending_id: pending.id,
            settlement: Some(wire::Settlement {
                outcome: Some(Outcome::Approve(Approve {})),
            }),
        };
        client.decide(request).await.expect("a decision");
    }
}
