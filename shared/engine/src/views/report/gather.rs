//! The facts of a report, collected in one pass over the log.

use crate::command::Settlement;
use crate::event::{Budget, CallRef, WaitReason};
use crate::message::Usage;
use crate::session::RunStatus;
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
    /// All steps that it has had; a step's number is its position plus 1.
    pub(super) steps: Vec<StepFacts<'a>>,
    /// Positions of the steps of the plan in force, in its order.
    pub(super) plan: Vec<usize>,
    pub(super) revision: u32,
    /// Budgets that were used up, each time that they were.
    pub(super) used_up: Vec<Budget>,
    /// One was noted, and the wait that follows from it is not another.
    is_noted: bool,
    /// Tool turns that were allowed beside the first.
    pub(super) more_turns: u64,
}

/// A step.
#[derive(Debug)]
pub(super) struct StepFacts<'a> {
    pub(super) label: &'a str,
    pub(super) phase: StepPhase,
    /// It is not in the plan any more.
    pub(super) is_dropped: bool,
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
    /// What a person said before it was made.
    pub(super) word: Option<&'a Settlement>,
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
        plan: Vec::new(),
        revision: 0,
        used_up: Vec::new(),
        is_noted: false,
        more_turns: 0,
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
                revision,
                steps,
                usage,
                duration_ms,
            } => {
                self.status = RunStatus::Running;
                self.outcome = "";
                self.revision = *revision;
                self.take_planning(usage, *duration_ms);
                self.take_steps(steps);
            }
            EntryKind::PlanProposed {
                usage, duration_ms, ..
            }
            | EntryKind::RevisionFailed {
                usage, duration_ms, ..
            } => self.take_planning(usage, *duration_ms),
            EntryKind::RunPaused { .. } => self.status = RunStatus::Paused,
            EntryKind::RunWaiting { reason } => {
                self.status = RunStatus::Waiting(*reason);
                // There was a time when only tool turns could be used up, and nothing else said so.
                if *reason == WaitReason::Budget && !std::mem::take(&mut self.is_noted) {
                    self.used_up.push(Budget::Turns);
                }
            }
            EntryKind::BudgetExhausted { budget } => {
                self.used_up.push(*budget);
                self.is_noted = true;
            }
            EntryKind::RunResumed => self.status = RunStatus::Running,
            EntryKind::BudgetRaised {
                budget: Budget::Turns,
                more,
            } => self.more_turns += more,
            EntryKind::RunEnded {
                status,
                text,
                usage,
                duration_ms,
            } => {
                self.status = *status;
                self.outcome = text;
                self.take_planning(&usage.unwrap_or_default(), *duration_ms);
            }
            _ => {}
        }
    }

    fn take_planning(&mut self, usage: &Usage, duration_ms: u64) {
        self.planning.add(usage);
        self.planning_ms += duration_ms;
    }

    fn take_steps(&mut self, steps: &'a [(u32, String)]) {
        let positions = steps
            .iter()
            .map(|(number, _)| number.wrapping_sub(1) as usize);
        self.plan = positions.collect();
        for step in &mut self.steps {
            step.is_dropped = true;
        }
        for (position, (_, label)) in self.plan.iter().zip(steps) {
            match self.steps.get_mut(*position) {
                Some(kept) => kept.is_dropped = false,
                None => self.steps.push(StepFacts::new(label)),
            }
        }
    }
}

impl<'a> StepFacts<'a> {
    fn new(label: &'a str) -> Self {
        Self {
            label,
            phase: StepPhase::Pending,
            is_dropped: false,
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
                    word: None,
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
            EntryKind::Decided { settlement, .. } => match self.doubts.last_mut() {
                Some(doubt) => doubt.answer = Some(settlement),
                None => self.word = Some(settlement),
            },
            EntryKind::Settled { .. } => {
                if let Some(doubt) = self.doubts.last_mut() {
                    doubt.settled_at = Some(entry.at);
                }
            }
            _ => {}
        }
    }
}
