//! Answers to commands: each is accepted or refused by an event.

use super::Decision;
use super::control::Stop;
use crate::command::{Command, RevisePlan, Settlement, StartRun};
use crate::event::{CallRef, EventKind};
use crate::failure::Failure;
use crate::limits::MAX_GOAL;
use crate::message::Usage;
use crate::pending::{PendingId, Subject, pending_call};
use crate::plan::Plan;
use crate::state::CallStatus;
use crate::transitions::IllegalTransition;

/// The answer no.
pub(super) struct Refusal {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Decision<'_> {
    pub(super) fn handle_command(&mut self) -> Result<(), IllegalTransition> {
        let Some((&seq, command)) = self.session.commands.first_key_value() else {
            return Ok(());
        };
        let command = self.about_a_run(command.clone());
        let refusal = match command {
            Command::StartRun(start) => self.start_run(seq, start)?,
            Command::CancelRun { run, reason } => self.cancel_run(seq, run, reason)?,
            Command::Decide {
                pending_id,
                settlement,
            } => self.decide_pending(seq, &pending_id, settlement)?,
            Command::RevisePlan(wish) => self.revise_plan(seq, wish)?,
            Command::ApplyProposal { run, proposal } => self.apply_proposal(seq, run, proposal)?,
            Command::RedoStep { run, step } => self.redo_step(seq, run, step)?,
            Command::SkipStep { run, step, reason } => self.skip_step(seq, run, step, reason)?,
            Command::PauseRun { run, reason } => self.pause_run(seq, run, reason)?,
            Command::ResumeRun { run } => self.resume_run(seq, run)?,
        };
        match refusal {
            Some(Refusal { reason, message }) => self.emit(EventKind::CommandRefused {
                command_seq: seq,
                reason: reason.to_owned(),
                message,
            }),
            None => Ok(()),
        }
    }

    /// A command for run 0 is for the newest, as it is when the command is answered: what was stored
    /// before it may have started one.
    fn about_a_run(&self, mut command: Command) -> Command {
        use Command as C;
        let newest = self.session.runs.len() as u32;
        let run = match &mut command {
            C::CancelRun { run, .. }
            | C::ApplyProposal { run, .. }
            | C::RedoStep { run, .. }
            | C::SkipStep { run, .. }
            | C::PauseRun { run, .. }
            | C::ResumeRun { run }
            | C::RevisePlan(RevisePlan { run, .. }) => run,
            C::StartRun(_) | C::Decide { .. } => return command,
        };
        if *run == 0 {
            *run = newest;
        }
        command
    }

    fn start_run(
        &mut self,
        command_seq: u64,
        start: StartRun,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        if let Some(active) = self.session.active_run() {
            return Ok(refuse(
                "RUN_ACTIVE",
                format!(
                    "run {} is active; wait for its end or cancel it",
                    active.number
                ),
            ));
        }
        if let Some(fault) = fault_of_goal(&start) {
            return Ok(refuse("BAD_GOAL", fault));
        }
        if let Some(Err(error)) = start.plan.as_ref().map(Plan::accept) {
            return Ok(refuse("BAD_PLAN", error.to_string()));
        }
        let run = self.session.runs.len() as u32 + 1;
        self.drop_wishes(run - 1, "another run has begun since")?;
        self.emit(EventKind::RunStarted {
            run,
            goal: start.goal,
            limits: self.facts.limits.with(start.limits),
            model: start.model,
            command_seq,
            trace_parent: start.trace_parent,
        })?;
        let Some(plan) = start.plan else {
            return Ok(None);
        };
        if self.facts.limits.with(start.limits).review_plan {
            self.emit(EventKind::PlanProposed {
                run,
                proposal: 1,
                base_revision: 0,
                plan,
                request_seq: 0,
                usage: Usage::default(),
                duration_ms: 0,
            })?;
            self.reconcile_status(run)?;
        } else {
            self.emit(EventKind::PlanApplied {
                run,
                revision: 1,
                plan,
                numbers: Vec::new(),
                command_seq: 0,
                usage: Usage::default(),
                duration_ms: 0,
            })?;
            self.advance(run)?;
        }
        Ok(None)
    }

    fn cancel_run(
        &mut self,
        command_seq: u64,
        number: u32,
        reason: String,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        if let Err(refusal) = self.unended(number) {
            return Ok(Some(refusal));
        }
        for attempt in self.running(number) {
            self.stop_step(attempt, Stop::Cancelled)?;
        }
        self.drop_wishes(number, "the run was cancelled")?;
        self.emit(EventKind::RunCancelled {
            run: number,
            reason,
            command_seq,
        })?;
        Ok(None)
    }

    fn decide_pending(
        &mut self,
        command_seq: u64,
        pending_id: &str,
        settlement: Settlement,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let Some(id) = PendingId::parse(pending_id) else {
            return Ok(not_pending(pending_id));
        };
        match id.subject {
            Subject::Call(call) => self.decide_call(command_seq, id, call, settlement),
            Subject::Budget { run } => self.decide_budget(command_seq, id, run, settlement),
            Subject::Approval(call) | Subject::Question(call) => {
                self.decide_asked(command_seq, id, call, settlement)
            }
            Subject::Plan { run, proposal } => {
                self.decide_plan(command_seq, id, run, proposal, settlement)
            }
        }
    }

    fn decide_call(
        &mut self,
        command_seq: u64,
        id: PendingId,
        name: CallRef,
        settlement: Settlement,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let call = pending_call(self.session, name).filter(|call| call.doubts == id.time);
        let (settle_after, answer) = match call.map(|call| &call.status) {
            Some(CallStatus::InDoubt {
                settle_after,
                answer,
            }) => (*settle_after, answer),
            _ => return Ok(not_pending(&id.to_string())),
        };
        if answer.is_some() {
            let message = format!("'{id}' has been answered already");
            return Ok(refuse("ALREADY_DECIDED", message));
        }
        use Settlement as S;
        if matches!(settlement, S::Approve | S::Deny { .. } | S::Answer { .. }) {
            let allowed = "a call in doubt is settled by done, retry, skip or fail".to_owned();
            return Ok(refuse("BAD_SETTLEMENT", allowed));
        }
        let is_due = settle_after <= self.facts.now;
        self.emit(EventKind::Decided {
            command_seq,
            call: name,
            settlement,
            settle_after: if is_due { 0 } else { settle_after },
        })?;
        self.settle_due()?;
        Ok(None)
    }

    /// The run ends, and commands are refused: all events of that may go into the reserve.
    pub(super) fn end_at_limit(&mut self, failure: &Failure) -> Result<(), IllegalTransition> {
        if let Some(run) = self.session.active_run() {
            let number = run.number;
            for attempt in self.running(number) {
                self.fail_step(attempt, failure.clone())?;
            }
            self.emit(EventKind::RunFailed {
                run: number,
                failure: failure.clone(),
                usage: None,
                duration_ms: 0,
            })?;
        }
        // An ended run has them, too, and their answers would open it again.
        self.drop_wishes(self.session.runs.len() as u32, &failure.message)?;
        while let Some((&command_seq, command)) = self.session.commands.first_key_value() {
            match command {
                Command::StartRun(_) => self.emit(EventKind::CommandRefused {
                    command_seq,
                    reason: "LIMIT_EXCEEDED".to_owned(),
                    message: failure.message.clone(),
                })?,
                // They would open the run again.
                Command::RevisePlan(_)
                | Command::ApplyProposal { .. }
                | Command::RedoStep { .. } => self.emit(EventKind::CommandRefused {
                    command_seq,
                    reason: "LIMIT_EXCEEDED".to_owned(),
                    message: failure.message.clone(),
                })?,
                // Without a run, these are refused.
                _ => self.handle_command()?,
            }
        }
        Ok(())
    }
}

/// A goal is needed only where there is no plan.
fn fault_of_goal(start: &StartRun) -> Option<String> {
    if start.plan.is_none() && start.goal.trim().is_empty() {
        return Some("a run needs a goal or a plan".to_owned());
    }
    let bytes = start.goal.len();
    (bytes > MAX_GOAL)
        .then(|| format!("the goal has {bytes} bytes; at most {MAX_GOAL} are allowed"))
}

pub(super) fn refuse(reason: &'static str, message: String) -> Option<Refusal> {
    Some(Refusal { reason, message })
}

/// 0 is the newest run of a session without any.
pub(super) fn no_such_run(number: u32) -> Refusal {
    let message = match number {
        0 => "the session has no run yet".to_owned(),
        number => format!("run {number} does not exist"),
    };
    Refusal {
        reason: "NO_SUCH_RUN",
        message,
    }
}

pub(super) fn not_pending(pending_id: &str) -> Option<Refusal> {
    refuse(
        "NOT_PENDING",
        format!("'{pending_id}' is not an open question of this session"),
    )
}
