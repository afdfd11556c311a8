//! People who hold a run up: pause, resume, skip.

use super::Decision;
use super::command::{Refusal, no_such_run, refuse};
use super::revise::no_such_step;
use crate::event::{AttemptRef, EventKind};
use crate::state::{Run, RunStatus, Step};
use crate::transitions::IllegalTransition;

/// Why a step that runs is not wanted any more.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// Its plan has another step in its place, or none.
    Superseded,
    /// Its run ends.
    Cancelled,
}

impl Decision<'_> {
    pub(super) fn pause_run(
        &mut self,
        command_seq: u64,
        run: u32,
        reason: String,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        match self.unended(run).map(|run| run.status) {
            Err(refusal) => Ok(Some(refusal)),
            Ok(RunStatus::Paused) => {
                let message = format!("run {run} is paused already");
                Ok(refuse("RUN_PAUSED", message))
            }
            Ok(_) => {
                self.emit(EventKind::RunPaused {
                    run,
                    reason,
                    command_seq,
                })?;
                Ok(None)
            }
        }
    }

    pub(super) fn resume_run(
        &mut self,
        command_seq: u64,
        number: u32,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = match self.unended(number) {
            Err(refusal) => return Ok(Some(refusal)),
            Ok(run) => run,
        };
        if run.status != RunStatus::Paused {
            let message = format!("run {number} is not paused");
            return Ok(refuse("RUN_NOT_PAUSED", message));
        }
        self.emit(EventKind::RunResumed {
            run: number,
            command_seq,
        })?;
        self.begin_again(number)?;
        Ok(None)
    }

    pub(super) fn skip_step(
        &mut self,
        command_seq: u64,
        number: u32,
        step: u32,
        reason: String,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = match self.unended(number) {
            Err(refusal) => return Ok(Some(refusal)),
            Ok(run) => run,
        };
        let in_force = run.plan.as_ref();
        match in_force
            .and_then(|plan| plan.step(step))
            .map(Step::has_ended)
        {
            None => return Ok(no_such_step(number, step)),
            Some(true) => {
                let message = format!("step {step} has ended already");
                return Ok(refuse("STEP_ENDED", message));
            }
            Some(false) => {}
        }
        let running = self.running(number);
        if let Some(attempt) = running.into_iter().find(|attempt| attempt.step == step) {
            self.doubt_intended_calls(attempt, false)?;
        }
        self.emit(EventKind::StepSkipped {
            run: number,
            step,
            reason,
            is_wish: true,
            command_seq,
        })?;
        self.advance(number)?;
        Ok(None)
    }

    /// Ends a running step that nobody wants any more.
    pub(super) fn stop_step(
        &mut self,
        attempt: AttemptRef,
        why: Stop,
    ) -> Result<(), IllegalTransition> {
        self.doubt_intended_calls(attempt, false)?;
        let reason = match (why, self.calls_in_doubt(attempt)) {
            (Stop::Superseded, _) => "superseded".to_owned(),
            (Stop::Cancelled, 0) => "cancelled".to_owned(),
            (Stop::Cancelled, 1) => {
                "cancelled; a call had been sent, and nobody knows how it ended".to_owned()
            }
            (Stop::Cancelled, calls) => {
                format!("cancelled; {calls} calls had been sent, and nobody knows how they ended")
            }
        };
        self.emit(EventKind::StepSkipped {
            run: attempt.run,
            step: attempt.step,
            reason,
            is_wish: false,
            command_seq: 0,
        })
    }

    pub(super) fn running(&self, run: u32) -> Vec<AttemptRef> {
        let run = self.session.run(run).into_iter();
        run.flat_map(Run::running_attempts)
            .map(|(name, ..)| name)
            .collect()
    }

    /// The run, unless it has ended.
    pub(super) fn unended(&self, number: u32) -> Result<&Run, Refusal> {
        let run = self
            .session
            .run(number)
            .ok_or_else(|| no_such_run(number))?;
        if run.status.is_terminal() {
            let message = format!("run {number} has ended: {:?}", run.status).to_lowercase();
            return Err(Refusal {
                reason: "RUN_ENDED",
                message,
            });
        }
        Ok(run)
    }
}
