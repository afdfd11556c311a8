//! Carries a step out again.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::plan::{Plan, PlanDraft};
use crate::refusal::Refusal;
use crate::revise::{draft_of, numbers};
use crate::session::{PlanState, StepNo};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Do a step again that has ended, and all that depends on it but what a person skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedoStep {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Number of the step.
    pub step: StepNo,
}

impl Handle for RedoStep {
    const BEGINS_WORK: bool = true;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let step = self.step;
        let run = decision.revisable(self.run, 0)?;
        let found = decision.step_in_force(run, step)?;
        if !found.has_ended() {
            let message = format!("step {step} has not ended; only a step that ended is redone");
            return Err(Rejection::refused(Refusal::StepNotEnded, message));
        }
        let old = run.plan.as_ref();
        let mut plan = old.map(draft_of).unwrap_or_default();
        if let Some(place) = found.place
            && let Some(again) = plan.steps.get_mut(place.index())
        {
            again.redo = again.redo.saturating_add(1);
        }
        if let Some(old) = old {
            plan = without_lost_skips(old, plan, step);
        }
        let change = decision.change_asked_for(plan);
        Ok(decision.put_into_force(self.run, change)?)
    }
}

/// Leaves out what a person skipped and this plan would take in again: what it depends on is another step
/// now, so its skip would not count. What comes after it depends on what it depends on, as before.
fn without_lost_skips(old: &PlanState, plan: PlanDraft, redone: StepNo) -> PlanDraft {
    let Ok(checked) = Plan::new(&plan) else {
        return plan;
    };
    let kept: HashSet<StepNo> = numbers(Some(old), &checked).into_iter().collect();
    let is_lost = old.current().map(|(number, step)| {
        step.is_handing_on() && number != redone && !kept.contains(&number)
    });
    let mut left = PlanDraft {
        order: plan.order,
        steps: Vec::with_capacity(plan.steps.len()),
    };
    let mut lost: HashMap<&str, &[String]> = HashMap::new();
    for (step, is_lost) in plan.steps.iter().zip(is_lost) {
        if is_lost {
            lost.insert(&step.id, &step.depends_on);
        } else {
            left.steps.push(step.clone());
        }
    }
    for step in &mut left.steps {
        step.depends_on = handed_on(&step.depends_on, &lost);
    }
    drop(lost);
    match Plan::new(&left) {
        Ok(_) => left,
        // Such as one whose step would depend on too many.
        Err(_) => plan,
    }
}

/// The steps to wait for, with those that steps left out waited for in their place.
fn handed_on(depends_on: &[String], lost: &HashMap<&str, &[String]>) -> Vec<String> {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut found = Vec::new();
    let mut open: Vec<&String> = depends_on.iter().rev().collect();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match lost.get(id.as_str()) {
            Some(before) => open.extend(before.iter().rev()),
            None => found.push(id.clone()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::session::RunStatus;

    fn redo(step: u32) -> RedoStep {
        RedoStep {
            run: 0,
            step: step.into(),
        }
    }

    #[test]
    fn a_step_that_ended_is_done_again() {
        let mut sent = Sent::running(&["one", "two"]);
        sent.fail();
        assert_eq!(sent.run().status, RunStatus::Failed);
        sent.send(redo(1));
        let run = sent.run();
        assert_eq!((run.status, run.revision()), (RunStatus::Running, 2));
        assert_eq!(run.running_attempts().count(), 1);
    }

    #[test]
    fn a_step_that_has_not_ended_or_is_not_there_is_not_redone() {
        let mut sent = Sent::running(&["one", "two"]);
        for step in [1, 2] {
            assert_eq!(sent.refused(redo(step)), Refusal::StepNotEnded);
        }
        assert_eq!(sent.refused(redo(3)), Refusal::NoSuchStep);
        assert_eq!(Sent::new().refused(redo(1)), Refusal::NoSuchRun);
    }
}
