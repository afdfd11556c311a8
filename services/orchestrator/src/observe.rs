//! What is told of sessions to those who look after the whole: metrics, and the span of each run.
//!
//! Everything here follows from events that are durable, and is told by the owner that committed
//! them: once, whatever is killed, but for what died with a process before it was exported. Executors and
//! planners count the replies that they get and the tokens, because only they know the name of the model.

mod points;

use crate::key::SessionKey;
use cairn_engine::conversation::CompactionKind;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::session::{Run, RunSummary, Session};
use cairn_rpc::TraceParent;
use cairn_rpc::metrics::{self, counter, gauge};
use cairn_rpc::trace::{PastSpan, SpanKind, Value, is_content_wanted, is_recording};
use points::{Moment, RunPoints};

/// The span of a run, which everything that is done for it belongs under.
///
/// Its id follows from the run, so that every process knows it, and whoever commits the end of the
/// run records it, even if those before were killed.
pub(crate) fn trace_of(key: &SessionKey, run: &Run) -> Option<TraceParent> {
    trace_of_ended(key, run.number, &run.trace_parent)
}

/// The same for a run of which only the trace is known.
pub(crate) fn trace_of_ended(
    key: &SessionKey,
    run: u32,
    trace_parent: &str,
) -> Option<TraceParent> {
    Some(span_of(key, run, trace_parent.parse().ok()?))
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
    /// What its span has so far, if spans are recorded.
    trace: Option<RunTrace>,
    /// The run that ended last, and the trace that it belongs to. Hooks answer after the end.
    ended: Option<(u32, TraceParent)>,
}

/// What the span of a run has before the run ends.
#[derive(Debug)]
struct RunTrace {
    run: u32,
    parent: TraceParent,
    points: RunPoints,
}

impl RunTrace {
    /// Of a run that begins with this event; none if it belongs to no trace, or spans are not recorded.
    fn begun(event: &Event) -> Option<Self> {
        let EventKind::RunStarted(started) = &event.kind else {
            return None;
        };
        let parent = recorded(&started.trace_parent)?;
        let turn_index = started.turn.as_ref().map(|turn| turn.turn_index);
        Some(Self {
            run: started.run,
            parent,
            points: RunPoints::begun(event.at, turn_index),
        })
    }

    /// As far as the state has it.
    fn of_state(session: &Session, run: &Run) -> Option<Self> {
        Some(Self {
            run: run.number,
            parent: recorded(&run.trace_parent)?,
            points: RunPoints::of_state(session, run),
        })
    }
}

/// The trace of a run, if spans are recorded.
fn recorded(trace_parent: &str) -> Option<TraceParent> {
    if !is_recording() {
        return None;
    }
    trace_parent.parse().ok()
}

impl ActiveRun {
    /// The active run of a session that is owned from now on.
    pub(crate) fn of(session: &Session) -> Self {
        let mut active = Self::default();
        active.note(session);
        let ended = session.ended_hooks.back();
        active.ended = ended.and_then(|ended| Some((ended.run, recorded(&ended.trace_parent)?)));
        active
    }

    pub(crate) fn note(&mut self, session: &Session) {
        let active = session.active_run();
        let is_active = active.is_some();
        if std::mem::replace(&mut self.is_active, is_active) != is_active {
            let change = if is_active { 1.0 } else { -1.0 };
            gauge!(metrics::RUNS_ACTIVE).increment(change);
        }
        let traced = self.trace.as_ref().map(|trace| trace.run);
        if traced != active.map(|run| run.number) {
            self.trace = active.and_then(|run| RunTrace::of_state(session, run));
        }
    }

    /// Its span is recorded once it has ended.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Takes an event of the journal, which others have committed: from the event that began the run to the last.
    pub(crate) fn replay(&mut self, session: &Session, event: &Event) {
        match RunTrace::begun(event) {
            Some(begun) => self.trace = Some(begun),
            None => self.reach(Moment::of(session, event)),
        }
    }

    fn reach(&mut self, moment: Option<Moment>) {
        if let (Some(trace), Some(moment)) = (&mut self.trace, moment)
            && trace.run == moment.run
        {
            trace.points.take(&moment);
        }
    }

    /// As [`trace_of`], also for a turn that ends with the transition to come, or has ended.
    pub(crate) fn trace_of(&self, key: &SessionKey, run: &Run) -> Option<TraceParent> {
        let ending = self.trace.as_ref().map(|trace| (trace.run, trace.parent));
        let mut known = ending.into_iter().chain(self.ended);
        let known = known.find(|(number, _)| *number == run.number);
        let known = known.map(|(number, parent)| span_of(key, number, parent));
        trace_of(key, run).or(known)
    }

    /// Where the span of a run belongs that these events have ended.
    fn parent_of(&self, run: u32, events: &[Event]) -> Option<TraceParent> {
        let known = self.trace.as_ref().filter(|trace| trace.run == run);
        let begun = || {
            let mut begun = events.iter().filter_map(RunTrace::begun);
            begun.find(|trace| trace.run == run)
        };
        known
            .map(|trace| trace.parent)
            .or_else(|| Some(begun()?.parent))
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        if self.is_active {
            gauge!(metrics::RUNS_ACTIVE).decrement(1.0);
        }
    }
}

/// What the trace of a run gets of a transition.
#[derive(Debug)]
enum Traced {
    Began(RunTrace),
    Reached(Moment),
    /// The span, without its events.
    Ended(u32, Box<PastSpan>),
}

/// What metrics and spans get of a transition, once that is durable.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    counts: Vec<(&'static str, &'static str)>,
    /// The kind of each compaction.
    compactions: Vec<&'static str>,
    /// In the order of the events.
    traced: Vec<Traced>,
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
            observed.trace(session, event);
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
                let parent = before.parent_of(run, events)?;
                let summary = session.runs.summary(run).filter(|_| is_recording())?;
                let span = run_span(key, summary, status, parent);
                Some(Traced::Ended(run, Box::new(span)))
            });
            observed.traced.extend(span);
        }
        observed
    }

    fn trace(&mut self, session: &Session, event: &Event) {
        if !is_recording() {
            return;
        }
        let began = RunTrace::begun(event).map(Traced::Began);
        let traced = began.or_else(|| Moment::of(session, event).map(Traced::Reached));
        self.traced.extend(traced);
    }

    /// The transition is durable.
    pub(crate) fn record(self, active: &mut ActiveRun) {
        for (what, status) in self.counts {
            counter!(what, "status" => status).increment(1);
        }
        for kind in self.compactions {
            counter!(metrics::COMPACTIONS, "kind" => kind).increment(1);
        }
        for traced in self.traced {
            match traced {
                Traced::Began(trace) => active.trace = Some(trace),
                Traced::Reached(moment) => active.reach(Some(moment)),
                Traced::Ended(run, mut span) => {
                    let trace = active.trace.take_if(|trace| trace.run == run);
                    let points = trace.map(|trace| trace.points).unwrap_or_default();
                    active.ended = Some((run, span.parent));
                    span.events = points.ended(span.end_ms);
                    span.record();
                }
            }
        }
    }
}

fn kind_of(compaction: CompactionKind) -> &'static str {
    match compaction {
        CompactionKind::History => "history",
        CompactionKind::Summary => "summary",
    }
}

/// The span of a run that has ended, without its events.
fn run_span(
    key: &SessionKey,
    run: RunSummary<'_>,
    status: &'static str,
    parent: TraceParent,
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
        events: Vec::new(),
        // The caller's span, for those who keep only the spans of Cairn.
        links: vec![parent],
        error: run.failure.map(|failure| failure.reason.clone()),
    }
}
