//! Another plan: requested, proposed, put into force.

use super::agents::check_plan;
use super::{Decision, Ended, Rejection};
use crate::event::{
    AttemptRef, HeldPlan, HooksAsked, PlanApplied, PlanProposed, RevisionFailed, RevisionRequested,
    RunEnding, RunFailed, RunResumed, WaitReason,
};
use crate::failure::{Failure, FailureKind};
use crate::hooks::{Gate, Point};
use crate::message::Usage;
use crate::plan::{Plan, PlanDraft};
use crate::refusal::Refusal;
use crate::revise::{inherit_redo, numbers};
use crate::session::{Run, RunStatus};
use crate::transitions::{Applied, IllegalTransition};

/// A plan on its way into force.
pub(crate) struct Change {
    plan: PlanDraft,
    /// The request that it comes from; 0 for the run itself.
    request: u64,
    /// The event of the change answers the request's command.
    answers: bool,
    usage: Usage,
    duration_ms: u64,
}

/// Who has to agree to a plan of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// Hooks are asked first.
    OfHooks,
    /// Hooks require that a person reviews it.
    OfPerson,
    /// Hooks let it pass.
    Given,
}

impl Change {
    /// A plan that a person gave, so that the planner was not asked.
    pub(crate) fn given(plan: PlanDraft, request: u64) -> Self {
        Self {
            plan,
            request,
            answers: false,
            usage: Usage::default(),
            duration_ms: 0,
        }
    }
}

impl Decision<'_> {
    /// The plan of the command that is being handled; the event of the change answers it.
    pub(crate) fn change_asked_for(&self, plan: PlanDraft) -> Change {
        Change {
            answers: true,
            ..Change::given(plan, self.command_seq())
        }
    }

    /// The planner answered with the first plan of a run.
    pub(super) fn planned(
        &mut self,
        run: u32,
        outcome: Result<PlanDraft, Failure>,
        usage: Usage,
        duration_ms: u64,
        consent: Consent,
    ) -> Applied {
        let planning =
            |run: &&Run| run.is_planning() && run.hooks.plan.is_none() && run.ending.is_none();
        let Some(known) = self.session.run(run).filter(planning) else {
            return Ok(());
        };
        let is_reviewed = known.limits.review_plan || consent == Consent::OfPerson;
        let allowed = |plan| self.allowed(run, plan);
        let plan = match outcome.and_then(accepted).and_then(allowed) {
            Ok(plan) => plan,
            Err(failure) => return self.fail_planning(run, failure, usage, duration_ms),
        };
        if consent == Consent::OfHooks && self.hold_plan(run, &plan, None, usage, duration_ms)? {
            return Ok(());
        }
        let change = Change {
            usage,
            duration_ms,
            ..Change::given(plan, 0)
        };
        if is_reviewed {
            self.propose(run, change)?;
            return self.reconcile_status(run);
        }
        self.put_into_force(run, change)
    }

    /// There is no plan. Hooks are asked about the error before the run ends.
    fn fail_planning(
        &mut self,
        run: u32,
        failure: Failure,
        usage: Usage,
        duration_ms: u64,
    ) -> Applied {
        let usage = Some(usage);
        if self.listens(run, Point::OnError) {
            self.emit(RunEnding {
                run,
                failure,
                usage,
            })?;
            return self.advance(run);
        }
        self.emit(RunFailed {
            run,
            failure,
            usage,
            duration_ms,
            kept_through: 0,
            results: Vec::new(),
        })
    }

    /// Hooks are asked about a plan before anything follows from it. Returns whether they are.
    pub(crate) fn hold_plan(
        &mut self,
        run: u32,
        plan: &PlanDraft,
        request: Option<u64>,
        usage: Usage,
        duration_ms: u64,
    ) -> Result<bool, IllegalTransition> {
        let known = self.session.run(run).map(|run| &run.hooks);
        let known = known.filter(|hooks| hooks.listens(Point::OnPlanProposed));
        let Some(index) = known.map(|hooks| hooks.plans_asked) else {
            return Ok(false);
        };
        let held = HeldPlan {
            plan: plan.clone(),
            request,
            usage,
            duration_ms,
        };
        self.emit(HooksAsked {
            gate: Gate {
                index,
                ..Gate::of_run(Point::OnPlanProposed, run)
            },
            failure: None,
            plan: Some(Box::new(held)),
        })?;
        Ok(true)
    }

    /// The planner answered a request for another plan.
    pub(super) fn revised(
        &mut self,
        run: u32,
        request: u64,
        outcome: Result<PlanDraft, Failure>,
        usage: Usage,
        duration_ms: u64,
        consent: Consent,
    ) -> Applied {
        let known = self.session.run(run).filter(|run| run.hooks.plan.is_none());
        let asked = known.and_then(|run| Some((run, run.revisions.requests.get(&request)?)));
        let Some((known, asked)) = asked else {
            return Ok(());
        };
        // The first plan of a run that has them reviewed is reviewed, however it came about.
        let is_reviewed = known.limits.review_plan && known.plan.is_none();
        let apply = asked.apply && !is_reviewed && consent != Consent::OfPerson;
        let answers = asked.denied == 0;
        let current = match asked.base_revision == known.revision() {
            true => Ok(()),
            false => Err(overtaken(known)),
        };
        let plan = outcome.and_then(accepted);
        let plan = plan.and_then(|plan| self.allowed(run, plan));
        let plan = plan.and_then(|plan| current.map(|()| plan));
        if let (Ok(plan), Consent::OfHooks) = (&plan, consent)
            && self.hold_plan(run, plan, Some(request), usage, duration_ms)?
        {
            return Ok(());
        }
        let change = |plan| Change {
            plan,
            request,
            answers,
            usage,
            duration_ms,
        };
        match plan {
            Ok(plan) if apply => self.put_into_force(run, change(plan)),
            Ok(plan) => {
                self.propose(run, change(plan))?;
                self.reconcile_status(run)
            }
            Err(failure) => {
                self.fail_request(run, request, failure, usage, duration_ms)?;
                self.advance(run)
            }
        }
    }

    /// The plan, if the agent of the run may make its calls.
    fn allowed(&self, run: u32, plan: PlanDraft) -> Result<PlanDraft, Failure> {
        let grants = &self.facts.pool.grants;
        match check_plan(self.session.agent_of_run(run), &plan, grants) {
            None => Ok(plan),
            Some(message) => {
                let reason = Refusal::ToolNotAllowed.name();
                Err(Failure::new(FailureKind::PlanParse, reason, message))
            }
        }
    }

    /// The run requests another plan by itself, because of its failure.
    pub(super) fn request_own_revision(&mut self, run: u32, failure: &Failure) -> Applied {
        let message = &failure.message;
        let feedback = format!("A step failed. Plan a way round it, or another one. {message}");
        let is_reviewed = |run: &Run| run.limits.review_plan;
        self.emit(RevisionRequested {
            run,
            feedback,
            apply: !self.session.run(run).is_some_and(is_reviewed),
            request: 0,
            denied: 0,
        })
    }

    /// No client waits for an answer without end: requests for a run that cannot be changed any more,
    /// or not now, are refused.
    pub(crate) fn drop_requests(&mut self, run: u32, message: &str) -> Applied {
        let failure = Failure::refused(Refusal::RevisionDropped, message);
        self.fail_requests(run, &failure, |_, _| true)
    }

    /// Those of the run itself are about what has happened to it, and stay.
    pub(super) fn drop_requests_of_people(&mut self) -> Applied {
        let message = "it was asked of the session that this one was forked from";
        let failure = Failure::refused(Refusal::RevisionDropped, message);
        let newest = self.session.runs.len() as u32;
        self.fail_requests(newest, &failure, |_, request| request > 0)
    }

    fn fail_requests(
        &mut self,
        run: u32,
        failure: &Failure,
        which: impl Fn(&Run, u64) -> bool,
    ) -> Applied {
        let requests = self.session.run(run).map(|run| {
            let requests = run.revisions.requests.keys().copied();
            requests.filter(|request| which(run, *request)).collect()
        });
        let requests: Vec<u64> = requests.unwrap_or_default();
        for request in requests {
            self.fail_request(run, request, failure.clone(), Usage::default(), 0)?;
        }
        Ok(())
    }

    pub(super) fn fail_request(
        &mut self,
        run: u32,
        request: u64,
        failure: Failure,
        usage: Usage,
        duration_ms: u64,
    ) -> Applied {
        let requests = self.session.run(run).map(|run| &run.revisions.requests);
        let asked = requests.and_then(|requests| requests.get(&request));
        // A denial was answered when it was decided.
        let is_denial = asked.is_some_and(|asked| asked.denied > 0);
        let failed = RevisionFailed {
            run,
            request,
            failure,
            usage,
            duration_ms,
        };
        let answers = if is_denial { 0 } else { request };
        self.emit_with(failed.into(), answers, None)
    }

    pub(crate) fn propose(&mut self, run: u32, change: Change) -> Applied {
        let Some(known) = self.session.run(run) else {
            return Ok(());
        };
        let proposed = PlanProposed {
            run,
            proposal: known.revisions.proposed + 1,
            base_revision: known.revision(),
            plan: change.plan,
            request: change.request,
            usage: change.usage,
            duration_ms: change.duration_ms,
        };
        self.emit_change(proposed, change.answers.then_some(change.request))
    }

    /// The event answers a request: with who asked, if the command is being handled.
    fn emit_change(
        &mut self,
        event: impl Into<crate::event::EventKind>,
        answers: Option<u64>,
    ) -> Applied {
        let answers = answers.unwrap_or_default();
        let asked = self.command.as_ref().filter(|(seq, _)| *seq == answers);
        let principal = asked.and_then(|(_, principal)| principal.clone());
        self.emit_with(event.into(), answers, principal)
    }

    /// What runs and is not in the plan is stopped; the rest of what is there continues undisturbed.
    pub(crate) fn put_into_force(&mut self, run: u32, change: Change) -> Applied {
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
            self.emit(RunResumed { run })?;
        }
        let before = self.session.seq;
        for attempt in dropped {
            self.stop_step(attempt, Ended::Superseded)?;
        }
        let stops = self.session.seq - before;
        let applied = PlanApplied {
            run,
            revision,
            plan: draft,
            // Those of a first plan need not be written.
            numbers: if revision == 1 { Vec::new() } else { numbers },
            request: change.request,
            usage: change.usage,
            duration_ms: change.duration_ms,
            stops: u32::try_from(stops).unwrap_or(u32::MAX),
        };
        self.emit_change(applied, change.answers.then_some(change.request))?;
        self.drop_void_requests(run)?;
        self.advance(run)
    }

    /// Requests about the plan before, or for another one than a person approved, are refused without
    /// the planner: nothing could come of its answer.
    fn drop_void_requests(&mut self, number: u32) -> Applied {
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        self.fail_requests(number, &overtaken(run), |run, request| {
            let request = &run.revisions.requests[&request];
            request.base_revision != run.revision() || request.denied > 0
        })
    }
}

fn accepted(plan: PlanDraft) -> Result<PlanDraft, Failure> {
    match Plan::accept(&plan) {
        Ok(_) => Ok(plan),
        Err(fault) => {
            let message = fault.located().problem;
            Err(Failure::new(FailureKind::PlanParse, "BadPlan", message))
        }
    }
}

fn moved_on_message(run: &Run) -> String {
    let (number, revision) = (run.number, run.revision());
    format!("the plan of run {number} has moved on to revision {revision}; make another proposal")
}

/// The refusal of a command about an earlier plan.
pub(crate) fn moved_on(run: &Run) -> Rejection {
    Rejection::refused(Refusal::PlanMovedOn, moved_on_message(run))
}

/// The failure of a request about an earlier plan.
fn overtaken(run: &Run) -> Failure {
    Failure::refused(Refusal::PlanMovedOn, moved_on_message(run))
}
