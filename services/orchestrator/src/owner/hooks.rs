//! Asks the hooks of runs, and brings what they answer.
//!
//! Each owner of the session asks anew until an answer is recorded, with the same key. A question ends with what it is
//! about: [`Owner::drop_done`] drops what the state no longer asks for. While hooks are asked about what an attempt does
//! next, the executor of the attempt gets no acknowledgement, so it waits.
//!
//! A Proceed that changes nothing is worth no transition of its own. The attempt begins or continues at once, and the
//! answer is decided with its next report. After a crash in between, the hooks are asked again.

use super::long_results::of_text;
use super::work::has_open_intent;
use super::{End, Message, Outstanding, Owner};
use crate::deps::Deps;
use crate::hooks::{Ready, Resolved};
use crate::key::SessionKey;
use crate::observe::{trace_of, trace_of_ended};
use crate::store::may_pass;
use cairn_engine::command::Command;
use cairn_engine::decide::Input;
use cairn_engine::event::{AttemptRef, ResultHandle};
use cairn_engine::hooks::{
    Gate, HookFailure, Outcome, PinnedHook, Point, PresentHooks, Question, Verdict, VerdictKind,
};
use cairn_engine::outstanding::Work;
use cairn_engine::session::{Attempt, Session};
use cairn_hooks::{Asked, Failed};
use cairn_rpc::TraceParent;
use cairn_rpc::trace::{PastSpan, SpanKind, Value, is_recording};
use futures::stream::{self, StreamExt as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Calls of one reply about which hooks are asked at a time.
const MOST_AT_A_TIME: usize = 16;
/// After this long without an answer, the attempt gives its slot back.
const SLOW: Duration = Duration::from_secs(5);
/// Most bytes of the words that the journal keeps about the failure of a hook.
const MOST_OF_WHY: usize = 256;
/// The pause before the store is asked again for hooks.
const PAUSE: Duration = Duration::from_millis(100);

/// The wholes of long results of skipped calls, by positions of the calls.
type SkippedWholes = BTreeMap<u32, Box<ResultHandle>>;

/// What came of a question to hooks.
#[derive(Debug)]
pub(super) enum HookMessage {
    /// All of them answered.
    Answered {
        gate: Gate,
        outcomes: Vec<Outcome>,
        wholes: SkippedWholes,
    },
    /// All of them let the attempt continue, and it does not: it is paused, or a budget is used up.
    Settled { gate: Gate, outcomes: Vec<Outcome> },
    /// They take long. The text has their names.
    Slow { gate: Gate, hooks: String },
    /// Some are not there any more, or are others.
    Missing {
        gate: Gate,
        missing: Vec<String>,
        changed: Vec<String>,
    },
}

impl HookMessage {
    /// The question.
    pub(super) fn gate(&self) -> Gate {
        match self {
            Self::Answered { gate, .. }
            | Self::Settled { gate, .. }
            | Self::Slow { gate, .. }
            | Self::Missing { gate, .. } => *gate,
        }
    }
}

/// The hooks that a decision knows.
#[derive(Debug)]
pub(super) struct Known<'d> {
    pub(super) present: Cow<'d, PresentHooks>,
    /// None is missing, so runs may begin.
    pub(super) are_all: bool,
}

/// Answers that change nothing, and are not decided yet.
#[derive(Debug)]
pub(super) struct Proceeding {
    gate: Gate,
    outcomes: Vec<Outcome>,
}

impl Owner {
    /// Asks the hooks of a run.
    pub(super) fn ask_hooks(&mut self, work: Work, gate: Gate) {
        let Some(question) = Asking::new(&self.deps, &self.key, &self.session, gate) else {
            return;
        };
        let names: Vec<_> = question.listeners.iter().map(|it| &*it.name).collect();
        let hooks = names.join(", ");
        let slow = async move {
            sleep(SLOW).await;
            Message::Hooks(HookMessage::Slow { gate, hooks })
        };
        let answered = async move { Message::Hooks(question.ask().await) };
        let messages = stream::select(stream::once(answered), stream::once(slow));
        self.begin_work(work, messages, None);
    }

    /// What a message about a question means. One that the state no longer asks for was dropped.
    pub(super) fn hooks_message(&mut self, message: HookMessage) -> Option<Input> {
        let work = Work::AskHooks(message.gate());
        if !self.active.contains_key(&work) {
            return None;
        }
        match message {
            HookMessage::Answered {
                gate,
                outcomes,
                wholes,
            } => {
                if self.may_be_late(gate, &outcomes) {
                    // It stays active, so that the hooks are not asked again.
                    let proceeding = Proceeding { gate, outcomes };
                    self.proceeding.insert(gate.attempt, proceeding);
                    return None;
                }
                self.active.remove(&work);
                Some(Input::Hooked {
                    gate,
                    outcomes,
                    wholes,
                })
            }
            HookMessage::Settled { gate, outcomes } => {
                self.active.remove(&work);
                Some(Input::Hooked {
                    gate,
                    outcomes,
                    wholes: SkippedWholes::new(),
                })
            }
            HookMessage::Slow { gate, hooks } => {
                if !self.proceeding.contains_key(&gate.attempt) {
                    let (session, point) = (&self.key, gate.point.name());
                    let after = SLOW.as_secs();
                    tracing::warn!(%session, point, hooks, after_s = after, "hooks have not answered yet");
                }
                self.give_slot_back(gate);
                None
            }
            HookMessage::Missing {
                gate,
                missing,
                changed,
            } => {
                self.active.remove(&work);
                Some(Input::HooksMissing {
                    run: gate.attempt.run,
                    missing,
                    changed,
                })
            }
        }
    }

    /// The answers change nothing, and the attempt waits for them alone. A budget may let a model be asked only after
    /// others have replied: the state decides that.
    fn may_be_late(&self, gate: Gate, outcomes: &[Outcome]) -> bool {
        let name = gate.attempt;
        let known = (self.session.run(name.run), self.session.step(name));
        let ((Some(run), Some(step)), Some(attempt)) = (known, self.session.attempt(name)) else {
            return false;
        };
        let others = run.running_attempts().count().saturating_sub(1);
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        gate.point.may_be_late()
            && outcomes.iter().all(Outcome::is_proceed)
            && run.may_ask_model(others)
            && !run.is_at_limit(step, attempt)
    }

    /// The answers that are decided before the next report of an attempt, or the end of its stream.
    pub(super) fn take_proceeding(&mut self, name: AttemptRef) -> Option<Input> {
        let Proceeding { gate, outcomes } = self.proceeding.remove(&name)?;
        self.active.remove(&Work::AskHooks(gate));
        Some(Input::Hooked {
            gate,
            outcomes,
            wholes: SkippedWholes::new(),
        })
    }

    /// Forgets answers to questions that are not open any more. Answers about an attempt that does not continue have no
    /// report to be decided with, and are decided by themselves.
    pub(super) fn drop_proceeding(&mut self, outstanding: &Outstanding) {
        let active = &self.active;
        self.proceeding
            .retain(|_, it| active.contains_key(&Work::AskHooks(it.gate)));
        let held = self
            .proceeding
            .extract_if(.., |name, _| !outstanding.contains(&Work::RunStep(*name)));
        let held: Vec<Proceeding> = held.map(|(_, it)| it).collect();
        for Proceeding { gate, outcomes } in held {
            let settled = Message::Hooks(HookMessage::Settled { gate, outcomes });
            let work = Work::AskHooks(gate);
            self.active.remove(&work);
            self.begin_work(work, stream::once(async { settled }), None);
        }
    }

    /// Hooks are asked about what the attempt does next, and have not let it continue.
    pub(super) fn waits_for_hooks(&self, name: AttemptRef) -> bool {
        let attempt = self.session.attempt(name);
        attempt.is_some_and(Attempt::is_gated) && !self.proceeding.contains_key(&name)
    }

    /// The same for an attempt that an executor is to keep. One that is paused, say, is to end its stream.
    pub(super) fn is_withheld(&self, name: AttemptRef, outstanding: &Outstanding) -> bool {
        self.waits_for_hooks(name) && outstanding.contains(&Work::RunStep(name))
    }

    /// An attempt that waits for hooks alone does not keep its executor for long. It gets another slot after the
    /// answers.
    fn give_slot_back(&mut self, gate: Gate) {
        let name = gate.attempt;
        let work = Work::RunStep(name);
        let waits = self.session.attempt(name);
        let waits = waits.is_some_and(|it| it.is_gated() || it.waits_for_owner());
        if waits && !self.proceeding.contains_key(&name) && !has_open_intent(&self.session, work) {
            self.active.remove(&work);
            self.reported.remove(&name);
        }
    }

    /// The hooks that there are, for runs that may begin with what is decided next. Stored ones are read only if runs
    /// may, and if clients may store some.
    pub(super) async fn hooks<'d>(
        &mut self,
        deps: &'d Deps,
        first: Option<&Input>,
    ) -> Result<Known<'d>, End> {
        let hooks = &deps.hooks;
        let may_be_stored = hooks.may_be_stored();
        if !may_be_stored || !self.needs_hooks(first) {
            return Ok(Known {
                present: Cow::Borrowed(hooks.of_settings()),
                are_all: !may_be_stored,
            });
        }
        let namespace = self.key.namespace.clone();
        let read = |_| Box::pin(deps.present_hooks(&namespace));
        let present = self.inbox.retry_until_lease_ends(read).await?;
        Ok(Known {
            present: Cow::Owned(present),
            are_all: true,
        })
    }

    /// No run is active, and a queued turn begins with what is decided next.
    pub(super) fn starts_queued(&self) -> bool {
        let is_next = self.session.active_run().is_none() && !self.session.queued_turns.is_empty();
        is_next && self.runs_steps() && !self.inbox.is_stopping()
    }

    /// A run may begin with what is decided next, or get other hooks.
    fn needs_hooks(&self, first: Option<&Input>) -> bool {
        let session = &self.session;
        let run = session.active_run();
        let asks = run.is_some_and(|run| run.hooks.asks.is_some());
        let needs = |command: &Command| match command {
            Command::StartRun(_)
            | Command::SubmitTurn(_)
            | Command::CompactContext(_)
            | Command::DestroyContext(_) => true,
            Command::Decide(_) => asks,
            _ => false,
        };
        // What reports and hooks say leads to answers up to a message for the attempt, also if the owner is stopping.
        let mut waiting = session.commands.values();
        let has_message = waiting.any(|it| matches!(it.command, Command::SendMessage(_)));
        let mut waiting = session.commands.values();
        let is_dropped = || run.is_some_and(|run| run.hooks.is_dropped);
        let is_taken_over = matches!(first, Some(Input::TakenOver { .. }));
        self.starts_queued()
            || ((has_message || self.answers_commands())
                && waiting.any(|received| needs(&received.command)))
            || (is_taken_over && is_dropped())
    }
}

/// A question to hooks, with all that asking takes.
struct Asking {
    deps: Arc<Deps>,
    key: SessionKey,
    gate: Gate,
    /// One, or one for each call.
    questions: Vec<Question>,
    /// The hooks that are asked at the point, in their order.
    listeners: Vec<PinnedHook>,
    /// The span of the run.
    trace: Option<TraceParent>,
    /// The run has ended or is to fail, so it does not wait for hooks that are missing.
    is_ending: bool,
    /// Most bytes of a result that its model gets at once.
    most: usize,
}

impl Asking {
    /// None if the question is not open.
    fn new(deps: &Arc<Deps>, key: &SessionKey, session: &Session, gate: Gate) -> Option<Self> {
        let run = gate.attempt.run;
        let (pinned, trace, is_ending) = match gate.point {
            Point::OnRunEnd => {
                let mut ended = session.ended_hooks.iter();
                let ended = ended.find(|ended| ended.gate() == gate)?;
                let trace = trace_of_ended(key, run, &ended.trace_parent);
                (&ended.pinned, trace, true)
            }
            _ => {
                let run = session.run(run)?;
                (&run.hooks.pinned, trace_of(key, run), run.ending.is_some())
            }
        };
        let questions = session.hook_questions(gate);
        let is_asked = |hook: &&PinnedHook| {
            let mut questions = questions.iter();
            questions.any(|it| hook.listens(gate.point, it.tool.as_deref()))
        };
        let listeners = pinned.iter().filter(is_asked).cloned().collect();
        Some(Self {
            deps: Arc::clone(deps),
            key: key.clone(),
            gate,
            questions,
            listeners,
            trace,
            is_ending,
            most: session.result_bytes(run, deps.config.result_bytes),
        })
    }

    /// Asks all hooks, unless one of them is not what the run has to ask.
    async fn ask(self) -> HookMessage {
        let gate = self.gate;
        let resolved = self.resolved().await;
        let named = |is_it: fn(&Resolved) -> bool| {
            let hooks = self.listeners.iter().zip(&resolved);
            let named = hooks.filter(|(_, resolved)| is_it(resolved));
            named.map(|(hook, _)| hook.name.clone()).collect::<Vec<_>>()
        };
        let missing = named(|resolved| matches!(resolved, Resolved::Missing));
        let changed = named(|resolved| matches!(resolved, Resolved::Changed));
        let is_whole = missing.is_empty() && changed.is_empty();
        if !is_whole && !gate.point.observes() && !self.is_ending {
            return HookMessage::Missing {
                gate,
                missing,
                changed,
            };
        }
        let questions = stream::iter(self.questions.clone());
        let outcomes = questions
            .map(|question| self.outcome(question, &resolved))
            .buffer_unordered(MOST_AT_A_TIME);
        let mut outcomes: Vec<_> = outcomes.collect().await;
        outcomes.sort_by_key(|outcome| outcome.index);
        if outcomes.is_empty() && gate.point != Point::PreToolCall {
            // What the question is about is gone, such as the failure of a step that began anew. Nothing waits longer.
            outcomes.push(Outcome::new(0));
        }
        let wholes = self.long_results(&mut outcomes).await;
        HookMessage::Answered {
            gate,
            outcomes,
            wholes,
        }
    }

    /// Leaves the beginnings of long results of skipped calls, as of those that tools give.
    async fn long_results(&self, outcomes: &mut [Outcome]) -> SkippedWholes {
        let mut wholes = SkippedWholes::new();
        if self.gate.point != Point::PreToolCall {
            return wholes;
        }
        let skipped = outcomes.iter_mut();
        for outcome in skipped.filter(|it| it.verdict == VerdictKind::Skip) {
            let text = std::mem::take(&mut outcome.text);
            let stored = of_text(&self.deps.store, &self.key, text, self.most);
            let answer = Box::pin(stored).await;
            outcome.text = answer.output;
            wholes.extend(answer.whole.map(|whole| (outcome.index, whole)));
        }
        wholes
    }

    /// What there is of the hooks now. The store is asked again while it may answer.
    async fn resolved(&self) -> Vec<Resolved> {
        let Deps { hooks, store, .. } = &*self.deps;
        loop {
            let found = hooks.resolve(store, &self.key.namespace, &self.listeners);
            match Box::pin(found).await {
                Ok(resolved) => return resolved,
                Err(error) if may_pass(&error) => sleep(PAUSE).await,
                Err(error) => {
                    tracing::error!(session = %self.key, %error, "stored hooks cannot be read");
                    return self.listeners.iter().map(|_| Resolved::Missing).collect();
                }
            }
        }
    }

    /// Asks one hook after the other. Each is asked about what those before it left.
    async fn outcome(&self, mut question: Question, resolved: &[Resolved]) -> Outcome {
        let point = self.gate.point;
        let index = match point {
            Point::PreToolCall => question.index,
            _ => 0,
        };
        let mut outcome = Outcome::new(index);
        for (hook, resolved) in self.listeners.iter().zip(resolved) {
            if !hook.listens(point, question.tool.as_deref()) {
                continue;
            }
            let (verdict, failed, duration) = match resolved {
                Resolved::Ready(ready) => self.asked(ready, hook, &question).await,
                Resolved::Missing | Resolved::Changed => {
                    let missing = Failed {
                        kind: HookFailure::Missing,
                        why: String::new(),
                    };
                    (without_answer(point), Some(missing), Duration::ZERO)
                }
            };
            if let Verdict::Mutate(mutation) = &verdict {
                question.with(mutation);
            }
            let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            let (failure, why) = failed.map(|failed| (failed.kind, failed.why)).unzip();
            let continues = outcome.take(&hook.name, verdict, failure, ms);
            note_failure(&mut outcome, why.unwrap_or_default());
            if !continues {
                break;
            }
        }
        outcome
    }

    /// Asks one hook, in a span of its own.
    async fn asked(
        &self,
        ready: &Ready,
        hook: &PinnedHook,
        question: &Question,
    ) -> (Verdict, Option<Failed>, Duration) {
        let (namespace, session) = (self.key.namespace.as_str(), &*self.key.id);
        let key = question.gate.key(namespace, session, &hook.name);
        let span = self.trace.filter(|_| is_recording());
        let span = span.map(|run| TraceParent {
            span_id: run.derived_child(&key),
            ..run
        });
        let asked = Asked {
            key,
            namespace: namespace.to_owned(),
            session: session.to_owned(),
            hook: hook.name.clone(),
            question: question.clone(),
            trace: span.or(self.trace),
        };
        let clock = &self.deps.store.clock;
        let began = clock.now();
        let answer = ready.ask(&asked, question.conversation()).await;
        if let (Some(run), Some(span)) = (self.trace, span) {
            let traced = Traced {
                asked: &asked,
                verdict: &answer.0,
                failure: answer.1.as_ref().map(|failed| failed.kind),
            };
            traced.span(run, span, began, clock.now()).record();
        }
        answer
    }
}

/// What counts of a hook that is missing where nothing waits for it: a point that observes, or a run that ends. A result
/// may have what the hook would have taken out, and a context can keep it.
fn without_answer(point: Point) -> Verdict {
    match point {
        Point::PostToolCall => Verdict::Block(String::new()),
        _ => Verdict::Proceed,
    }
}

/// Keeps why the last hook failed, also if its failure counts as Proceed.
fn note_failure(outcome: &mut Outcome, mut why: String) {
    why.truncate(why.floor_char_boundary(MOST_OF_WHY));
    if let Some(answer) = outcome.answers.last_mut()
        && answer.verdict == VerdictKind::Proceed
        && !why.is_empty()
    {
        answer.reason = why;
    }
}

/// A question to one hook that is over.
struct Traced<'a> {
    asked: &'a Asked,
    verdict: &'a Verdict,
    failure: Option<HookFailure>,
}

impl Traced<'_> {
    fn span(&self, run: TraceParent, own: TraceParent, start_ms: u64, end_ms: u64) -> PastSpan {
        let text = |text: &str| Value::from(text.to_owned());
        let number = |number: u32| Value::from(i64::from(number));
        let asked = self.asked;
        let question = &asked.question;
        let Gate { point, attempt, .. } = question.gate;
        let mut attributes = vec![
            ("cairn.hook.name", text(&asked.hook)),
            ("cairn.hook.point", text(point.name())),
            ("cairn.hook.answer", text(self.verdict.kind().name())),
            ("cairn.hook.key", text(&asked.key)),
            ("cairn.run", number(attempt.run)),
        ];
        let numbers = [
            ("cairn.step.index", question.step_index),
            ("cairn.turn.index", question.turn_index),
            (
                "cairn.attempt",
                (attempt.attempt > 0).then_some(attempt.attempt),
            ),
        ];
        let numbers = numbers.into_iter();
        attributes.extend(numbers.filter_map(|(name, known)| Some((name, number(known?)))));
        let error = self.failure.map(error_type);
        attributes.extend(error.map(|error| ("error.type", text(error))));
        PastSpan {
            name: format!("hook {}", asked.hook).into(),
            parent: run,
            span_id: own.span_id,
            kind: SpanKind::Client,
            start_ms,
            end_ms,
            attributes,
            events: Vec::new(),
            links: Vec::new(),
            error: error.map(str::to_owned),
        }
    }
}

/// Why a hook did not answer, in a trace.
fn error_type(failure: HookFailure) -> &'static str {
    match failure {
        HookFailure::Late => "HOOK_LATE",
        HookFailure::Wrong => "HOOK_WRONG",
        HookFailure::Unreachable => "HOOK_UNREACHABLE",
        HookFailure::Missing => "HOOK_MISSING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_hook_withholds_results_and_holds_up_nothing_else() {
        for &point in Point::ALL {
            let mut outcome = Outcome::new(0);
            let missing = Some(HookFailure::Missing);
            outcome.take("guard", without_answer(point), missing, 0);
            let is_withheld = outcome.verdict == VerdictKind::Block;
            assert_eq!(is_withheld, point == Point::PostToolCall, "{point:?}");
            let words = "the hook is not configured any more, or differently";
            assert_eq!(outcome.answers[0].reason, words);
        }
    }
}
