//! The facts of a report, collected in one pass over the events.

use super::turn::said;
use crate::compactions::Compactions;
use crate::hooked::{Replaced, replaced, sent};
use cairn_engine::command::{Command, Settlement};
use cairn_engine::conversation::CompactionKind;
use cairn_engine::event::{
    AttemptRef, Budget, CallFinished, CallRef, Event, EventKind, PlanApplied, ResultHandle,
    ShortageKind,
};
use cairn_engine::message::Usage;
use cairn_engine::pending::Subject;
use cairn_engine::plan::{ToolInvocation, numbers_of};
use cairn_engine::session::{Place, RunStatus, Slot, StepNo};
use cairn_engine::transitions::StepPhase;
use std::borrow::Cow;
use std::collections::HashMap;

/// A run.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) run: u32,
    pub(super) goal: &'a str,
    /// The name of its agent; empty for the default agent without skills and instructions.
    pub(super) agent: &'a str,
    /// It is a turn of a conversation.
    pub(super) is_turn: bool,
    pub(super) status: RunStatus,
    /// Answer, failure or the reason of the cancelling, by the status.
    pub(super) outcome: &'a str,
    pub(super) started_at: u64,
    /// Of the last event about it.
    pub(super) last_at: u64,
    pub(super) planning: Usage,
    pub(super) planning_ms: u64,
    /// All steps that it has had, by [`Slot`].
    pub(super) steps: Vec<StepFacts<'a>>,
    /// The plan in force, in its order.
    pub(super) plan: Vec<Slot>,
    pub(super) revision: u32,
    /// Budgets that were used up, each time that they were.
    pub(super) used_up: Vec<Budget>,
    /// Tool turns that were allowed beside the first.
    pub(super) more_turns: u64,
    /// Where the facts of a call are: its step, and the position in it.
    pub(super) calls: HashMap<CallRef, (Slot, usize)>,
}

/// A step.
#[derive(Debug)]
pub(super) struct StepFacts<'a> {
    pub(super) label: String,
    /// The call that a tool step makes.
    tool: Option<&'a ToolInvocation>,
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
    pub(super) compactions: u32,
    /// Its next request does not fit.
    is_full: bool,
    /// No resource has what it needs.
    is_short: bool,
    pub(super) calls: Vec<CallFacts<'a>>,
}

/// A call.
#[derive(Debug)]
pub(super) struct CallFacts<'a> {
    pub(super) tool: &'a str,
    /// The arguments, as they are sent.
    pub(super) input: &'a str,
    /// Hooks changed the arguments.
    pub(super) is_changed: bool,
    pub(super) result: Option<ResultFacts<'a>>,
    pub(super) doubts: Vec<Doubt<'a>>,
    /// What a person said before it was made.
    pub(super) decision: Option<&'a Settlement>,
    /// What it waits for.
    pub(super) waits: Option<Waits>,
}

/// What a call or a step waits for a person to say. Of several, a step is shown with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waits {
    Doubt,
    Approval,
    Question,
    /// Its next request does not fit.
    Full,
    /// No resource of the pool has what it needs.
    Capability,
}

/// A call's result.
#[derive(Debug)]
pub(super) struct ResultFacts<'a> {
    pub(super) output: Cow<'a, str>,
    pub(super) is_error: bool,
    pub(super) reason: &'a str,
    pub(super) duration_ms: Option<u64>,
    /// The whole, if the output is its beginning.
    pub(super) whole: Option<&'a ResultHandle>,
}

/// A time at which the outcome of a call was unknown.
#[derive(Debug)]
pub(super) struct Doubt<'a> {
    pub(super) since: u64,
    /// What a person said.
    pub(super) answer: Option<&'a Settlement>,
    /// When it took effect.
    pub(super) settled_at: Option<u64>,
}

/// None for a run that there is not.
pub(super) fn gather<'a>(
    events: impl IntoIterator<Item = (u64, &'a Event)>,
    run: u32,
) -> Option<Facts<'a>> {
    let mut events = events.into_iter();
    let (mut turns, mut compactions) = (HashMap::new(), Compactions::default());
    let mut facts = events.find_map(|(seq, event)| match &event.kind {
        EventKind::CommandReceived(received) => {
            if let Command::SubmitTurn(turn) = &received.command {
                turns.insert(seq, said(turn));
            }
            None
        }
        EventKind::RunStarted(started) if started.run == run => {
            compactions.take(seq, event);
            let agent = started.agent.as_ref();
            let facts = Facts {
                agent: agent.map(|used| used.name.as_str()).unwrap_or_default(),
                ..Facts::new(run, &started.goal, event.at)
            };
            Some(match &started.turn {
                None => facts,
                Some(turn) => {
                    let said = turns.get(&turn.command(event.answers));
                    facts.of_turn(said.copied().unwrap_or(&started.goal))
                }
            })
        }
        _ => None,
    })?;
    for (seq, event) in events {
        for (attempt, usage) in compactions.take(seq, event) {
            if let Some(step) = facts.step(attempt) {
                step.usage.add(&usage);
            }
        }
        if let EventKind::CallFinished(it) = &event.kind
            && let Some(usage) = &it.usage
            && let Some(step) = facts.step(it.call.attempt)
        {
            step.usage.add(usage);
        }
        let taken = facts
            .take_of_run(&event.kind)
            .or_else(|| facts.take_of_step(event))
            .or_else(|| facts.take_of_compaction(&event.kind))
            .or_else(|| facts.take_of_hooks(&event.kind))
            .or_else(|| facts.take_of_call(event));
        if taken.is_some() {
            facts.last_at = event.at;
        }
    }
    for number in compactions.full_steps(run) {
        if let Some(step) = facts.step_of(run, number) {
            step.is_full = true;
        }
    }
    Some(facts)
}

/// What the report takes of an event; None for one of another run or that it does not show.
impl<'a> Facts<'a> {
    pub(super) fn new(run: u32, goal: &'a str, started_at: u64) -> Self {
        Self {
            run,
            goal,
            agent: "",
            is_turn: false,
            status: RunStatus::Planning,
            outcome: "",
            started_at,
            last_at: started_at,
            planning: Usage::default(),
            planning_ms: 0,
            steps: Vec::new(),
            plan: Vec::new(),
            revision: 0,
            used_up: Vec::new(),
            more_turns: 0,
            calls: HashMap::new(),
        }
    }

    fn of_this_run(&mut self, run: u32) -> Option<&mut Self> {
        (run == self.run).then_some(self)
    }

    fn take_of_run(&mut self, event: &'a EventKind) -> Option<()> {
        use EventKind as E;
        match event {
            E::RevisionRequested(it) => {
                self.of_this_run(it.run)?;
            }
            E::PlanProposed(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.take_planning(&it.usage, it.duration_ms);
            }
            E::RevisionFailed(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.take_planning(&it.usage, it.duration_ms);
            }
            E::PlanApplied(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.take_planning(&it.usage, it.duration_ms);
                facts.take_plan(it);
            }
            E::RunPaused(it) => self.of_this_run(it.run)?.status = RunStatus::Paused,
            E::RunWaiting(it) => self.of_this_run(it.run)?.status = RunStatus::Waiting(it.reason),
            E::RunResumed(it) => {
                let facts = self.of_this_run(it.run)?;
                let has_plan = !facts.plan.is_empty();
                facts.status = [RunStatus::Planning, RunStatus::Running][usize::from(has_plan)];
            }
            E::BudgetExhausted(it) => self.of_this_run(it.run)?.used_up.push(it.budget),
            E::BudgetRaised(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.more_turns += if it.budget == Budget::Turns {
                    it.more
                } else {
                    0
                };
            }
            E::RunCompleted(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.status = RunStatus::Completed;
                if !facts.is_turn {
                    facts.outcome = &it.answer;
                }
            }
            E::RunFailed(it) => {
                let facts = self.of_this_run(it.run)?;
                facts.take_planning(&it.usage.unwrap_or_default(), it.duration_ms);
                (facts.status, facts.outcome) = (RunStatus::Failed, &it.failure.message);
            }
            E::RunCancelled(it) => {
                let facts = self.of_this_run(it.run)?;
                (facts.status, facts.outcome) = (RunStatus::Cancelled, &it.reason);
            }
            _ => return None,
        }
        Some(())
    }

    fn take_planning(&mut self, usage: &Usage, duration_ms: u64) {
        self.planning.add(usage);
        self.planning_ms += duration_ms;
    }

    fn take_plan(&mut self, applied: &'a PlanApplied) {
        // A run that waits or is paused stays so.
        if self.status == RunStatus::Planning || self.status.is_terminal() {
            self.status = RunStatus::Running;
        }
        self.outcome = "";
        self.revision = applied.revision;
        let numbers = numbers_of(&applied.plan, &applied.numbers).into_iter();
        self.plan = numbers.filter_map(StepNo::slot).collect();
        for step in &mut self.steps {
            step.is_dropped = true;
        }
        let planned = self.plan.iter().zip(&applied.plan.steps);
        for ((slot, step), place) in planned.zip(Place::all()) {
            if slot.index() >= self.steps.len() {
                self.steps.push(StepFacts::new(step.label(place)));
            }
            if let Some(facts) = self.steps.get_mut(slot.index()) {
                facts.is_dropped = false;
                facts.tool = step.tool.as_ref();
            }
        }
    }

    fn take_of_step(&mut self, event: &'a Event) -> Option<()> {
        use EventKind as E;
        let at = event.at;
        match &event.kind {
            E::StepStarted(it) => {
                let step = self.step(it.attempt)?;
                step.phase = StepPhase::Running;
                step.began.get_or_insert(at);
                step.attempts += 1;
                step.is_short = false;
                // A new attempt asks anew.
                for call in &mut step.calls {
                    call.waits = None;
                }
                let tool = it.tool_effect.and(step.tool);
                let call = tool.map(|tool| CallFacts::new(&tool.name, &tool.arguments));
                self.add_calls(it.attempt, 0, call)?;
            }
            E::AttemptContinued(it) => self.step(it.attempt)?.continued += 1,
            E::CapabilityShort(it) => {
                let is_none = it.kind == ShortageKind::None;
                self.step(it.attempt)?.is_short = is_none;
            }
            E::CapabilityFound(it) => self.step(it.attempt)?.is_short = false,
            E::StepCompleted(it) => {
                let step = self.step(it.attempt)?;
                step.end(StepPhase::Completed, &it.summary, at);
            }
            E::StepFailed(it) => {
                let step = self.step(it.attempt)?;
                step.end(StepPhase::Failed, &it.failure.message, at);
            }
            E::StepSkipped(it) => {
                let step = self.step_of(it.run, it.step)?;
                step.end(StepPhase::Skipped, &it.reason, at);
            }
            E::ReplyReceived(it) => {
                let step = self.step(it.attempt)?;
                step.usage.add(&it.usage);
                step.tool_turns += 1;
                let calls = it.calls.iter().map(|requested| &requested.call);
                let calls = calls.map(|call| CallFacts::new(&call.name, &call.arguments));
                self.add_calls(it.attempt, it.tool_turn, calls)?;
                if self.is_turn {
                    self.outcome = &it.text;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn take_of_compaction(&mut self, event: &'a EventKind) -> Option<()> {
        use EventKind as E;
        match event {
            E::SummaryAsked(it) => {
                self.step(it.attempt)?;
            }
            E::ContextCompacted(it) => {
                let step = self.step(it.attempt)?;
                step.compactions += 1;
                // A run that only compacts has no replies.
                let is_answer = it.kind == CompactionKind::Summary && step.tool_turns == 0;
                if self.is_turn && is_answer {
                    self.outcome = &it.text;
                }
            }
            E::ContextFull(it) => {
                self.step(it.attempt)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn take_of_hooks(&mut self, event: &'a EventKind) -> Option<()> {
        let EventKind::HooksAnswered(answered) = event else {
            return None;
        };
        self.of_this_run(answered.gate.attempt.run)?;
        for (name, arguments) in sent(answered) {
            let call = self.call(name)?;
            (call.input, call.is_changed) = (arguments, true);
        }
        match replaced(answered) {
            Some(Replaced::Reply { text, .. }) if self.is_turn => self.outcome = text,
            Some(Replaced::Result { call, result: left }) => {
                let result = self.call(call)?.result.as_mut()?;
                (result.output, result.whole) = (left.output, None);
                if left.is_blocked {
                    (result.is_error, result.reason) = (true, CallFinished::HOOK_BLOCKED);
                }
            }
            Some(Replaced::Reply { .. }) | None => {}
        }
        Some(())
    }

    fn step(&mut self, attempt: AttemptRef) -> Option<&mut StepFacts<'a>> {
        self.step_of(attempt.run, attempt.step)
    }

    fn step_of(&mut self, run: u32, step: StepNo) -> Option<&mut StepFacts<'a>> {
        let facts = self.of_this_run(run)?;
        facts.steps.get_mut(step.slot()?.index())
    }

    fn add_calls(
        &mut self,
        attempt: AttemptRef,
        tool_turn: u32,
        calls: impl IntoIterator<Item = CallFacts<'a>>,
    ) -> Option<()> {
        let slot = attempt.step.slot()?;
        let step = self.steps.get_mut(slot.index())?;
        for (call, index) in calls.into_iter().zip(0..) {
            let name = CallRef {
                attempt,
                tool_turn,
                index,
            };
            self.calls.insert(name, (slot, step.calls.len()));
            step.calls.push(call);
        }
        Some(())
    }

    fn take_of_call(&mut self, event: &'a Event) -> Option<()> {
        use EventKind as E;
        match &event.kind {
            E::CallFinished(it) => self.call(it.call)?.end(ResultFacts {
                output: Cow::Borrowed(&it.output),
                is_error: it.is_error,
                reason: &it.reason,
                duration_ms: Some(it.duration_ms),
                whole: it.whole.as_deref(),
            }),
            E::CallInDoubt(it) => {
                let call = self.call(it.call)?;
                call.waits = Some(Waits::Doubt);
                call.doubts.push(Doubt {
                    since: event.at,
                    answer: None,
                    settled_at: None,
                });
            }
            E::ApprovalRequested(it) => self.call(it.call)?.waits = Some(Waits::Approval),
            E::QuestionAsked(it) => self.call(it.call)?.waits = Some(Waits::Question),
            E::InputRequested(it) => self.call(it.call)?.waits = Some(Waits::Question),
            // What follows from one about a budget or a plan says enough.
            E::Decided(it) => {
                let call = self.call(it.pending.call()?)?;
                match (it.pending.subject, call.doubts.last_mut()) {
                    // It waits until the answer takes effect.
                    (Subject::Call(_), Some(doubt)) => doubt.answer = Some(&it.settlement),
                    _ => (call.decision, call.waits) = (Some(&it.settlement), None),
                }
            }
            E::CallSettled(it) => {
                let call = self.call(it.call)?;
                call.waits = None;
                if let Some(doubt) = call.doubts.last_mut() {
                    doubt.settled_at = Some(event.at);
                }
                // Unless the call is sent again, the decision of the person is its result.
                if let Some((output, is_error)) = it.settlement.result(&it.output) {
                    call.end(ResultFacts {
                        output: Cow::Borrowed(output),
                        is_error,
                        reason: if is_error { "Decided" } else { "" },
                        duration_ms: None,
                        whole: None,
                    });
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn call(&mut self, name: CallRef) -> Option<&mut CallFacts<'a>> {
        let facts = self.of_this_run(name.attempt.run)?;
        let &(slot, position) = facts.calls.get(&name)?;
        facts.steps.get_mut(slot.index())?.calls.get_mut(position)
    }
}

impl<'a> StepFacts<'a> {
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            tool: None,
            phase: StepPhase::Pending,
            is_dropped: false,
            outcome: "",
            began: None,
            ended: None,
            attempts: 0,
            continued: 0,
            usage: Usage::default(),
            tool_turns: 0,
            compactions: 0,
            is_full: false,
            is_short: false,
            calls: Vec::new(),
        }
    }

    /// What the step waits for, while it runs: what a person is to say, or a capability.
    pub(super) fn waits(&self) -> Option<Waits> {
        let calls = self.calls.iter();
        let full = self.is_full.then_some(Waits::Full);
        let short = self.is_short.then_some(Waits::Capability);
        let waits = calls.filter_map(|call| call.waits).chain(full).chain(short);
        let waits = waits.min();
        waits.filter(|_| self.phase == StepPhase::Running)
    }

    fn end(&mut self, phase: StepPhase, outcome: &'a str, at: u64) {
        self.phase = phase;
        self.outcome = outcome;
        self.ended = Some(at);
    }
}

impl<'a> CallFacts<'a> {
    fn new(tool: &'a str, input: &'a str) -> Self {
        Self {
            tool,
            input,
            is_changed: false,
            result: None,
            doubts: Vec::new(),
            decision: None,
            waits: None,
        }
    }

    fn end(&mut self, result: ResultFacts<'a>) {
        (self.result, self.waits) = (Some(result), None);
    }
}
