//! What is told of sessions to those who look after the whole: metrics, and the span of each run.
//!
//! Everything here follows from events that are durable, and is told by the owner that committed
//! them: once, whatever is killed, but for what died with a process before it was exported. Planners count
//! the tokens of their own replies, because only they know the model.

use crate::key::SessionKey;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::session::{Run, Session, Step, StepStatus};
use cairn_rpc::TraceParent;
use cairn_rpc::metrics::{self, counter, gauge};
use cairn_rpc::trace::{PastEvent, PastSpan, SpanKind, Value, is_content_wanted, is_recording};

/// The span of a run, which everything that is done for it belongs under.
///
/// Its id follows from the run, so that every process knows it, and whoever commits the end of the
/// run records it, even if those before were killed.
pub(crate) fn trace_of(key: &SessionKey, run: &Run) -> Option<TraceParent> {
    let parent: TraceParent = run.trace_parent.parse().ok()?;
    let SessionKey { namespace, id } = key;
    let name = format!("{namespace}/{id}/{}", run.number);
    Some(TraceParent {
        span_id: parent.derived_child(&name),
        ..parent
    })
}

/// Whether an owner's session has an active run, as the gauge of active runs knows it.
#[derive(Debug, Default)]
pub(crate) struct ActiveRun(bool);

impl ActiveRun {
    pub(crate) fn note(&mut self, session: &Session) {
        let is_active = session.active_run().is_some();
        if std::mem::replace(&mut self.0, is_active) != is_active {
            let change = if is_active { 1.0 } else { -1.0 };
            gauge!(metrics::RUNS_ACTIVE).increment(change);
        }
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        if self.0 {
            gauge!(metrics::RUNS_ACTIVE).decrement(1.0);
        }
    }
}

/// These events of the session have just become durable; its state has them.
pub(crate) fn committed(key: &SessionKey, session: &Session, events: &[Event]) {
    if !metrics::is_recorded() && !is_recording() {
        return;
    }
    for event in events {
        match &event.kind {
            EventKind::StepCompleted(_) => count(metrics::STEPS, "completed"),
            EventKind::StepFailed(_) => count(metrics::STEPS, "failed"),
            EventKind::StepSkipped(_) => count(metrics::STEPS, "skipped"),
            EventKind::ReplyReceived(reply) => {
                let model = metrics::label(metrics::Kind::Model, &reply.model);
                counter!(metrics::TOOL_TURNS, "model" => model).increment(1);
                let used = &reply.usage;
                let (input, output) = (used.input_tokens, used.output_tokens);
                metrics::spend(&reply.model, input, output, used.cost_nano_usd);
            }
            EventKind::RunCompleted(event::RunCompleted { run, .. }) => {
                end(key, session, *run, "completed")
            }
            EventKind::RunCancelled(event::RunCancelled { run, .. }) => {
                end(key, session, *run, "cancelled")
            }
            EventKind::RunFailed(event::RunFailed { run, .. }) => end(key, session, *run, "failed"),
            _ => {}
        }
    }
}

fn count(what: &'static str, status: &'static str) {
    counter!(what, "status" => status).increment(1);
}

fn end(key: &SessionKey, session: &Session, number: u32, status: &'static str) {
    count(metrics::RUNS, status);
    if is_recording()
        && let Some(run) = session.run(number)
        && let Some(span) = run_span(key, run, status)
    {
        span.record();
    }
}

fn run_span(key: &SessionKey, run: &Run, status: &'static str) -> Option<PastSpan> {
    let text = |text: &str| Value::from(text.to_owned());
    let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let mut attributes = vec![
        ("gen_ai.operation.name", text("invoke_workflow")),
        ("gen_ai.workflow.name", text("cairn")),
        ("gen_ai.conversation.id", text(&key.id)),
        (
            "gen_ai.usage.input_tokens",
            number(run.spent.usage.input_tokens),
        ),
        (
            "gen_ai.usage.output_tokens",
            number(run.spent.usage.output_tokens),
        ),
        ("cairn.namespace", text(key.namespace.as_str())),
        ("cairn.run", number(run.number.into())),
        ("cairn.run.status", text(status)),
        ("cairn.tool_turns", number(run.spent.tool_turns.into())),
        ("cairn.cost_nano_usd", number(run.spent.usage.cost_nano_usd)),
    ];
    if let Some(failure) = &run.end.failure {
        attributes.push(("error.type", text(&failure.reason)));
    }
    if is_content_wanted() {
        attributes.push(("cairn.goal", text(&run.goal)));
        attributes.push(("cairn.answer", text(&run.end.answer)));
    }
    Some(PastSpan {
        name: "invoke_workflow cairn".into(),
        parent: run.trace_parent.parse().ok()?,
        span_id: trace_of(key, run)?.span_id,
        kind: SpanKind::Internal,
        start_ms: run.started_at,
        end_ms: run.end.at.unwrap_or(run.started_at),
        attributes,
        events: hook_points(run),
        links: Vec::new(),
        error: run
            .end
            .failure
            .as_ref()
            .map(|failure| failure.reason.clone()),
    })
}

/// Steps whose hook points are told: an exporter takes 128 events of a span, and the end of the run
/// is to be among them.
const MOST_STEPS: usize = 60;

/// The hook points of a run that no span of its own tells of, in the order of time.
fn hook_points(run: &Run) -> Vec<PastEvent> {
    let point = |name: &'static str, at_ms, step: Option<usize>| PastEvent {
        name: name.into(),
        at_ms,
        attributes: step
            .map(|index| ("cairn.step.index", Value::from(index as i64)))
            .into_iter()
            .collect(),
    };
    let mut points = vec![point("OnRunStart", run.started_at, None)];
    let steps = run
        .plan
        .iter()
        .flat_map(|plan| &plan.steps)
        .take(MOST_STEPS);
    for (index, step) in steps.enumerate() {
        let Step { started, ended, .. } = step;
        points.extend(started.map(|moment| point("OnStepStart", moment.at, Some(index))));
        if matches!(step.status, StepStatus::Completed { .. }) {
            let ended = ended.map(|moment| point("OnPlanStepComplete", moment.at, Some(index)));
            points.extend(ended);
        }
    }
    points.extend(run.end.at.map(|at| point("OnRunEnd", at, None)));
    points.sort_by_key(|point| point.at_ms);
    points
}
