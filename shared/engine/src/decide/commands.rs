//! How commands are answered, and what several of them need.

use super::{Decision, Rejection};
use crate::command::QueuedTurnDropped;
use crate::event::{AttemptRef, CommandRefused, StepSkipped};
use crate::failure::Failure;
use crate::limits::{CONTINUE_ELSEWHERE, FULL_TRANSITION};
use crate::refusal::Refusal;
use crate::session::{Run, RunSummary, Session, Step, StepNo};
use crate::transitions::Applied;

/// Why a step ends that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    /// Its plan has another step in its place, or none.
    Superseded,
    /// Its run ends.
    Cancelled,
}

impl Decision<'_> {
    /// Answers the oldest command: one event accepts or refuses it.
    pub(super) fn handle_command(&mut self) -> Applied {
        let Some((&seq, received)) = self.session.commands.first_key_value() else {
            return Ok(());
        };
        let mut command = received.command.clone();
        self.command = Some((seq, received.principal.clone()));
        // The newest run is the one of the time of the answer: an earlier command may have started it.
        if let Some(run @ 0) = command.run_mut() {
            *run = self.session.runs.len() as u32;
        }
        let handled = command.handle(self);
        let answered = self.answered(seq, handled);
        self.command = None;
        answered
    }

    /// Answers commands before what else follows from the input, as long as the condition holds. One
    /// transition has to hold it all, so some commands may be left to the next one.
    pub(super) fn handle_commands_while(
        &mut self,
        condition: impl Fn(&Session) -> bool,
    ) -> Applied {
        let full = self.events.len() + FULL_TRANSITION;
        while !self.session.commands.is_empty()
            && self.events.len() < full
            && condition(self.session)
        {
            self.handle_command()?;
        }
        Ok(())
    }

    /// Each command has an answer: a client waits for it, and a command without one would be handled
    /// without end.
    fn answered(&mut self, seq: u64, handled: Result<(), Rejection>) -> Applied {
        match handled {
            Err(Rejection::Refused { reason, message }) => self.refuse(reason, message),
            Err(Rejection::Illegal(error)) => Err(error),
            Ok(()) if self.session.commands.contains_key(&seq) => {
                self.refuse(Refusal::Internal, "the command has no answer".to_owned())
            }
            Ok(()) => Ok(()),
        }
    }

    fn refuse(&mut self, reason: Refusal, message: String) -> Applied {
        let (answers, principal) = self.command.clone().unwrap_or_default();
        let refused = CommandRefused { reason, message };
        self.emit_with(refused.into(), answers, principal)
    }

    /// The run ends, and commands are answered until the transition is full. All these events fit into the
    /// journal's reserve: nothing else could be written any more. The next transition answers more commands,
    /// or is refused by the store, which leads here again.
    pub(super) fn end_at_limit(&mut self, failure: &Failure) -> Applied {
        if let Some(run) = self.session.active_run() {
            let number = run.number;
            for attempt in self.running(number) {
                self.fail_step(attempt, failure.clone())?;
            }
            let failed = self.run_failed(number, failure.clone());
            self.emit(failed)?;
        }
        for queued in self.session.queued_turns.clone() {
            self.emit(QueuedTurnDropped::because(queued.number, failure.clone()))?;
        }
        // An ended run has them, too, and their answers would open it again.
        self.drop_requests(self.session.runs.len() as u32, &failure.message)?;
        let full = self.events.len() + FULL_TRANSITION;
        while self.events.len() < full
            && let Some((&seq, received)) = self.session.commands.first_key_value()
        {
            if received.command.begins_work() {
                self.command = Some((seq, received.principal.clone()));
                self.refuse(Refusal::Limit, format!("{failure}; {CONTINUE_ELSEWHERE}"))?;
                self.command = None;
            } else {
                // Without an active run, it is refused, or answered by an event that ends only.
                self.handle_command()?;
            }
        }
        Ok(())
    }

    /// Ends a running step that is not needed any more.
    pub(crate) fn stop_step(&mut self, attempt: AttemptRef, why: Ended) -> Applied {
        self.doubt_intended_calls(attempt, false)?;
        let reason = match (why, self.calls_in_doubt(attempt)) {
            (Ended::Superseded, _) => "superseded".to_owned(),
            (Ended::Cancelled, 0) => "cancelled".to_owned(),
            (Ended::Cancelled, 1) => {
                "cancelled; a call had been sent, and its outcome is not known".to_owned()
            }
            (Ended::Cancelled, calls) => {
                format!("cancelled; {calls} calls had been sent, and their outcome is not known")
            }
        };
        self.emit(StepSkipped {
            run: attempt.run,
            step: attempt.step,
            reason,
            by_person: false,
            hook: String::new(),
        })
    }

    pub(crate) fn running(&self, run: u32) -> Vec<AttemptRef> {
        let run = self.session.run(run).into_iter();
        run.flat_map(Run::running_attempts)
            .map(|(name, ..)| name)
            .collect()
    }

    /// The run, unless it has ended.
    pub(crate) fn unended(&self, number: u32) -> Result<&Run, Rejection> {
        let known = self.session.runs.summary(number);
        let status = known.ok_or_else(|| no_such_run(number))?.status;
        let run = self.session.run(number);
        run.filter(|_| !status.is_terminal()).ok_or_else(|| {
            let message = format!("run {number} has ended: {status:?}").to_lowercase();
            Rejection::refused(Refusal::RunEnded, message)
        })
    }

    /// The newest run, whose plan may be changed whatever it is doing.
    pub(crate) fn revisable(&self, number: u32, revision: u32) -> Result<&Run, Rejection> {
        let known = self.session.runs.summary(number);
        has_plan(known.ok_or_else(|| no_such_run(number))?)?;
        let newest = self.session.runs.last();
        let Some(run) = newest.filter(|run| run.number == number) else {
            let newest = self.session.runs.len();
            let message = format!(
                "run {number} has ended and run {newest} came after it; only the plan of the \
                 newest run can be changed"
            );
            return Err(Rejection::refused(Refusal::RunEnded, message));
        };
        if revision != 0 && revision != run.revision() {
            return Err(super::moved_on(run));
        }
        Ok(run)
    }

    /// The step of that number, if it is in the plan in force.
    pub(crate) fn step_in_force<'r>(
        &self,
        run: &'r Run,
        step: StepNo,
    ) -> Result<&'r Step, Rejection> {
        has_plan(run.summary())?;
        let in_force = run.plan.as_ref().and_then(|plan| plan.step(step));
        in_force.ok_or_else(|| {
            let message = format!("step {step} is not in the plan of run {}", run.number);
            Rejection::refused(Refusal::NoSuchStep, message)
        })
    }
}

/// A turn has no plan that could be changed.
fn has_plan(run: RunSummary<'_>) -> Result<(), Rejection> {
    if run.context.is_none() {
        return Ok(());
    }
    let message = format!(
        "run {} is a turn of a conversation and has no plan",
        run.number
    );
    Err(Rejection::refused(Refusal::NoPlan, message))
}

/// 0 is the newest run of a session without any.
fn no_such_run(number: u32) -> Rejection {
    let message = match number {
        0 => "the session has no run yet".to_owned(),
        number => format!("run {number} does not exist"),
    };
    Rejection::refused(Refusal::NoSuchRun, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ResumeRun, RunLimits};
    use crate::decide::{Facts, ToolList};
    use crate::event::{CommandReceived, Event, EventKind};
    use std::collections::BTreeMap;

    #[test]
    fn a_command_that_its_handler_does_not_answer_is_refused() {
        let received = CommandReceived {
            request_id: "request".to_owned(),
            command: ResumeRun { run: 1 }.into(),
        };
        let event = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: received.into(),
        };
        let mut session = Session::default();
        session.apply(7, &event).expect("it fits");
        let facts = Facts {
            rules: crate::rules::Rules::none(),
            agents: crate::decide::Agents::none(),
            prompts: crate::decide::Prompts::built_in(),
            environment: "",
            now: 1,
            not_after: 1,
            tools: &ToolList::new(),
            away: &[],
            offered: &BTreeMap::new(),
            limits: RunLimits::default(),
            result_bytes: crate::limits::RESULT_BYTES,
            journal_permille: 0,
            compaction: crate::decide::Compaction::default(),
            responses: |_, _| Ok(String::new()),
            pool: crate::pool::PoolFacts::none(),
            hooks: crate::hooks::PresentHooks::none(),
            starts: true,
            starts_queued: true,
        };
        let mut decision = Decision::new(&mut session, facts);
        decision.command = Some((7, None));
        decision.answered(7, Ok(())).expect("it is refused");
        let [event] = &decision.events[..] else {
            panic!("{:?}", decision.events);
        };
        let EventKind::CommandRefused(refused) = &event.kind else {
            panic!("{event:?}");
        };
        assert_eq!((event.answers, refused.reason), (7, Refusal::Internal));
        assert!(session.commands.is_empty());
    }
}
