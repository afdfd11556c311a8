//! The facts of a report, collected in one pass over the log.

use crate::command::Settlement;
use crate::event::{CallRef, WaitReason};
use crate::message::Usage;
use crate::state::RunStatus;
use crate::transitions::StepPhase;
use crate::views::log::{Entry, EntryKind, Log};
use std::collections::HashMap;

/// A run.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) run: u32,
    pub(super) goal: &'a str,
    pub(super) status: RunStatus,
    /// Answer, failure or the reason of the cancelling, by the status.
    pub(super) outcome: &'a str,
    pub(super) started_at: u64,
    /// Of the last entry.
    pub(super) last_at: u64,
    pub(super) planning: Usage,
    pub(super) planning_ms: u64,
    pub(super) steps: Vec<StepFacts<'a>>,
    /// How often it waited for more tool turns.
    pub(super) budget_waits: u32,
    pub(super) raised: Vec<u32>,
}

/// A step.
#[derive(Debug)]
pub(super) struct StepFacts<'a> {
    pub(super) label: &'a str,
    pub(super) phase: StepPhase,
    /// Summary, failure or reason, by the phase.
    pub(super) outcome: &'a str,
    pub(super) began: Option<u64>,
    pub(super) ended: Option<u64>,
    pub(super) attempts: u32,
    pub(super) continued: u32,
    pub(super) usage: Usage,
    pub(super) tool_turns: u32,
    pub(super) calls: Vec<CallFacts<'a>>,
}

/// A call.
#[derive(Debug)]
pub(super) struct CallFacts<'a> {
    pub(super) tool: &'a str,
    pub(super) input: &'a str,
    pub(super) result: Option<ResultFacts<'a>>,
    pub(super) doubts: Vec<Doubt<'a>>,
}

/// A call's result.
#[derive(Debug)]
pub(super) struct ResultFacts<'a> {
    pub(super) output: &'a str,
    pub(super) is_error: bool,
    pub(super) reason: &'a str,
    pub(super) duration_ms: Option<u64>,
}

/// A time at which nobody knew how a call ended.
#[derive(Debug)]
pub(super) struct Doubt<'a> {
    pub(super) since: u64,
    /// What a person said.
    pub(super) answer: Option<&'a Settlement>,
    /// When it took effect.
    pub(super) settled_at: Option<u64>,
}

/// Where a call's facts are: step and position.
type Places = HashMap<CallRef, (usize, usize)>;

pub(super) fn gather(log: &Log, run: u32) -> Option<Facts<'_>> {
    let mut entries = log.entries().iter().filter(|entry| entry.run == run);
    let first = entries.next()?;
    let EntryKind::RunStarted { goal, .. } = &first.kind else {
        return None;
    };
    let mut facts = Facts {
        run,
        goal,
        status: RunStatus::Planning,
        outcome: "",
        started_at: first.at,
        last_at: first.at,
        planning: Usage::default(),
        planning_ms: 0,
        steps: Vec::new(),
        budget_waits: 0,
        raised: Vec::new(),
    };
    let mut places = Places::new();
    for entry in entries {
        facts.last_at = entry.at;
        match (entry.step as usize).checked_sub(1) {
            None => facts.take(&entry.kind),
            Some(position) => {
                if let Some(step) = facts.steps.get_mut(position) {
                    step.take(entry, position, &mut places);
                }
            }
        }
    }
    Some(facts)
}

impl<'a> Facts<'a> {
    fn take(&mut self, entry: &'a EntryKind) {
        match entry {
            EntryKind::PlanApplied {
                steps,
                usage,
                duration_ms,
                ..
            } => {
                self.status = RunStatus::Running;
                self.planning.add(usage);
                self.planning_ms += duration_ms;
                self.steps = steps.iter().map(|label| StepFacts::new(label)).collect();
            }
            EntryKind::RunWaiting { reason } => {
                self.status = RunStatus::Waiting(*reason);
                self.budget_waits += u32::from(*reason == WaitReason::Budget);
            }
            EntryKind::RunResumed => self.status = RunStatus::Running,
            EntryKind::BudgetRaised { turns } if *turns > 0 => self.raised.push(*turns),
            EntryKind::RunEnded {
                status,
                text,
                usage,
                duration_ms,
            } => {
                self.status = *status;
                self.outcome = text;
                self.planning.add(&usage.unwrap_or_default());
                self.planning_ms += duration_ms;
            }
            _ => {}
        }
    }
}

impl<'a> StepFacts<'a> {
    fn new(label: &'a str) -> Self {
        Self {
            label,
            phase: StepPhase::Pending,
            outcome: "",
            began: None,
            ended: None,
            attempts: 0,
            continued: 0,
            usage: Usage::default(),
            tool_turns: 0,
            calls: Vec::new(),
        }
    }

    fn take(&mut self, entry: &'a Entry, position: usize, places: &mut Places) {
        match &entry.kind {
            EntryKind::StepStarted => {
                self.phase = StepPhase::Running;
                self.began.get_or_insert(entry.at);
                self.attempts += 1;
            }
            EntryKind::AttemptContinued => self.continued += 1,
            EntryKind::StepEnded { phase, text } => {
                self.phase = *phase;
                self.outcome = text;
                self.ended = Some(entry.at);
            }
            EntryKind::Reply { usage, .. } => {
                self.usage.add(usage);
                self.tool_turns += 1;
            }
            EntryKind::Call {
                call, tool, input, ..
            } => {
                places.insert(*call, (position, self.calls.len()));
                self.calls.push(CallFacts {
                    tool,
                    input,
                    result: None,
                    doubts: Vec::new(),
                });
            }
            EntryKind::Result { call, .. }
            | EntryKind::InDoubt { call, .. }
            | EntryKind::Decided { call, .. }
            | EntryKind::Settled { call, .. } => {
                let place = places.get(call).filter(|(step, _)| *step == position);
                if let Some(call) = place.and_then(|&(_, at)| self.calls.get_mut(at)) {
                    call.take(entry);
                }
            }
            _ => {}
        }
    }
}

impl<'a> CallFacts<'a> {
    fn take(&mut self, entry: &'a Entry) {
        match &entry.kind {
            EntryKind::Result {
                output,
                is_error,
                reason,
                duration_ms,
                ..
            } => {
                self.result = Some(ResultFacts {
                    output,
                    is_error: *is_error,
                    reason,
                    duration_ms: *duration_ms,
                });
            }
            EntryKind::InDoubt { .. } => self.doubts.push(Doubt {
                since: entry.at,
                answer: None,
                settled_at: None,
            }),
            EntryKind::Decided { settlement, .. } => {
                if let Some(doubt) = self.doubts.last_mut() {
                    doubt.answer = Some(settlement);
                }
            }
            EntryKind::Settled { .. } => {
                if let Some(doubt) = self.doubts.last_mut() {
                    doubt.settled_at = Some(entry.at);
                }
            }
            _ => {}
        }
    }
}
