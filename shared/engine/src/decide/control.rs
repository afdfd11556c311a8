//! People who hold a run up: pause, resume, skip.

use super::Decision;
use super::command::{Refusal, no_such_run, refuse};
use super::revise::no_such_step;
use crate::event::{AttemptRef, EventKind};
use crate::state::{Run, RunStatus, Step};
use crate::transitions::IllegalTransition;

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
