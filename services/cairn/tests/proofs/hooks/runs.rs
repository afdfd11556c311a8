//! A run with one hook, in a node of its own: what the journal has of the answer, and how the run ends.

use super::cases::{Behaviour, CHANGED, Case, Kind, STEP, printed};
use super::counted;
use super::hosts::{Here, Host};
use crate::support::{Client, chain, client, node, parts};
use cairn_engine::hooks::{Point, VerdictKind};
use cairn_hooks::{Definition, Hook, Means, Policy, ProgramConfig};
use cairn_model::{ModelRegistry, Recorded};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind as Event;
use cairn_proto::event::settlement::{Approve, Outcome};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Streaming;

/// Nothing takes so long, also if a hook cannot be reached for 30 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a hook has. A program needs a moment to start on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(2);
const SESSION: &str = "s";

/// How a run ended, as far as it was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Failed,
    /// Older messages gave way.
    Compacted,
    /// They did not, or it was not waited for.
    Other,
}

/// What was seen of a run.
#[derive(Debug, Default)]
struct Seen {
    answered: Option<wire::HooksAnswered>,
    end: Option<End>,
    /// The result of the only call of a tool.
    result: Option<wire::CallFinished>,
}

/// Tries a case. The error says what is wrong.
pub(super) async fn check(number: usize, case: Case, host: &Host) -> Result<(), String> {
    let hook = format!("hook-{number}");
    host.questions.expect(&hook, case.point, case.behaviour);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut parts = parts(folder.path(), models(case.point));
    // The model is asked again at once.
    parts.executor.retry.max_retries = 1;
    parts.executor.retry.min_delay = Duration::from_millis(1);
    parts.executor.retry.max_delay = Duration::from_millis(2);
    parts.orchestrator.hooks = vec![definition(&hook, case, host, folder.path())];
    let here: Arc<dyn Hook> = Arc::new(Here(Arc::clone(&host.questions)));
    parts.more_hooks = vec![(hook.clone(), here)];
    let node = node(parts).await;
    let seen = timeout(PATIENCE, seen(&node.link(), client(&node), case)).await;
    node.drain().await;
    let seen = seen.map_err(|_| "it does not end".to_owned())?;
    check_answer(case, &hook, &seen)?;
    check_end(case, &seen)
}

/// The hook of a case.
fn definition(hook: &str, case: Case, host: &Host, folder: &Path) -> Definition {
    let means = match case.kind {
        Kind::InProcess => Means::InProcess,
        Kind::Host => Means::Host(host.url()),
        Kind::Program => Means::Program(ProgramConfig {
            argv: program(case, folder),
            env: Vec::new(),
        }),
    };
    Definition {
        name: hook.to_owned(),
        points: [case.point].into_iter().collect(),
        agents: None,
        tools: Vec::new(),
        means,
        policy: Policy {
            timeout: TIMEOUT,
            on_error: case.on_error,
        },
    }
}

/// A program that does it with its first question, which it knows by a folder that it makes.
fn program(case: Case, folder: &Path) -> Vec<String> {
    let first = match case.behaviour {
        Behaviour::Answers(kind) => format!("printf '%s' '{}'", printed(case.point, kind)),
        Behaviour::Late => "exec sleep 30".to_owned(),
        Behaviour::Wrong => "exit 3".to_owned(),
        Behaviour::Unreachable => return vec![folder.join("nothing").display().to_string()],
    };
    let mark = folder.join("asked").display().to_string();
    let script = format!("cat >/dev/null; if mkdir '{mark}' 2>/dev/null; then {first}; fi");
    ["sh", "-c", &script].map(str::to_owned).to_vec()
}

/// A model that reaches the point.
fn models(point: Point) -> ModelRegistry {
    let call = json!({"tool_calls": [{"name": "pure", "arguments": {}}]});
    let end = json!({"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]});
    let failing = |error: &str| json!({"match": {"step": ""}, "replies": [{"error": error, "text": "no"}], "repeat": true});
    let step = match point {
        Point::OnRetry => failing("server"),
        Point::OnError => failing("auth"),
        // Turns, and a summary of them.
        Point::OnCompaction => json!({"match": {}, "replies": [{"text": "Fine."}], "repeat": true}),
        _ => json!({"match": {"step": ""}, "replies": [call, end, end, end], "repeat": true}),
    };
    let recorded = Recorded::parse("recorded", &format!("{step}\n"));
    let mut models = ModelRegistry::new();
    models.insert("recorded", Arc::new(recorded.expect("a recording")));
    models
}

async fn seen(link: &Link, mut client: Client, case: Case) -> Seen {
    let request = pb::CreateSessionRequest {
        session: SESSION.to_owned(),
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    client.create_session(request).await.expect("a session");
    match case.point {
        Point::OnCompaction => compact(link, &mut client).await,
        _ => start(&mut client).await,
    }
    let request = pb::WatchSessionRequest {
        session: SESSION.to_owned(),
        ..pb::WatchSessionRequest::default()
    };
    let events = client.watch_session(request).await.expect("a watch");
    let mut events = events.into_inner();
    let mut seen = Seen::default();
    while !is_enough(case, &seen) {
        let event = next(&mut events).await;
        take(case, &mut seen, &event, &mut client).await;
    }
    seen
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

async fn start(client: &mut Client) {
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
}

/// Has turns, and then their messages compacted.
async fn compact(link: &Link, client: &mut Client) {
    for number in 0..4 {
        let text = "Tell me more about the bridge. ".repeat(40);
        let message = cairn_engine::message::Message::user(text);
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
}

/// Takes an event, and approves what waits.
async fn take(case: Case, seen: &mut Seen, event: &Event, client: &mut Client) {
    let is_compaction = case.point == Point::OnCompaction;
    match event {
        Event::HooksAnswered(answered) => {
            let gate = answered.gate.unwrap_or_default();
            if gate.point() == wire::HookPoint::from(case.point) && seen.answered.is_none() {
                seen.answered = Some(answered.clone());
            }
        }
        Event::CallFinished(finished) => {
            let call = finished.call.unwrap_or_default();
            if call.tool_turn == 0 {
                seen.result.get_or_insert_with(|| finished.clone());
            }
        }
        Event::RunWaiting(_) if !is_compaction => approve(client).await,
        Event::ContextCompacted(_) => seen.end = Some(End::Compacted),
        Event::RunCompleted(_) if !is_compaction => seen.end = Some(End::Completed),
        Event::RunFailed(_) if !is_compaction => seen.end = Some(End::Failed),
        _ => {}
    }
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

fn is_enough(case: Case, seen: &Seen) -> bool {
    let is_answered = seen.answered.is_some();
    match (case.point, counted(&case)) {
        // A context that is not compacted stays as it is.
        (Point::OnCompaction, VerdictKind::Skip | VerdictKind::Block) => is_answered,
        _ => is_answered && seen.end.is_some(),
    }
}

fn check_answer(case: Case, hook: &str, seen: &Seen) -> Result<(), String> {
    use wire::HookFailure as Failure;
    let answered = seen.answered.as_ref().ok_or("no answer")?;
    let [outcome] = answered.outcomes.as_slice() else {
        return Err(format!("outcomes: {answered:?}"));
    };
    let [answer] = outcome.answers.as_slice() else {
        return Err(format!("answers: {answered:?}"));
    };
    let failure = match case.behaviour {
        Behaviour::Answers(_) => Failure::Unspecified,
        Behaviour::Late => Failure::Late,
        Behaviour::Wrong => Failure::Wrong,
        Behaviour::Unreachable => Failure::Unreachable,
    };
    let expected = wire::HookVerdict::from(counted(&case));
    let found = (answer.failure(), answer.verdict(), outcome.verdict());
    if found != (failure, expected, expected) || answer.hook != hook {
        return Err(format!(
            "expected {failure:?} and {expected:?}: {answered:?}"
        ));
    }
    let has_words = outcome.text.contains(CHANGED);
    let is_answer = matches!(case.behaviour, Behaviour::Answers(_));
    let needs_words = !matches!(
        expected,
        wire::HookVerdict::Proceed | wire::HookVerdict::Mutate
    );
    match is_answer && needs_words && !has_words {
        true => Err(format!("the words are lost: {answered:?}")),
        false => Ok(()),
    }
}

fn check_end(case: Case, seen: &Seen) -> Result<(), String> {
    let kind = counted(&case);
    let of_call = matches!(case.point, Point::PreToolCall | Point::PostToolCall);
    let expected = match (case.point, kind) {
        (Point::OnCompaction, VerdictKind::Skip | VerdictKind::Block) => End::Other,
        (Point::OnCompaction, _) => End::Compacted,
        (Point::OnRetry | Point::OnError, _) => End::Failed,
        (Point::PreToolCall | Point::PostToolCall, _) => End::Completed,
        (_, VerdictKind::Block) => End::Failed,
        _ => End::Completed,
    };
    let end = seen.end.unwrap_or(End::Other);
    if end != expected {
        return Err(format!("expected {expected:?}: {seen:?}"));
    }
    if !of_call {
        return Ok(());
    }
    let result = seen.result.as_ref().ok_or("no result")?;
    // What is held becomes an error by the answer, which is checked above.
    let holds = match (case.point, kind) {
        (Point::PreToolCall, VerdictKind::Block) => {
            result.is_error && result.reason == "HookBlocked"
        }
        (Point::PreToolCall, VerdictKind::Skip) => !result.is_error && result.output == CHANGED,
        _ => !result.is_error && result.output == "nothing",
    };
    match holds {
        true => Ok(()),
        false => Err(format!("the result is {result:?}")),
    }
}
