//! Another plan: wished for, proposed, put into force.

use super::Decision;
use super::command::{Refusal, no_such_run, refuse};
use super::control::Stop;
use crate::command::RevisePlan;
use crate::event::{AttemptRef, EventKind, WaitReason};
use crate::failure::{Failure, FailureKind};
use crate::limits::MAX_GOAL;
use crate::message::Usage;
use crate::plan::{Plan, PlanDraft};
use crate::revise::{draft_of, inherit_redo, numbers};
use crate::state::{Revising, Run, RunStatus};
use crate::transitions::IllegalTransition;

/// Most wishes that the planner is asked about, one after the other.
const MOST_WISHES: usize = 8;

/// A plan on its way into force.
pub(super) struct Change {
    pub(super) plan: PlanDraft,
    pub(super) command_seq: u64,
    pub(super) usage: Usage,
    pub(super) duration_ms: u64,
}

impl Decision<'_> {
    pub(super) fn revise_plan(
        &mut self,
        command_seq: u64,
        wish: RevisePlan,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = match self.revisable(wish.run, wish.expected_revision) {
            Ok(run) => run,
            Err(refusal) => return Ok(Some(refusal)),
        };
        let (number, wishes) = (run.number, run.revising.len());
        let Some(plan) = wish.plan else {
            if let Some(refusal) = fault_of_feedback(&wish.feedback, wishes) {
                return Ok(Some(refusal));
            }
            self.emit(EventKind::RevisionRequested {
                run: number,
                feedback: wish.feedback,
                apply: wish.apply,
                command_seq,
                denied: 0,
            })?;
            self.reconcile_status(number)?;
            return Ok(None);
        };
        if let Err(fault) = Plan::accept(&plan) {
            return Ok(refuse("BAD_PLAN", fault.to_string()));
        }
        let change = Change {
            plan,
            command_seq,
            usage: Usage::default(),
            duration_ms: 0,
        };
        self.propose_or_apply(number, change, wish.apply)?;
        Ok(None)
    }

    pub(super) fn apply_proposal(
        &mut self,
        command_seq: u64,
        run: u32,
        number: u32,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = match self.revisable(run, 0) {
            Ok(run) => run,
            Err(refusal) => return Ok(Some(refusal)),
        };
        let Some(proposal) = run.proposals.get(&number) else {
            if number == 0 || number > run.proposed {
                let message = format!("run {} has no proposal {number}", run.number);
                return Ok(refuse("NO_SUCH_PROPOSAL", message));
            }
            return Ok(Some(moved_on(run)));
        };
        let (run, plan) = (run.number, proposal.plan.clone());
        let change = Change {
            plan,
            command_seq,
            usage: Usage::default(),
            duration_ms: 0,
        };
        self.put_into_force(run, change)?;
        Ok(None)
    }

    pub(super) fn redo_step(
        &mut self,
        command_seq: u64,
        run: u32,
        step: u32,
    ) -> Result<Option<Refusal>, IllegalTransition> {
        let run = match self.revisable(run, 0) {
            Ok(run) => run,
            Err(refusal) => return Ok(Some(refusal)),
        };
        let in_force = run.plan.as_ref();
        let found = in_force.and_then(|plan| Some((plan, plan.step(step)?)));
        let Some((in_force, found)) = found else {
            return Ok(no_such_step(run.number, step));
        };
        if !found.has_ended() {
            let message = format!("step {step} has not ended; only a step that ended is redone");
            return Ok(refuse("STEP_NOT_ENDED", message));
        }
        let mut plan = draft_of(in_force);
        let place = found
            .place
            .and_then(|place| plan.steps.get_mut(place as usize));
        if let Some(again) = place {
            again.redo = again.redo.saturating_add(1);
        }
        let change = Change {
            plan,
            command_seq,
            usage: Usage::default(),
            duration_ms: 0,
        };
        let run = run.number;
        self.put_into_force(run, change)?;
        Ok(None)
    }

    /// The planner answered a wish.
    pub(super) fn revised(
        &mut self,
        run: u32,
        request_seq: u64,
        outcome: Result<PlanDraft, Failure>,
        usage: Usage,
        duration_ms: u64,
    ) -> Result<(), IllegalTransition> {
        let Some(known) = self.session.run(run) else {
            return Ok(());
        };
        let Some(wish) = known.revising.get(&request_seq) else {
            return Ok(());
        };
        // The first plan of a run that has them reviewed is reviewed, however it came about.
        let apply = wish.apply && !(known.limits.review_plan && known.plan.is_none());
        let is_current = wish.base_revision == known.revision();
        let checked = outcome.and_then(|plan| match Plan::accept(&plan) {
            Err(fault) => Err(Failure::new(
                FailureKind::PlanParse,
                "BadPlan",
                fault.to_string(),
            )),
            Ok(_) if !is_current => Err(Failure::new(
                FailureKind::Other,
                "PlanMovedOn",
                moved_on(known).message,
            )),
            Ok(_) => Ok(plan),
        });
        match checked {
            Ok(plan) => {
                let change = Change {
                    plan,
                    command_seq: request_seq,
                    usage,
                    duration_ms,
                };
                self.propose_or_apply(run, change, apply)?;
                self.reconcile_status(run)
            }
            Err(failure) => {
                self.emit(EventKind::RevisionFailed {
                    run,
                    request_seq,
                    failure,
                    usage,
                    duration_ms,
                })?;
                self.advance(run)
            }
        }
    }

    /// The run asks for another plan by itself, because of its failure.
    pub(super) fn ask_for_revision(
        &mut self,
        run: u32,
        failure: &Failure,
    ) -> Result<(), IllegalTransition> {
        let message = &failure.message;
        let feedback = format!("A step failed. Plan a way round it, or another one. {message}");
        let is_reviewed = |run: &Run| run.limits.review_plan;
        self.emit(EventKind::RevisionRequested {
            run,
            feedback,
            apply: !self.session.run(run).is_some_and(is_reviewed),
            command_seq: 0,
            denied: 0,
        })
    }

    /// Nobody waits for an answer without end: wishes for a run that cannot be changed any more, or
    /// not now, are answered no.
    pub(super) fn drop_wishes(&mut self, run: u32, message: &str) -> Result<(), IllegalTransition> {
        let wishes = self
            .session
            .run(run)
            .map(|run| run.revising.keys().copied());
        let wishes: Vec<u64> = wishes.into_iter().flatten().collect();
        for request_seq in wishes {
            self.emit(EventKind::RevisionFailed {
                run,
                request_seq,
                failure: Failure::new(FailureKind::Other, "Dropped", message),
                usage: Usage::default(),
                duration_ms: 0,
            })?;
        }
        Ok(())
    }

    fn propose_or_apply(
        &mut self,
        run: u32,
        change: Change,
        apply: bool,
    ) -> Result<(), IllegalTransition> {
        if apply {
            return self.put_into_force(run, change);
        }
        let Some(known) = self.session.run(run) else {
            return Ok(());
        };
        let (proposal, base_revision) = (known.proposed + 1, known.revision());
        self.emit(EventKind::PlanProposed {
            run,
            proposal,
            base_revision,
            plan: change.plan,
            request_seq: change.command_seq,
            usage: change.usage,
            duration_ms: change.duration_ms,
        })
    }

    /// What runs and is not in the plan is stopped; the rest of what is there goes on undisturbed.
    pub(super) fn put_into_force(
        &mut self,
        run: u32,
        change: Change,
    ) -> Result<(), IllegalTransition> {
        let Some(known) = self.session.run(run) else {
            return Ok(());
        };
        let mut draft = change.plan;
        let plan = inherit_redo(&mut draft, known.plan.as_ref());
        let plan = plan.map_err(|fault| IllegalTransition::Malformed {
            what: fault.to_string(),
        })?;
        let numbers = numbers(known.plan.as_ref(), &plan);
        let is_kept = |attempt: &AttemptRef| numbers.contains(&attempt.step);
        let running = known.running_attempts().map(|(name, ..)| name);
        let dropped: Vec<_> = running.filter(|attempt| !is_kept(attempt)).collect();
        let revision = known.revision() + 1;
        if known.status == RunStatus::Waiting(WaitReason::PlanReview) {
            self.emit(EventKind::RunResumed {
                run,
                command_seq: 0,
            })?;
        }
        for attempt in dropped {
            self.stop_step(attempt, Stop::Superseded)?;
        }
        self.emit(EventKind::PlanApplied {
            run,
            revision,
            plan: draft,
            numbers,
            command_seq: change.command_seq,
            usage: change.usage,
            duration_ms: change.duration_ms,
        })?;
        self.drop_void_wishes(run)?;
        self.advance(run)
    }

    /// Wishes about the plan before, or for another one than a person has agreed to, are answered
    /// without the planner: nothing could come of its answer.
    fn drop_void_wishes(&mut self, number: u32) -> Result<(), IllegalTransition> {
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let revision = run.revision();
        let failure = Failure::new(FailureKind::Other, "PlanMovedOn", moved_on(run).message);
        let wishes = run.revising.iter();
        let is_void = |wish: &Revising| wish.base_revision != revision || wish.denied > 0;
        let void = wishes.filter(|(_, wish)| is_void(wish));
        let void: Vec<u64> = void.map(|(&request_seq, _)| request_seq).collect();
        for request_seq in void {
            self.emit(EventKind::RevisionFailed {
                run: number,
                request_seq,
                failure: failure.clone(),
                usage: Usage::default(),
                duration_ms: 0,
            })?;
        }
        Ok(())
    }

    /// The newest run, whose plan may be changed whatever it is doing.
    fn revisable(&self, number: u32, expected_revision: u32) -> Result<&Run, Refusal> {
        let run = self
            .session
            .run(number)
            .ok_or_else(|| no_such_run(number))?;
        let newest = self.session.runs.len();
        if newest != number as usize {
            let message = format!(
                "run {number} has ended and run {newest} came after it; only the plan of the \
                 newest run can be changed"
            );
            return Err(Refusal {
                reason: "RUN_ENDED",
                message,
            });
        }
        if expected_revision != 0 && expected_revision != run.revision() {
            return Err(moved_on(run));
        }
        Ok(run)
    }
}

fn fault_of_feedback(feedback: &str, wishes: usize) -> Option<Refusal> {
    let bytes = feedback.len();
    if feedback.trim().is_empty() {
        let message = "a revision needs feedback or a plan".to_owned();
        return refuse("BAD_FEEDBACK", message);
    }
    if bytes > MAX_GOAL {
        let message = format!("the feedback has {bytes} bytes; at most {MAX_GOAL} are allowed");
        return refuse("BAD_FEEDBACK", message);
    }
    if wishes >= MOST_WISHES {
        let message = format!("{wishes} wishes for another plan wait; at most {MOST_WISHES} may");
        return refuse("TOO_MANY_REVISIONS", message);
    }
    None
}

fn moved_on(run: &Run) -> Refusal {
    let revision = run.revision();
    Refusal {
        reason: "PLAN_MOVED_ON",
        message: format!(
            "the plan of run {} has moved on to revision {revision}; make another proposal",
            run.number
        ),
    }
}

pub(super) fn no_such_step(run: u32, step: u32) -> Option<Refusal> {
    let message = format!("step {step} is not in the plan of run {run}");
    refuse("NO_SUCH_STEP", message)
}
