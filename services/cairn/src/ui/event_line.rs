//! One line of text for each kind of event.

mod agents;
mod brief;
mod compaction;
mod context;
mod hooks;
mod pool;
mod runs;
mod tools;
mod words;

pub use words::{failure_text, nearly_full, step_facts, step_name, used_up, waits_for};

use super::modes;
use super::plans::numbered;
use super::time::clock;
use cairn_engine::pending::{PendingId, Subject};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;
use compaction::compaction_line;
use context::context_line;
use pool::pool_line;
use runs::run_line;
use std::collections::HashMap;
use std::fmt;
use words::{
    PIECE, after_colon, command_text, event_by_name, forked, result, settlement_text, stays,
};

/// What a line tells at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Something happened.
    Plain,
    /// Something began.
    Began,
    /// Something ended well.
    Good,
    /// Something ended badly.
    Bad,
    /// A person is asked for something.
    Asks,
}

impl Mark {
    /// One character.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Plain => " ",
            Self::Began => "→",
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Asks => "?",
        }
    }
}

/// An event for people: a mark and one line, in which everything untrusted is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLine {
    /// What it tells at a glance.
    pub mark: Mark,
    /// The line.
    pub text: String,
}

impl fmt::Display for EventLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mark.sign(), self.text)
    }
}

type StepKey = (u32, u32);
type CallKey = (u32, u32, u32, u32, u32);
type PartKey = (u32, u32, u32, u32);

/// Tells events as lines.
///
/// It remembers the names that events give to steps, calls and parts of steps, because later
/// events have only their numbers. Begun in the middle of a journal it tells the numbers.
#[derive(Debug, Default)]
pub struct Narrator {
    steps: HashMap<StepKey, String>,
    calls: HashMap<CallKey, Called>,
    parts: HashMap<PartKey, String>,
}

/// A call as it was asked for.
#[derive(Debug, Default)]
struct Called {
    name: String,
    arguments: String,
}

impl Narrator {
    /// The line of the next event; at its end who asked for it or decided it, if the event says so.
    pub fn line(&mut self, event: &wire::Event) -> EventLine {
        let mut line = match &event.kind {
            Some(kind) => {
                self.remember(kind);
                self.kind_line(kind)
            }
            None => line(
                Mark::Plain,
                "an event of a kind that this version does not know",
            ),
        };
        if let Some(by) = &event.principal {
            line.text = format!("{} by {}", line.text, clip(&by.subject, PIECE));
        }
        line
    }

    fn kind_line(&self, kind: &Kind) -> EventLine {
        match kind {
            Kind::RunStarted(_)
            | Kind::PlanApplied(_)
            | Kind::RunWaiting(_)
            | Kind::RunResumed(_)
            | Kind::RunTakenOver(_)
            | Kind::RunCompleted(_)
            | Kind::RunFailed(_)
            | Kind::RunCancelled(_)
            | Kind::BudgetExhausted(_)
            | Kind::BudgetRaised(_)
            | Kind::BudgetRefused(_)
            | Kind::RunPaused(_)
            | Kind::QueuedTurnDropped(_)
            | Kind::RevisionRequested(_)
            | Kind::PlanProposed(_)
            | Kind::RevisionFailed(_) => run_line(kind),
            Kind::StepStarted(_)
            | Kind::AttemptContinued(_)
            | Kind::StepCompleted(_)
            | Kind::StepFailed(_)
            | Kind::StepSkipped(_) => self.step_line(kind),
            Kind::SubGoalAdded(_)
            | Kind::SubGoalFocused(_)
            | Kind::SubGoalCompleted(_)
            | Kind::SubGoalDropped(_)
            | Kind::ScratchpadWritten(_) => self.part_line(kind),
            Kind::ReplyReceived(e) => reply_line(e),
            Kind::ContextChanged(e) => context_line(e),
            Kind::CompactionRequested(_)
            | Kind::SummaryAsked(_)
            | Kind::ContextCompacted(_)
            | Kind::ContextFull(_) => compaction_line(kind),
            Kind::AttemptPlaced(_) | Kind::CapabilityShort(_) | Kind::CapabilityFound(_) => {
                pool_line(kind)
            }
            Kind::HooksAsked(_)
            | Kind::HooksAnswered(_)
            | Kind::HooksChanged(_)
            | Kind::HooksPinned(_)
            | Kind::HooksDropped(_)
            | Kind::RunEnding(_) => self.hook_line(kind),
            Kind::CallIntended(_)
            | Kind::CallHeld(_)
            | Kind::CallFinished(_)
            | Kind::CallInDoubt(_)
            | Kind::CallSettled(_)
            | Kind::CallRejudged(_)
            | Kind::CallPreviewed(_)
            | Kind::ApprovalRequested(_)
            | Kind::InputRequested(_)
            | Kind::QuestionAsked(_) => self.call_line(kind),
            Kind::Decided(e) => self.decided_line(e),
            of_session => session_line(of_session),
        }
    }

    fn remember(&mut self, kind: &Kind) {
        match kind {
            Kind::PlanApplied(e) => {
                for (number, step) in numbered(e) {
                    self.steps.insert((e.run, number), step_name(step));
                    if let Some(tool) = &step.tool {
                        let called = Called {
                            name: tool.name.clone(),
                            arguments: tool.arguments_json.clone(),
                        };
                        self.calls.insert((e.run, number, 1, 0, 0), called);
                    }
                }
            }
            Kind::ReplyReceived(e) => {
                let at = e.attempt.unwrap_or_default();
                for (index, call) in (0..).zip(&e.calls) {
                    let key = (at.run, at.step, at.attempt, e.tool_turn, index);
                    let called = call.call.as_ref().map(|call| Called {
                        name: call.name.clone(),
                        arguments: call.arguments_json.clone(),
                    });
                    self.calls.insert(key, called.unwrap_or_default());
                }
            }
            Kind::SubGoalAdded(e) => {
                let key = part_key(e.attempt.as_ref(), e.index);
                self.parts.insert(key, e.text.clone());
            }
            _ => {}
        }
    }

    fn step_line(&self, kind: &Kind) -> EventLine {
        match kind {
            Kind::StepStarted(e) => {
                let at = e.attempt.unwrap_or_default();
                let again = match at.attempt {
                    ..=1 => String::new(),
                    number => format!(" (attempt {number})"),
                };
                let name = self.step(at.run, at.step);
                let text = format!("step {} started{again}{name}", at.step);
                line(Mark::Began, text)
            }
            Kind::AttemptContinued(e) => {
                let at = e.attempt.unwrap_or_default();
                let name = self.step(at.run, at.step);
                line(Mark::Began, format!("step {} continues{name}", at.step))
            }
            Kind::StepCompleted(e) => {
                let number = step_of(e.attempt.as_ref());
                let said = if e.summary.is_empty() {
                    &e.response
                } else {
                    &e.summary
                };
                let text = format!("step {number} completed{}", after_colon(said));
                line(Mark::Good, text)
            }
            Kind::StepFailed(e) => {
                let number = step_of(e.attempt.as_ref());
                let why = failure_text(e.failure.as_ref());
                line(Mark::Bad, format!("step {number} failed: {why}"))
            }
            Kind::StepSkipped(e) => {
                let by = match e.hook.as_str() {
                    "" => String::new(),
                    hook => format!(" by hook {}", clip(hook, PIECE)),
                };
                let why = after_colon(&e.reason);
                line(Mark::Plain, format!("step {} skipped{by}{why}", e.step))
            }
            _ => line(Mark::Plain, ""),
        }
    }

    fn part_line(&self, kind: &Kind) -> EventLine {
        let (mark, attempt, text) = match kind {
            Kind::SubGoalAdded(e) => {
                let text = format!("to do: {}", clip(&e.text, PIECE));
                (Mark::Plain, e.attempt.as_ref(), text)
            }
            Kind::SubGoalFocused(e) => {
                let text = format!("turns to: {}", self.part(e.attempt.as_ref(), e.index));
                (Mark::Began, e.attempt.as_ref(), text)
            }
            Kind::SubGoalCompleted(e) => {
                let part = self.part(e.attempt.as_ref(), e.index);
                let text = format!("done: {part}{}", after_colon(&e.summary));
                (Mark::Good, e.attempt.as_ref(), text)
            }
            Kind::SubGoalDropped(e) => {
                let text = format!("dropped: {}", self.part(e.attempt.as_ref(), e.index));
                (Mark::Plain, e.attempt.as_ref(), text)
            }
            Kind::ScratchpadWritten(e) => {
                let text = format!("notes{}", after_colon(&e.text));
                (Mark::Plain, e.attempt.as_ref(), text)
            }
            _ => (Mark::Plain, None, String::new()),
        };
        line(mark, format!("step {}: {text}", step_of(attempt)))
    }

    fn call_line(&self, kind: &Kind) -> EventLine {
        let (mark, call, text) = match kind {
            Kind::CallIntended(e) => (Mark::Plain, e.call.as_ref(), "is sent".to_owned()),
            Kind::CallHeld(e) => (
                Mark::Plain,
                e.call.as_ref(),
                "was not sent, and waits".to_owned(),
            ),
            Kind::CallFinished(e) => {
                let (mark, text) = result(e);
                (mark, e.call.as_ref(), text)
            }
            Kind::CallInDoubt(e) => {
                let from = match e.settle_after_unix_ms {
                    ..=0 => "at once".to_owned(),
                    from => format!("from {} UTC on", clock(from)),
                };
                let text =
                    format!("was begun and nobody knows how it ended; an answer counts {from}");
                (Mark::Asks, e.call.as_ref(), text)
            }
            Kind::CallSettled(e) => {
                let text = format!("settled: {}", settlement_text(e.settlement.as_ref()));
                (Mark::Plain, e.call.as_ref(), text)
            }
            Kind::ApprovalRequested(e) => {
                let text = "needs a person's approval".to_owned();
                (Mark::Asks, e.call.as_ref(), text)
            }
            Kind::CallRejudged(e) => (Mark::Plain, e.call.as_ref(), tools::rejudged(e)),
            Kind::CallPreviewed(e) => (Mark::Plain, e.call.as_ref(), tools::previewed(e)),
            Kind::InputRequested(e) => (Mark::Asks, e.call.as_ref(), tools::asks(e)),
            Kind::QuestionAsked(e) => {
                let text = format!("asks{}", after_colon(&e.question));
                (Mark::Asks, e.call.as_ref(), text)
            }
            _ => (Mark::Plain, None, String::new()),
        };
        let call = call.copied().unwrap_or_default();
        let number = step_of(call.attempt.as_ref());
        line(mark, format!("step {number}: {} {text}", self.call(&call)))
    }

    fn decided_line(&self, e: &wire::Decided) -> EventLine {
        let decision = settlement_text(e.settlement.as_ref());
        let id = PendingId::parse(&e.pending_id);
        let call = id.and_then(|id| id.call()).map(wire::CallRef::from);
        let subject = match (call, id.map(|id| id.subject)) {
            (Some(call), _) => {
                let number = step_of(call.attempt.as_ref());
                format!("step {number}: {}", self.call(&call))
            }
            (None, Some(Subject::Context(attempt))) => {
                format!("step {}: the request that does not fit", attempt.step)
            }
            (None, Some(Subject::Shortage(attempt))) => {
                format!("step {}: what no resource has", attempt.step)
            }
            (None, Some(Subject::Hook { run })) => format!("run {run}: what its hooks ask"),
            _ => clip(&e.pending_id, PIECE),
        };
        line(Mark::Plain, format!("{subject} answered: {decision}"))
    }

    fn step(&self, run: u32, step: u32) -> String {
        self.steps
            .get(&(run, step))
            .map_or_else(String::new, |name| after_colon(name))
    }

    fn call(&self, call: &wire::CallRef) -> String {
        let number = || format!("call {}.{}", call.tool_turn, call.index);
        let called = self.called(call);
        called.map_or_else(number, |called| clip(&called.name, PIECE))
    }

    fn called(&self, call: &wire::CallRef) -> Option<&Called> {
        let at = call.attempt.unwrap_or_default();
        let key = (at.run, at.step, at.attempt, call.tool_turn, call.index);
        // Of a tool step, every attempt makes the same call.
        let first = (at.run, at.step, 1, call.tool_turn, call.index);
        self.calls.get(&key).or_else(|| self.calls.get(&first))
    }

    fn part(&self, attempt: Option<&wire::AttemptRef>, index: u32) -> String {
        let name = self.parts.get(&part_key(attempt, index));
        name.map_or_else(|| format!("part {}", index + 1), |name| clip(name, PIECE))
    }
}

fn session_line(kind: &Kind) -> EventLine {
    let text = match kind {
        Kind::SessionCreated(e) => format!("session created{}{}", after_colon(&e.title), stays(e)),
        Kind::CommandReceived(e) => format!("asked: {}", command_text(e.command.as_ref())),
        Kind::CommandRefused(e) => {
            let why = clip(&e.message, 2 * PIECE);
            return line(
                Mark::Bad,
                format!("refused: {why} ({})", clip(&e.reason, PIECE)),
            );
        }
        Kind::MemorySet(e) => {
            let (key, value) = (clip(&e.key, PIECE), clip(&e.value, PIECE));
            format!("memory: {key} = {value}")
        }
        Kind::MemoryRemoved(e) => format!("memory: {} removed", clip(&e.key, PIECE)),
        Kind::MemoryCleared(_) => "memory: cleared".to_owned(),
        Kind::ForkedFrom(e) => forked(e),
        Kind::StoredApart(e) => format!("an event of {} bytes, kept apart", e.size),
        Kind::ApprovalGranted(e) => tools::granted(e),
        Kind::ApprovalRevoked(e) => format!("approval {} revoked", e.grant),
        Kind::ToolsFound(e) => tools::found(e),
        Kind::AgentDefined(e) => agents::defined(e),
        Kind::AgentSwitched(e) => agents::switched(e),
        Kind::ModeSet(e) => format!("the mode is {}", modes::name(e.mode())),
        other => event_by_name(other),
    };
    line(Mark::Plain, text)
}

fn reply_line(event: &wire::ReplyReceived) -> EventLine {
    let mut parts = Vec::new();
    if !event.text.is_empty() {
        parts.push(clip(&event.text, PIECE));
    }
    for call in event.calls.iter().filter_map(|call| call.call.as_ref()) {
        let (name, arguments) = (
            clip(&call.name, PIECE),
            clip(&call.arguments_json, PIECE / 2),
        );
        parts.push(format!("calls {name} {arguments}"));
    }
    let said = if parts.is_empty() {
        "an empty reply".to_owned()
    } else {
        parts.join(" · ")
    };
    let number = step_of(event.attempt.as_ref());
    line(Mark::Plain, format!("step {number}: {said}"))
}

fn line(mark: Mark, text: impl Into<String>) -> EventLine {
    let text = text.into();
    EventLine { mark, text }
}

fn step_of(attempt: Option<&wire::AttemptRef>) -> u32 {
    attempt.map_or(0, |attempt| attempt.step)
}

fn part_key(attempt: Option<&wire::AttemptRef>, index: u32) -> PartKey {
    let at = attempt.copied().unwrap_or_default();
    (at.run, at.step, at.attempt, index)
}

#[cfg(test)]
mod tests;
