//! What is told of sessions to those who look after the whole: metrics, and the span of each run.
//!
//! Everything here follows from events that are durable, and is told by the owner that committed
//! them: once, whatever is killed, but for what died with a process before it was exported. Executors and
//! planners count the replies that they get and the tokens, because only they know the name of the model.

use crate::key::SessionKey;
use cairn_engine::conversation::CompactionKind;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::session::{Run, RunSummary, Session, Step, StepStatus};
use cairn_rpc::TraceParent;
use cairn_rpc::metrics::{self, counter, gauge};
use cairn_rpc::trace::{PastEvent, PastSpan, SpanKind, Value, is_content_wanted, is_recording};

/// The span of a run, which everything that is done for it belongs under.
///
/// Its id follows from the run, so that every process knows it, and whoever commits the end of the
/// run records it, even if those before were killed.
pub(crate) fn trace_of(key: &SessionKey, run: &Run) -> Option<TraceParent> {
    let parent = run.trace_parent.parse().ok()?;
    Some(span_of(key, run.number, parent))
}

fn span_of(key: &SessionKey, run: u32, parent: TraceParent) -> TraceParent {
    let SessionKey { namespace, id } = key;
    let name = format!("{namespace}/{id}/{run}");
    TraceParent {
        span_id: parent.derived_child(&name),
        ..parent
    }
}

/// The active run of an owner's session, as of its last transition.
#[derive(Debug, Default)]
pub(crate) struct ActiveRun {
    /// There is one, as the gauge of active runs knows it.
    is_active: bool,
    /// It is a turn, and spans are recorded.
    turn: Option<TurnTrace>,
}

/// What the state no longer has of a turn that has ended.
#[derive(Debug, Clone)]
struct TurnTrace {
    run: u32,
    parent: TraceParent,
    points: Vec<PastEvent>,
}

impl ActiveRun {
    pub(crate) fn note(&mut self, session: &Session) {
        let active = session.active_run();
        let is_active = active.is_some();
        if std::mem::replace(&mut self.is_active, is_active) != is_active {
            let change = if is_active { 1.0 } else { -1.0 };
            gauge!(metrics::RUNS_ACTIVE).increment(change);
        }
        let turn = active.filter(|run| run.turn.is_some() && is_recording());
        self.turn = turn.and_then(|run| {
            Some(TurnTrace {
                run: run.number,
                parent: run.trace_parent.parse().ok()?,
                points: hook_points(run),
            })
        });
    }

    /// As [`trace_of`], also for a turn that ends with the transition to come.
    pub(crate) fn trace_of(&self, key: &SessionKey, run: &Run) -> Option<TraceParent> {
        let ending = self.turn.as_ref().filter(|turn| turn.run == run.number);
        let ending = ending.map(|turn| span_of(key, turn.run, turn.parent));
        trace_of(key, run).or(ending)
    }

    /// A turn that these events of the session have ended.
    fn ended(&self, run: u32, events: &[Event]) -> Option<TurnTrace> {
        let known = self.turn.as_ref().filter(|turn| turn.run == run).cloned();
        let mut turn = known.or_else(|| begun(run, events))?;
        for event in events {
            let (name, attempt) = match &event.kind {
                EventKind::StepStarted(started) => (STEP_START, started.attempt),
                EventKind::StepCompleted(completed) => (STEP_END, completed.attempt),
                _ => continue,
            };
            if attempt.run == run {
                turn.points.push(point(name, event.at, Some(0)));
            }
        }
        Some(turn)
    }
}

/// A turn that began with these events.
fn begun(run: u32, events: &[Event]) -> Option<TurnTrace> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::RunStarted(started) if started.run == run && started.turn.is_some() => {
            Some(TurnTrace {
                run,
                parent: started.trace_parent.parse().ok()?,
                points: vec![point(RUN_START, event.at, None)],
            })
        }
        _ => None,
    })
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        if self.is_active {
            gauge!(metrics::RUNS_ACTIVE).decrement(1.0);
        }
    }
}

/// What metrics and spans get of a transition, once that is durable.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    counts: Vec<(&'static str, &'static str)>,
    /// The kind of each compaction.
    compactions: Vec<&'static str>,
    spans: Vec<PastSpan>,
}

impl Observed {
    /// Of these events, which the state has. `before` is the run that was active before them.
    pub(crate) fn of(
        key: &SessionKey,
        session: &Session,
        before: &ActiveRun,
        events: &[Event],
    ) -> Self {
        let mut observed = Self::default();
        if !metrics::is_recorded() && !is_recording() {
            return observed;
        }
        for event in events {
            let (what, status, ended) = match &event.kind {
                EventKind::StepCompleted(_) => (metrics::STEPS, "completed", None),
                EventKind::StepFailed(_) => (metrics::STEPS, "failed", None),
                EventKind::StepSkipped(_) => (metrics::STEPS, "skipped", None),
                EventKind::RunCompleted(event::RunCompleted { run, .. }) => {
                    (metrics::RUNS, "completed", Some(*run))
                }
                EventKind::RunCancelled(event::RunCancelled { run, .. }) => {
                    (metrics::RUNS, "cancelled", Some(*run))
                }
                EventKind::RunFailed(event::RunFailed { run, .. }) => {
                    (metrics::RUNS, "failed", Some(*run))
                }
                EventKind::ContextCompacted(compacted) => {
                    observed.compactions.push(kind_of(compacted.kind));
                    continue;
                }
                _ => continue,
            };
            observed.counts.push((what, status));
            let span = ended.and_then(|run| {
                let turn = || before.ended(run, events);
                span_of_ended(key, session, run, status, turn)
            });
            observed.spans.extend(span);
        }
        observed
    }

    /// The transition is durable.
    pub(crate) fn record(self) {
        for (what, status) in self.counts {
            counter!(what, "status" => status).increment(1);
        }
        for kind in self.compactions {
            counter!(metrics::COMPACTIONS, "kind" => kind).increment(1);
        }
        self.spans.into_iter().for_each(PastSpan::record);
    }
}

fn kind_of(compaction: CompactionKind) -> &'static str {
    match compaction {
        CompactionKind::History => "history",
        CompactionKind::Summary => "summary",
    }
}

fn span_of_ended(
    key: &SessionKey,
    session: &Session,
    number: u32,
    status: &'static str,
    turn: impl FnOnce() -> Option<TurnTrace>,
) -> Option<PastSpan> {
    let run = session.runs.summary(number).filter(|_| is_recording())?;
    let (parent, points) = trace(session, run, turn)?;
    Some(run_span(key, run, status, parent, points))
}

/// Where the span of a run that has ended belongs, and its hook points.
fn trace(
    session: &Session,
    run: RunSummary<'_>,
    turn: impl FnOnce() -> Option<TurnTrace>,
) -> Option<(TraceParent, Vec<PastEvent>)> {
    let (parent, mut points) = match run.context {
        Some(_) => turn().map(|turn| (turn.parent, turn.points))?,
        None => {
            let run = session.run(run.number)?;
            (run.trace_parent.parse().ok()?, hook_points(run))
        }
    };
    points.extend(run.ended_at.map(|at| point(RUN_END, at, None)));
    Some((parent, points))
}

fn run_span(
    key: &SessionKey,
    run: RunSummary<'_>,
    status: &'static str,
    parent: TraceParent,
    events: Vec<PastEvent>,
) -> PastSpan {
    let text = |text: &str| Value::from(text.to_owned());
    let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let mut attributes = vec![
        ("gen_ai.operation.name", text("invoke_workflow")),
        ("gen_ai.workflow.name", text("cairn")),
        ("gen_ai.conversation.id", text(&key.id)),
        ("gen_ai.usage.input_tokens", number(run.usage.input_tokens)),
        (
            "gen_ai.usage.output_tokens",
            number(run.usage.output_tokens),
        ),
        ("cairn.namespace", text(key.namespace.as_str())),
        ("cairn.run", number(run.number.into())),
        ("cairn.run.status", text(status)),
        ("cairn.tool_turns", number(run.tool_turns.into())),
        ("cairn.cost_nano_usd", number(run.usage.cost_nano_usd)),
    ];
    if let Some(used) = run.agent {
        attributes.push(("gen_ai.agent.name", text(&used.name)));
        attributes.push(("cairn.agent.digest", text(&used.digest)));
    }
    if let Some(failure) = run.failure {
        attributes.push(("error.type", text(&failure.reason)));
    }
    if is_content_wanted() {
        attributes.push(("cairn.goal", text(run.goal)));
        attributes.push(("cairn.answer", text(run.answer)));
    }
    PastSpan {
        name: "invoke_workflow cairn".into(),
        parent,
        span_id: span_of(key, run.number, parent).span_id,
        kind: SpanKind::Internal,
        start_ms: run.started_at,
        end_ms: run.ended_at.unwrap_or(run.started_at),
        attributes,
        events,
        links: Vec::new(),
        error: run.failure.map(|failure| failure.reason.clone()),
    }
}

/// Steps whose hook points are told: an exporter takes 128 events of a span, and the end of the run
/// is to be among them.
const MOST_STEPS: usize = 60;

const RUN_START: &str = "OnRunStart";
const RUN_END: &str = "OnRunEnd";
const STEP_START: &str = "OnStepStart";
const STEP_END: &str = "OnPlanStepComplete";

/// A hook point, with the index of its step.
fn point(name: &'static str, at_ms: u64, step: Option<usize>) -> PastEvent {
    PastEvent {
        name: name.into(),
        at_ms,
        attributes: step
            .map(|index| ("cairn.step.index", Value::from(index as i64)))
            .into_iter()
            .collect(),
    }
}

/// The hook points of a run that no span of its own tells of, but for its end, in the order of time.
fn hook_points(run: &Run) -> Vec<PastEvent> {
    let mut points = vec![point(RUN_START, run.started_at, None)];
    let steps = run
        .plan
        .iter()
        .flat_map(|plan| &plan.steps)
        .take(MOST_STEPS);
    for (index, step) in steps.enumerate() {
        let Step { started, ended, .. } = step;
        points.extend(started.map(|moment| point(STEP_START, moment.at, Some(index))));
        if matches!(step.status, StepStatus::Completed { .. }) {
            let ended = ended.map(|moment| point(STEP_END, moment.at, Some(index)));
            points.extend(ended);
        }
    }
    points.sort_by_key(|point| point.at_ms);
    points
}
