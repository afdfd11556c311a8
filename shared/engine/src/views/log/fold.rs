//! What each event adds to the log.

use super::{Entry, EntryKind, Log};
use crate::command::Settlement;
use crate::event::{self, AttemptRef, CallRef, Effect, Event, EventKind, ReplyReceived};
use crate::plan::{PlanDraft, numbers_of};
use crate::session::RunStatus;
use crate::transitions::StepPhase;

/// The event that an entry comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    seq: u64,
    at: u64,
}

/// What an entry is about: run, step and attempt.
type About = (u32, u32, u32);

impl Log {
    /// Folds the event numbered `seq`. Events must come in the order of the journal.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        self.apply_to_step(&event.kind, Origin { seq, at: event.at });
    }

    fn push(&mut self, origin: Origin, about: About, kind: EntryKind) {
        let Origin { seq, at } = origin;
        let (run, step, attempt) = about;
        self.entries.push(Entry {
            seq,
            at,
            run,
            step,
            attempt,
            kind,
        });
    }

    fn apply_to_step(&mut self, event: &EventKind, origin: Origin) {
        use EventKind as E;
        match event {
            E::StepStarted(event::StepStarted {
                attempt,
                tool_effect,
            }) => {
                self.push(origin, of_attempt(*attempt), EntryKind::StepStarted);
                if let Some(effect) = tool_effect {
                    self.call_of_tool_step(*attempt, *effect, origin);
                }
            }
            E::AttemptContinued(event::AttemptContinued { attempt }) => {
                self.push(origin, of_attempt(*attempt), EntryKind::AttemptContinued);
            }
            E::StepCompleted(event::StepCompleted {
                attempt, summary, ..
            }) => {
                let kind = step_ended(StepPhase::Completed, summary);
                self.push(origin, of_attempt(*attempt), kind);
            }
            E::StepFailed(event::StepFailed { attempt, failure }) => {
                let kind = step_ended(StepPhase::Failed, &failure.message);
                self.push(origin, of_attempt(*attempt), kind);
            }
            E::StepSkipped(event::StepSkipped {
                run, step, reason, ..
            }) => {
                self.push(
                    origin,
                    (*run, *step, 0),
                    step_ended(StepPhase::Skipped, reason),
                );
            }
            other => self.apply_to_call(other, origin),
        }
    }

    fn apply_to_call(&mut self, event: &EventKind, origin: Origin) {
        use EventKind as E;
        match event {
            E::ReplyReceived(reply) => self.reply(reply, origin),
            E::CallFinished(finished) => {
                let kind = EntryKind::Result {
                    call: finished.call,
                    tool: self.open_calls.remove(&finished.call).unwrap_or_default(),
                    output: finished.output.clone(),
                    is_error: finished.is_error,
                    reason: finished.reason.clone(),
                    duration_ms: Some(finished.duration_ms),
                };
                self.push(origin, of_attempt(finished.call.attempt), kind);
            }
            E::CallInDoubt(event::CallInDoubt { call, .. }) => {
                let (call, tool) = (*call, self.tool_of(*call));
                self.push(
                    origin,
                    of_attempt(call.attempt),
                    EntryKind::InDoubt { call, tool },
                );
            }
            // What follows from one about a budget or a plan has entries of its own.
            E::Decided(decided) => {
                let Some(call) = decided.pending.call() else {
                    return;
                };
                let kind = EntryKind::Decided {
                    call,
                    tool: self.tool_of(call),
                    settlement: decided.settlement.clone(),
                };
                self.push(origin, of_attempt(call.attempt), kind);
            }
            E::CallSettled(event::CallSettled { call, settlement }) => {
                self.settled(*call, settlement, origin)
            }
            other => self.apply_to_asked(other, origin),
        }
    }

    fn apply_to_asked(&mut self, event: &EventKind, origin: Origin) {
        use EventKind as E;
        let (call, kind) = match event {
            E::ApprovalRequested(event::ApprovalRequested { call, .. }) => {
                let tool = self.tool_of(*call);
                (call, EntryKind::ApprovalRequested { call: *call, tool })
            }
            E::QuestionAsked(event::QuestionAsked {
                call,
                question,
                choices,
            }) => {
                let kind = EntryKind::QuestionAsked {
                    call: *call,
                    tool: self.tool_of(*call),
                    question: question.clone(),
                    choices: choices.clone(),
                };
                (call, kind)
            }
            other => return self.apply_to_run(other, origin),
        };
        self.push(origin, of_attempt(call.attempt), kind);
    }

    fn apply_to_run(&mut self, event: &EventKind, origin: Origin) {
        use EventKind as E;
        let (run, kind) = match event {
            E::RunStarted(event::RunStarted {
                run, goal, model, ..
            }) => {
                let (goal, model) = (goal.clone(), model.clone());
                (run, EntryKind::RunStarted { goal, model })
            }
            E::RunPaused(event::RunPaused { run, reason, .. }) => {
                let reason = reason.clone();
                (run, EntryKind::RunPaused { reason })
            }
            E::RunWaiting(event::RunWaiting { run, reason }) => {
                (run, EntryKind::RunWaiting { reason: *reason })
            }
            // The end of the run says the rest.
            E::RunTakenOver(_) | E::BudgetRefused(_) => return,
            E::RunResumed(event::RunResumed { run, .. }) => (run, EntryKind::RunResumed),
            E::BudgetExhausted(event::BudgetExhausted { run, budget }) => {
                (run, EntryKind::BudgetExhausted { budget: *budget })
            }
            &E::BudgetRaised(event::BudgetRaised {
                ref run,
                budget,
                more,
            }) => (run, EntryKind::BudgetRaised { budget, more }),
            E::RunCompleted(event::RunCompleted { run, answer }) => {
                (run, run_ended(RunStatus::Completed, answer))
            }
            E::RunFailed(event::RunFailed {
                run,
                failure,
                usage,
                duration_ms,
            }) => {
                let kind = EntryKind::RunEnded {
                    status: RunStatus::Failed,
                    text: failure.message.clone(),
                    usage: *usage,
                    duration_ms: *duration_ms,
                };
                (run, kind)
            }
            E::RunCancelled(event::RunCancelled { run, reason, .. }) => {
                (run, run_ended(RunStatus::Cancelled, reason))
            }
            other => return self.apply_to_plan(other, origin),
        };
        self.push(origin, (*run, 0, 0), kind);
    }

    fn apply_to_plan(&mut self, event: &EventKind, origin: Origin) {
        use EventKind as E;
        let (run, kind) = match event {
            E::RevisionRequested(event::RevisionRequested { run, feedback, .. }) => {
                let feedback = feedback.clone();
                (run, EntryKind::RevisionRequested { feedback })
            }
            E::PlanProposed(event::PlanProposed {
                run,
                proposal,
                base_revision,
                usage,
                duration_ms,
                ..
            }) => {
                let kind = EntryKind::PlanProposed {
                    proposal: *proposal,
                    base_revision: *base_revision,
                    usage: *usage,
                    duration_ms: *duration_ms,
                };
                (run, kind)
            }
            E::RevisionFailed(event::RevisionFailed {
                run,
                failure,
                usage,
                duration_ms,
                ..
            }) => {
                let kind = EntryKind::RevisionFailed {
                    text: failure.message.clone(),
                    usage: *usage,
                    duration_ms: *duration_ms,
                };
                (run, kind)
            }
            E::PlanApplied(event::PlanApplied {
                run,
                revision,
                plan,
                numbers,
                usage,
                duration_ms,
                ..
            }) => {
                self.remember_tool_steps(*run, plan, numbers);
                let kind = EntryKind::PlanApplied {
                    revision: *revision,
                    steps: labels(plan, numbers),
                    usage: *usage,
                    duration_ms: *duration_ms,
                };
                (run, kind)
            }
            _ => return,
        };
        self.push(origin, (*run, 0, 0), kind);
    }

    fn remember_tool_steps(&mut self, run: u32, plan: &PlanDraft, numbers: &[u32]) {
        for (step, number) in plan.steps.iter().zip(numbers_of(plan, numbers)) {
            if let Some(tool) = &step.tool {
                self.tool_steps.insert((run, number), tool.clone());
            }
        }
    }

    fn call_of_tool_step(&mut self, attempt: AttemptRef, effect: Effect, origin: Origin) {
        let Some(tool) = self.tool_steps.get(&(attempt.run, attempt.step)).cloned() else {
            return;
        };
        let call = CallRef {
            attempt,
            tool_turn: 0,
            index: 0,
        };
        self.open_calls.insert(call, tool.name.clone());
        let kind = EntryKind::Call {
            call,
            tool: tool.name,
            input: tool.arguments,
            effect,
        };
        self.push(origin, of_attempt(attempt), kind);
    }

    fn reply(&mut self, reply: &ReplyReceived, origin: Origin) {
        let about = of_attempt(reply.attempt);
        let kind = EntryKind::Reply {
            tool_turn: reply.tool_turn,
            text: reply.text.clone(),
            calls: reply.calls.len() as u32,
            usage: reply.usage,
            model: reply.model.clone(),
            duration_ms: reply.duration_ms,
        };
        self.push(origin, about, kind);
        for (requested, index) in reply.calls.iter().zip(0..) {
            let call = CallRef {
                attempt: reply.attempt,
                tool_turn: reply.tool_turn,
                index,
            };
            self.open_calls.insert(call, requested.call.name.clone());
            let kind = EntryKind::Call {
                call,
                tool: requested.call.name.clone(),
                input: requested.call.arguments.clone(),
                effect: requested.effect,
            };
            self.push(origin, about, kind);
        }
    }

    /// Unless the call is sent again, the decision of the person is its result.
    fn settled(&mut self, call: CallRef, settlement: &Settlement, origin: Origin) {
        let about = of_attempt(call.attempt);
        let tool = self.tool_of(call);
        let kind = EntryKind::Settled {
            call,
            tool: tool.clone(),
            settlement: settlement.clone(),
        };
        self.push(origin, about, kind);
        if let Some((output, is_error)) = settlement.result() {
            self.open_calls.remove(&call);
            let kind = EntryKind::Result {
                call,
                tool,
                output,
                is_error,
                reason: if is_error { "Decided" } else { "" }.to_owned(),
                duration_ms: None,
            };
            self.push(origin, about, kind);
        }
    }

    fn tool_of(&self, call: CallRef) -> String {
        self.open_calls.get(&call).cloned().unwrap_or_default()
    }
}

fn of_attempt(attempt: AttemptRef) -> About {
    (attempt.run, attempt.step, attempt.attempt)
}

fn step_ended(phase: StepPhase, text: &str) -> EntryKind {
    let text = text.to_owned();
    EntryKind::StepEnded { phase, text }
}

fn run_ended(status: RunStatus, text: &str) -> EntryKind {
    EntryKind::RunEnded {
        status,
        text: text.to_owned(),
        usage: None,
        duration_ms: 0,
    }
}

fn labels(plan: &PlanDraft, numbers: &[u32]) -> Vec<(u32, String)> {
    let steps = plan.steps.iter().enumerate();
    let steps = steps.zip(numbers_of(plan, numbers));
    steps
        .map(|((place, step), number)| (number, step.label(place)))
        .collect()
}
