//! Events about a step and its attempt.

use crate::event::{AttemptRef, Effect, EventKind};
use crate::message::ToolCall;
use crate::state::{
    Ask, Attempt, Call, CallStatus, Moment, Note, PlanState, Run, Session, Step, StepStatus,
    SubGoal, Turn,
};
use crate::transitions::{IllegalTransition, StepPhase, step_may};

impl Session {
    pub(super) fn apply_to_step(
        &mut self,
        event: &EventKind,
        at: u64,
    ) -> Result<(), IllegalTransition> {
        use EventKind as E;
        match event {
            E::StepStarted {
                attempt,
                tool_effect,
            } => {
                return self.start_attempt(*attempt, *tool_effect, at);
            }
            E::AttemptContinued { attempt } => {
                self.attempt_mut(*attempt)?;
            }
            E::StepCompleted {
                attempt,
                response,
                summary,
            } => {
                self.attempt_mut(*attempt)?;
                let end = StepStatus::Completed {
                    response: response.clone(),
                    summary: summary.clone(),
                };
                return self.run_mut(attempt.run)?.end_step(attempt.step, end, at);
            }
            E::StepFailed { attempt, failure } => {
                self.attempt_mut(*attempt)?;
                let end = StepStatus::Failed {
                    failure: failure.clone(),
                };
                let run = self.run_mut(attempt.run)?;
                run.end_step(attempt.step, end, at)?;
                run.failing.get_or_insert_with(|| failure.clone());
            }
            E::StepSkipped {
                run,
                step,
                reason,
                is_wish,
                command_seq,
            } => {
                let end = StepStatus::Skipped {
                    reason: reason.clone(),
                    is_wish: *is_wish,
                };
                self.run_mut(*run)?.end_step(*step, end, at)?;
                self.answer_command(*command_seq);
            }
            other => return Err(IllegalTransition::missing(format!("step event {other:?}"))),
        }
        Ok(())
    }

    pub(super) fn apply_to_attempt(&mut self, event: &EventKind) -> Result<(), IllegalTransition> {
        use EventKind as E;
        match event {
            E::SubGoalAdded {
                attempt,
                index,
                text,
            } => {
                let attempt = self.attempt_mut(*attempt)?;
                if attempt.sub_goals.len() != *index as usize {
                    return Err(IllegalTransition::missing(format_args!("sub-goal {index}")));
                }
                attempt.sub_goals.push(SubGoal {
                    text: text.clone(),
                    summary: None,
                    is_dropped: false,
                });
            }
            E::SubGoalFocused { attempt, index } => {
                let attempt = self.attempt_mut(*attempt)?;
                attempt.open_sub_goal(*index)?;
                attempt.focus = Some(*index);
            }
            E::SubGoalCompleted {
                attempt,
                index,
                summary,
            } => {
                let attempt = self.attempt_mut(*attempt)?;
                attempt.open_sub_goal(*index)?.summary = Some(summary.clone());
                attempt.focus = attempt.focus.filter(|focus| focus != index);
            }
            E::SubGoalDropped { attempt, index } => {
                let attempt = self.attempt_mut(*attempt)?;
                attempt.open_sub_goal(*index)?.is_dropped = true;
                attempt.focus = attempt.focus.filter(|focus| focus != index);
            }
            E::ScratchpadWritten {
                attempt,
                text,
                replaces,
            } => self.write_notes(*attempt, text, *replaces)?,
            other => {
                return Err(IllegalTransition::missing(format!(
                    "attempt event {other:?}"
                )));
            }
        }
        Ok(())
    }

    fn write_notes(
        &mut self,
        attempt: AttemptRef,
        text: &str,
        replaces: bool,
    ) -> Result<(), IllegalTransition> {
        self.attempt_mut(attempt)?;
        let run = self.run_mut(attempt.run)?;
        run.ticks += 1;
        let tick = run.ticks;
        let notes = &mut self.step_mut(attempt)?.notes;
        if replaces {
            notes.clear();
        }
        if !(text.is_empty() && notes.is_empty()) {
            let text = text.to_owned();
            notes.push(Note { tick, text });
        }
        Ok(())
    }

    fn start_attempt(
        &mut self,
        attempt: AttemptRef,
        tool_effect: Option<Effect>,
        at: u64,
    ) -> Result<(), IllegalTransition> {
        let run = self.run_mut(attempt.run)?;
        let what = format_args!("step {}", attempt.step);
        if run.status.is_terminal() {
            let from = "the run has ended";
            return Err(IllegalTransition::not_allowed(
                what,
                from,
                StepPhase::Running,
            ));
        }
        run.ticks += 1;
        let tick = run.ticks;
        run.calls = run.calls.saturating_add(u32::from(tool_effect.is_some()));
        let plan = run.plan_mut()?;
        let position = attempt.step.wrapping_sub(1);
        let place = plan.step_mut(attempt.step)?.place;
        if !place.is_some_and(|place| plan.ready.remove(&place)) {
            return Err(IllegalTransition::not_allowed(
                what,
                "not ready",
                StepPhase::Running,
            ));
        }
        plan.running.insert(position);
        let step = plan.step_mut(attempt.step)?;
        step.attempts += 1;
        if step.attempts != attempt.attempt {
            let what = format_args!("attempt {} of step {}", attempt.attempt, attempt.step);
            return Err(IllegalTransition::not_allowed(
                what,
                "not the next",
                "begun",
            ));
        }
        if step.plan.tool.is_some() != tool_effect.is_some() {
            return Err(IllegalTransition::Malformed {
                what: format!(
                    "step {} begins with a tool, or without its tool",
                    attempt.step
                ),
            });
        }
        step.started.get_or_insert(Moment { tick, at });
        step.notes.clear();
        let turns = tool_effect.map(|effect| tool_turn(step, effect));
        let begun = Attempt {
            number: attempt.attempt,
            turns: turns.into_iter().collect(),
            ..Attempt::default()
        };
        step.enter(attempt.step, StepStatus::Running(Box::new(begun)))
    }

    pub(crate) fn step_mut(&mut self, attempt: AttemptRef) -> Result<&mut Step, IllegalTransition> {
        self.run_mut(attempt.run)?
            .plan_mut()?
            .step_mut(attempt.step)
    }

    pub(crate) fn attempt_mut(
        &mut self,
        name: AttemptRef,
    ) -> Result<&mut Attempt, IllegalTransition> {
        let step = self.step_mut(name)?;
        match &mut step.status {
            StepStatus::Running(attempt) if attempt.number == name.attempt => Ok(attempt),
            _ => Err(IllegalTransition::missing(format_args!(
                "running attempt {} of step {}",
                name.attempt, name.step
            ))),
        }
    }
}

/// A tool step is one tool turn that nobody had to ask a model for.
fn tool_turn(step: &Step, effect: Effect) -> Turn {
    let tool = step.plan.tool.clone();
    let (name, arguments) = tool
        .map(|tool| (tool.name, tool.arguments))
        .unwrap_or_default();
    Turn {
        text: String::new(),
        calls: vec![Call {
            call: ToolCall {
                id: "call-0".to_owned(),
                name,
                arguments,
            },
            effect,
            status: CallStatus::Requested,
            doubts: 0,
            approval: None,
            origin: None,
        }],
    }
}

impl Run {
    fn plan_mut(&mut self) -> Result<&mut PlanState, IllegalTransition> {
        let number = self.number;
        self.plan
            .as_mut()
            .ok_or_else(|| IllegalTransition::missing(format_args!("plan of run {number}")))
    }

    fn end_step(&mut self, number: u32, end: StepStatus, at: u64) -> Result<(), IllegalTransition> {
        self.ticks += 1;
        let tick = self.ticks;
        let plan = self.plan_mut()?;
        let step = plan.step_mut(number)?;
        let left = step.running().map(Unanswered::of).unwrap_or_default();
        if let StepStatus::Running(attempt) = &mut step.status {
            step.ended_sub_goals = std::mem::take(&mut attempt.sub_goals);
        }
        step.enter(number, end)?;
        step.ended = Some(Moment { tick, at });
        let is_handing_on = step.is_handing_on();
        let place = step.place.ok_or_else(|| {
            IllegalTransition::missing(format_args!("step {number} in the plan in force"))
        })?;
        plan.running.remove(&(number - 1));
        plan.ready.remove(&place);
        plan.open -= 1;
        plan.release(number - 1)?;
        if is_handing_on {
            plan.rekey();
        }
        self.in_doubt -= left.in_doubt;
        self.approvals -= left.approvals;
        self.questions -= left.questions;
        Ok(())
    }
}

/// What an attempt asked people that nobody has answered.
#[derive(Default)]
struct Unanswered {
    in_doubt: u32,
    approvals: u32,
    questions: u32,
}

impl Unanswered {
    fn of(attempt: &Attempt) -> Self {
        let mut left = Self::default();
        for call in attempt.turns.iter().flat_map(|turn| &turn.calls) {
            match &call.status {
                CallStatus::InDoubt { .. } => left.in_doubt += 1,
                CallStatus::Asking { ask, answer: None } => match ask {
                    Ask::Approval { .. } => left.approvals += 1,
                    Ask::Question { .. } => left.questions += 1,
                },
                _ => {}
            }
        }
        left
    }
}

impl PlanState {
    /// Makes ready what a step that has ended held back, also through steps that ended before it.
    fn release(&mut self, position: u32) -> Result<(), IllegalTransition> {
        let mut ended = vec![position];
        while let Some(position) = ended.pop() {
            let step = self.step_mut(position + 1)?;
            if !step.is_met() {
                continue;
            }
            for position in step.dependents.clone() {
                let dependent = self.step_mut(position + 1)?;
                dependent.unmet -= 1;
                if dependent.unmet > 0 {
                    continue;
                }
                match dependent.status {
                    StepStatus::Pending => {
                        let place = dependent.place;
                        self.ready.extend(place);
                    }
                    _ => ended.push(position),
                }
            }
        }
        Ok(())
    }

    fn step_mut(&mut self, number: u32) -> Result<&mut Step, IllegalTransition> {
        self.steps
            .get_mut(number.wrapping_sub(1) as usize)
            .ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))
    }
}

impl Step {
    fn enter(&mut self, number: u32, to: StepStatus) -> Result<(), IllegalTransition> {
        let (from, into) = (self.status.phase(), to.phase());
        if !step_may(from, into) {
            let what = format_args!("step {number}");
            return Err(IllegalTransition::not_allowed(what, from, into));
        }
        self.status = to;
        Ok(())
    }
}

impl Attempt {
    fn open_sub_goal(&mut self, index: u32) -> Result<&mut SubGoal, IllegalTransition> {
        self.sub_goals
            .get_mut(index as usize)
            .filter(|goal| goal.is_open())
            .ok_or_else(|| IllegalTransition::missing(format_args!("open sub-goal {index}")))
    }
}
