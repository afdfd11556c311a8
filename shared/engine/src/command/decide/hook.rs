//! Answers what hooks ask about a run, and how a run continues whose hooks are missing or changed.

use super::{Deciding, not_pending};
use crate::command::Settlement;
use crate::decide::Rejection;
use crate::event::HooksPinned;
use crate::failure::{Failure, FailureKind};
use crate::hooks::{Gate, PinnedHook, Point, PresentHooks};
use crate::session::HookAsk;

impl Deciding<'_, '_> {
    /// Whether the run or a step begins, or how the run continues without hooks that it has to ask.
    pub(super) fn hook(self, number: u32) -> Result<(), Rejection> {
        let active = self.decision.session.active_run();
        let run = active.filter(|run| run.number == number);
        let run = run.filter(|run| run.hooks.times_asked == self.id.time);
        match run.and_then(|run| run.hooks.asks.clone()) {
            None => Err(not_pending(self.id)),
            Some(HookAsk::Approval { gate, hook, .. }) => self.approval(gate, &hook),
            Some(HookAsk::Changed {
                missing, changed, ..
            }) => self.changed(number, &missing, &changed),
        }
    }

    /// What a gate is about may begin, or not.
    fn approval(self, gate: Gate, hook: &str) -> Result<(), Rejection> {
        match &self.settlement {
            Settlement::Approve => {
                let decision = self.accept()?;
                Ok(decision.begin_again(gate.attempt.run)?)
            }
            Settlement::Deny { reason } => {
                let failure = denied(gate.point, hook, reason);
                let decision = self.accept()?;
                match gate.point {
                    Point::OnStepStart => {
                        decision.begin_step(gate.attempt)?;
                        decision.fail_step(gate.attempt, failure)?;
                        Ok(decision.advance(gate.attempt.run)?)
                    }
                    _ => Ok(decision.begin_ending(gate.attempt.run, failure)?),
                }
            }
            _ => Err(self.does_not_take("approve or deny it")),
        }
    }

    /// The run continues with the hooks that there are now, looks for the earlier ones again, or ends.
    fn changed(self, number: u32, missing: &[String], changed: &[String]) -> Result<(), Rejection> {
        match &self.settlement {
            Settlement::Approve => {
                let run = self.decision.session.run(number);
                let pinned = run.map_or(&[][..], |run| &run.hooks.pinned);
                let hooks = present(pinned, self.decision.facts.hooks);
                let decision = self.accept()?;
                decision.emit(HooksPinned { run: number, hooks })?;
                Ok(decision.begin_again(number)?)
            }
            Settlement::Retry => {
                let decision = self.accept()?;
                Ok(decision.begin_again(number)?)
            }
            Settlement::Fail { reason } => {
                let failure = unavailable(missing, changed, reason);
                Ok(self.accept()?.begin_ending(number, failure)?)
            }
            _ => Err(self.does_not_take(
                "approve it to use the hooks that there are now, retry it to look for the earlier ones again, or \
                 fail it to end the run",
            )),
        }
    }
}

/// Those of the pinned hooks that there are, as they are now, in the order of before. Others do not join.
fn present(pinned: &[PinnedHook], hooks: &PresentHooks) -> Vec<PinnedHook> {
    let now = pinned.iter().filter_map(|before| {
        let mut hooks = hooks.0.iter().map(|hook| &hook.pin);
        hooks.find(|pin| pin.name == before.name).cloned()
    });
    now.collect()
}

/// Why a run or a step fails that a person did not allow to begin.
fn denied(point: Point, hook: &str, reason: &str) -> Failure {
    let what = match point {
        Point::OnStepStart => "the step",
        _ => "the run",
    };
    let message = format!("a person did not approve {what}, as hook '{hook}' requires");
    Failure::by_hook(with_reason(message, reason))
}

/// Why a run fails whose hooks are missing or changed.
fn unavailable(missing: &[String], changed: &[String], reason: &str) -> Failure {
    let missing = missing
        .iter()
        .map(|name| format!("hook '{name}' is not configured any more"));
    let changed = changed
        .iter()
        .map(|name| format!("hook '{name}' is configured differently now"));
    let names: Vec<String> = missing.chain(changed).collect();
    let message = with_reason(names.join(", "), reason);
    Failure::new(FailureKind::Config, "hook", message)
}

fn with_reason(message: String, reason: &str) -> String {
    match reason {
        "" => message,
        reason => format!("{message}; {reason}"),
    }
}
