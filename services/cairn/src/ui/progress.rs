//! How far a run has got, from its events.

mod compaction;
mod reply;
mod step;

pub use compaction::Compacted;
pub use reply::LastReply;
pub use step::{StepState, StepView};

use super::plans::{numbered, order_name};
use super::pool::{WAITS, lacks};
use super::writing::Writing;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use compaction::Questions;
use std::collections::{BTreeMap, BTreeSet};

/// What a step does while its model writes a summary.
const SUMMARY: &str = "a summary of older messages";

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With this answer.
    Completed(String),
    /// Because of this.
    Failed(wire::Failure),
    /// By somebody's wish, for this reason.
    Cancelled(String),
}

/// How far a run has got.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Its number.
    pub run: u32,
    /// The seq up to which events were there before this process began to look.
    pub seen_before: u64,
    /// It is a turn of a conversation, which has no plan.
    pub is_turn: bool,
    /// Number of the plan in force; 0 while planning.
    pub revision: u32,
    /// `chain` or `graph`.
    pub order: &'static str,
    /// The steps of the plan in force, in its order; empty while planning.
    pub steps: Vec<StepView>,
    /// Why it waits, as a `WaitReason`.
    pub waits: Option<i32>,
    /// Somebody stopped it for a while, and said this.
    pub paused: Option<String>,
    /// The seqs of the commands that asked the planner for another plan; 0 for the run itself.
    pub revising: BTreeSet<u64>,
    /// How it ended.
    pub end: Option<End>,
    /// The last reply of a model.
    pub reply: LastReply,
    /// What it used up.
    pub usage: wire::Usage,
    /// Answers of the model to steps.
    pub tool_turns: u32,
    /// Store time of its start, in milliseconds since 1970.
    pub started_ms: i64,
    /// Store time of its latest event.
    pub latest_ms: i64,
    /// The name of the report that it wrote itself into the output folder.
    pub report: Option<String>,
    /// What the models of its steps are writing.
    pub writing: Writing,
    /// The compactions of its conversations, in the order of the journal.
    pub compacted: Vec<Compacted>,
    /// The questions for summaries without an answer.
    pub(super) questions: Questions,
    /// Steps of earlier plans that are not in the one in force: a later one may have them again.
    pub(super) left: BTreeMap<u32, StepView>,
    /// Where in `steps` each number is.
    pub(super) places: BTreeMap<u32, usize>,
    /// The first step of the plan in force that failed, and why: what the run itself fails with.
    pub(super) first_failure: Option<(u32, wire::Failure)>,
    pub(super) began: bool,
}

impl Progress {
    /// Of this run; events up to `seen_before` are history.
    pub fn new(run: u32, seen_before: u64) -> Self {
        Self {
            run,
            seen_before,
            ..Self::default()
        }
    }

    /// Takes the next event. False if it belongs to another run, or to none.
    pub fn apply(&mut self, seq: u64, event: &wire::Event) -> bool {
        let Some(kind) = &event.kind else {
            return false;
        };
        if let Kind::RunStarted(e) = kind {
            self.began = e.run == self.run;
            if self.began {
                self.started_ms = event.at_unix_ms;
                self.is_turn = e.turn.is_some();
            }
        }
        // Only another plan makes more of a run that has ended.
        if !self.began || self.end.is_some() && !is_about_plan(self.run, kind) {
            return false;
        }
        self.latest_ms = event.at_unix_ms;
        let used = self.questions.charge(kind);
        self.spend(Some(&used));
        if let Kind::ContextCompacted(e) = kind {
            let kept = seq <= self.seen_before;
            self.compacted.push(Compacted::new(e, kept));
        }
        self.run_event(kind);
        self.step_event(seq, event.at_unix_ms, kind);
        true
    }

    /// The steps that are under way, with their numbers.
    pub fn running(&self) -> impl Iterator<Item = (u32, &StepView)> {
        let steps = self.steps.iter().map(|step| (step.number, step));
        steps.filter(|(_, step)| step.state == StepState::Running)
    }

    /// The step whose failure is that of the run; none if the run failed for another reason.
    pub fn failed_step(&self, failure: &wire::Failure) -> Option<&StepView> {
        let (number, first) = self.first_failure.as_ref()?;
        let place = self.places.get(number).filter(|_| first == failure)?;
        self.steps.get(*place)
    }

    /// Number of steps in this state.
    pub fn count(&self, state: StepState) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| step.state == state).count()
    }

    fn run_event(&mut self, kind: &Kind) {
        match kind {
            Kind::PlanApplied(e) => self.plan(e),
            Kind::RevisionRequested(e) => {
                self.revising.insert(e.request);
            }
            Kind::PlanProposed(e) => self.planned(e.request, e.usage.as_ref()),
            Kind::RevisionFailed(e) => self.planned(e.request, e.usage.as_ref()),
            Kind::RunWaiting(e) => self.waits = Some(e.reason),
            Kind::RunPaused(e) => {
                self.waits = None;
                self.paused = Some(e.reason.clone());
            }
            Kind::RunResumed(_) => {
                self.waits = None;
                self.paused = None;
            }
            Kind::RunCompleted(e) if e.answer.is_empty() => {
                // Of a turn, the last reply is the answer.
                let reply = std::mem::take(&mut self.reply.text);
                self.end = Some(End::Completed(reply));
            }
            Kind::RunCompleted(e) => self.end = Some(End::Completed(e.answer.clone())),
            Kind::RunFailed(e) => {
                self.spend(e.usage.as_ref());
                self.end = Some(End::Failed(e.failure.clone().unwrap_or_default()));
            }
            Kind::RunCancelled(e) => self.end = Some(End::Cancelled(e.reason.clone())),
            Kind::CallFinished(e) => self.spend(e.usage.as_ref()),
            // The event that puts the plan into force has no usage then.
            Kind::HooksAsked(e) => {
                self.spend(e.plan.as_ref().and_then(|plan| plan.usage.as_ref()));
            }
            Kind::HooksAnswered(e) => self.reply.hooked(e),
            Kind::RunEnding(e) => self.spend(e.usage.as_ref()),
            Kind::ReplyReceived(e) => {
                self.tool_turns += 1;
                self.reply.take(e);
                self.spend(e.usage.as_ref());
            }
            _ => {}
        }
    }

    /// The planner has answered.
    fn planned(&mut self, request: u64, usage: Option<&wire::Usage>) {
        self.revising.remove(&request);
        self.spend(usage);
    }

    /// Another plan. Steps that it shares with earlier ones stay as they are; a run that had ended
    /// continues.
    fn plan(&mut self, event: &wire::PlanApplied) {
        self.spend(event.usage.as_ref());
        // What the run wished for itself was another plan than the one before this.
        self.revising.remove(&0);
        self.revising.remove(&event.request);
        if self.end.take().is_some() {
            (self.waits, self.paused) = (None, None);
        }
        self.first_failure = None;
        self.revision = event.revision;
        self.order = event.plan.as_ref().map_or("chain", order_name);
        let before = std::mem::take(&mut self.steps).into_iter();
        self.left.extend(before.map(|step| (step.number, step)));
        for (number, step) in numbered(event) {
            let kept = self.left.remove(&number);
            let mut step = kept.unwrap_or_else(|| StepView::new(number, step));
            step.kept |= step.is_over();
            self.steps.push(step);
        }
        let places = self.steps.iter().zip(0..);
        self.places = places.map(|(step, place)| (step.number, place)).collect();
    }

    fn spend(&mut self, usage: Option<&wire::Usage>) {
        let more = usage.copied().unwrap_or_default();
        self.usage.input_tokens += more.input_tokens;
        self.usage.output_tokens += more.output_tokens;
        self.usage.cost_nano_usd += more.cost_nano_usd;
        self.usage.unpriced_tokens += more.unpriced_tokens;
        self.usage.model_calls += more.model_calls;
    }

    fn step_event(&mut self, seq: u64, at: i64, kind: &Kind) {
        let Some(number) = step_number(kind) else {
            return;
        };
        // What the model was writing is whole now, or will not come any more.
        let continues = matches!(
            kind,
            Kind::CallFinished(_) | Kind::StepStarted(_) | Kind::AttemptPlaced(_)
        );
        if !continues {
            self.writing.end(number);
        }
        let kept = seq <= self.seen_before;
        let place = self.places.get(&number);
        let Some(step) = place.and_then(|&place| self.steps.get_mut(place)) else {
            return;
        };
        match kind {
            Kind::StepStarted(_) => step.start(at),
            Kind::ReplyReceived(e) => step.reply(e),
            Kind::CallFinished(e) => {
                self.report = step.written_report(e).or(self.report.take());
            }
            Kind::SummaryAsked(_) => SUMMARY.clone_into(&mut step.call),
            Kind::CapabilityShort(e) => step.call = lacks(&e.missing),
            Kind::HooksAnswered(e) => step.hooked(e),
            Kind::AttemptPlaced(_) if step.call.starts_with(WAITS) => step.call.clear(),
            Kind::ContextCompacted(_) | Kind::ContextFull(_) => step.call.clear(),
            Kind::SubGoalAdded(_) => step.parts.1 += 1,
            Kind::SubGoalCompleted(_) => step.parts.0 += 1,
            Kind::SubGoalDropped(_) => step.parts.1 = step.parts.1.saturating_sub(1),
            Kind::StepCompleted(e) => {
                let text = [e.summary.as_str(), e.response.as_str()];
                let text = text.into_iter().find(|text| !text.is_empty());
                step.end(StepState::Done, at, kept, text.unwrap_or_default());
            }
            Kind::StepFailed(e) => {
                let why = e.failure.as_ref().map_or("", |failure| &failure.message);
                step.end(StepState::Failed, at, kept, why);
                let failure = e.failure.clone().unwrap_or_default();
                self.first_failure.get_or_insert((number, failure));
            }
            Kind::StepSkipped(e) => step.end(StepState::Skipped, at, kept, &e.reason),
            _ => {}
        }
    }
}

fn is_about_plan(run: u32, kind: &Kind) -> bool {
    match kind {
        Kind::PlanApplied(e) => e.run == run,
        Kind::RevisionRequested(e) => e.run == run,
        Kind::PlanProposed(e) => e.run == run,
        Kind::RevisionFailed(e) => e.run == run,
        _ => false,
    }
}

fn step_number(kind: &Kind) -> Option<u32> {
    let attempt = match kind {
        Kind::StepSkipped(e) => return Some(e.step),
        Kind::StepStarted(e) => e.attempt,
        Kind::StepCompleted(e) => e.attempt,
        Kind::StepFailed(e) => e.attempt,
        Kind::ReplyReceived(e) => e.attempt,
        Kind::SummaryAsked(e) => e.attempt,
        Kind::CapabilityShort(e) => e.attempt,
        Kind::AttemptPlaced(e) => e.attempt,
        Kind::ContextCompacted(e) => e.attempt,
        Kind::ContextFull(e) => e.attempt,
        Kind::SubGoalAdded(e) => e.attempt,
        Kind::SubGoalCompleted(e) => e.attempt,
        Kind::SubGoalDropped(e) => e.attempt,
        Kind::CallFinished(e) => e.call.and_then(|call| call.attempt),
        Kind::HooksAnswered(e) => e.gate.and_then(|gate| gate.attempt),
        _ => None,
    };
    attempt.map(|attempt| attempt.step)
}

#[cfg(test)]
mod tests;
