//! Events about a run's plan.

use crate::context::step_context;
use crate::event::EventKind;
use crate::key::{StepKey, step_keys};
use crate::plan::{Plan, PlanDraft, PlanStep};
use crate::revise::may_be_kept;
use crate::state::{PlanState, Proposal, Revising, Run, RunStatus, Session, Step, StepStatus};
use crate::transitions::IllegalTransition;
use std::collections::BTreeSet;

/// Proposals that are kept: the newest.
const MOST_PROPOSALS: usize = 8;

impl Session {
    pub(super) fn apply_to_plan(&mut self, event: &EventKind) -> Result<(), IllegalTransition> {
        use EventKind as E;
        let answered = match event {
            E::RevisionRequested {
                run,
                feedback,
                apply,
                command_seq,
                denied,
            } => {
                let run = self.run_mut(*run)?;
                run.wish(*command_seq, feedback, *apply, *denied);
                *command_seq
            }
            E::PlanProposed {
                run, request_seq, ..
            } => {
                self.run_mut(*run)?.propose(event)?;
                *request_seq
            }
            E::RevisionFailed {
                run,
                request_seq,
                usage,
                ..
            } => {
                let run = self.run_mut(*run)?;
                run.usage.add(usage);
                run.revising.remove(request_seq);
                if *request_seq == 0 {
                    // It will not ask again until somebody has changed the plan.
                    run.own_revisions = run.limits.max_own_revisions;
                }
                *request_seq
            }
            E::PlanApplied {
                run, command_seq, ..
            } => {
                self.keep_contexts(*run)?;
                let run = self.run_mut(*run)?;
                run.apply_plan(event)?;
                *command_seq
            }
            other => return Err(IllegalTransition::missing(format!("plan event {other:?}"))),
        };
        self.answer_command(answered);
        Ok(())
    }

    /// What is under way goes on with what it was told.
    fn keep_contexts(&mut self, run: u32) -> Result<(), IllegalTransition> {
        let running = self.run(run).into_iter().flat_map(Run::running_attempts);
        let running: Vec<_> = running.map(|(name, ..)| name).collect();
        for attempt in running {
            let context = step_context(self, attempt);
            self.attempt_mut(attempt)?.context = context;
        }
        Ok(())
    }
}

impl Run {
    /// Number of the plan in force; 0 without one.
    pub fn revision(&self) -> u32 {
        self.plan.as_ref().map_or(0, |plan| plan.revision)
    }

    fn wish(&mut self, request_seq: u64, feedback: &str, apply: bool, denied: u32) {
        let wish = Revising {
            feedback: feedback.to_owned(),
            apply,
            base_revision: self.revision(),
            denied,
        };
        if let Some(proposal) = self.proposals.get_mut(&denied) {
            proposal.denials += 1;
        }
        self.revising.insert(request_seq, wish);
    }

    fn propose(&mut self, event: &EventKind) -> Result<(), IllegalTransition> {
        let EventKind::PlanProposed {
            proposal: number,
            base_revision,
            plan,
            request_seq,
            usage,
            ..
        } = event
        else {
            return Err(IllegalTransition::missing("a plan in another event"));
        };
        let number = *number;
        self.usage.add(usage);
        self.revising.remove(request_seq);
        // A plan that the run itself asked for: by its goal, or by what failed of it. What takes the
        // place of one under review is to be agreed to in its stead.
        if self.limits.review_plan && (*request_seq == 0 || self.review.is_some()) {
            self.review = Some(number);
        }
        let proposal = Proposal {
            base_revision: *base_revision,
            plan: plan.clone(),
            denials: 0,
        };
        if number != self.proposed + 1 {
            let what = format_args!("proposal {number}");
            return Err(IllegalTransition::not_allowed(what, self.proposed, "next"));
        }
        self.proposed = number;
        self.proposals.insert(number, proposal);
        while self.proposals.len() > MOST_PROPOSALS {
            let mut numbers = self.proposals.keys().copied();
            let oldest = numbers.find(|number| Some(*number) != self.review);
            oldest.and_then(|oldest| self.proposals.remove(&oldest));
        }
        Ok(())
    }

    fn apply_plan(&mut self, event: &EventKind) -> Result<(), IllegalTransition> {
        let EventKind::PlanApplied {
            revision,
            plan,
            numbers,
            command_seq,
            usage,
            ..
        } = event
        else {
            return Err(IllegalTransition::missing("a plan in another event"));
        };
        if *revision != self.revision() + 1 {
            let what = format_args!("revision {revision} of run {}", self.number);
            return Err(IllegalTransition::not_allowed(
                what,
                self.revision(),
                "next",
            ));
        }
        if self.status == RunStatus::Planning || self.status.is_terminal() {
            self.enter(RunStatus::Running)?;
        }
        self.plan = Some(PlanState::in_force(
            self.plan.take(),
            *revision,
            plan,
            numbers,
        )?);
        self.usage.add(usage);
        self.own_revisions = match (*revision, *command_seq) {
            (1, _) | (_, 1..) => 0,
            _ => self.own_revisions + 1,
        };
        // A wish for the first plan was about no plan that was there: it is asked about this one.
        let wishes = self.revising.values_mut();
        for early in wishes.filter(|wish| wish.base_revision == 0) {
            early.base_revision = *revision;
        }
        // What was asked or proposed for the plan before says nothing of this one; wishes of people
        // are answered all the same.
        self.revising.remove(&0);
        self.revising.remove(command_seq);
        self.proposals.clear();
        self.review = None;
        self.failing = None;
        self.ending = None;
        self.failure = None;
        self.answer.clear();
        self.cancel_reason.clear();
        self.ended_at = None;
        Ok(())
    }
}

impl PlanState {
    /// The plan put into force, with the steps that it shares with the one before.
    fn in_force(
        old: Option<Self>,
        revision: u32,
        draft: &PlanDraft,
        numbers: &[u32],
    ) -> Result<Self, IllegalTransition> {
        let plan = Plan::new(draft).map_err(malformed)?;
        let mut steps = old.map(|old| old.steps).unwrap_or_default();
        // Asked before the places go: what was dropped before it began is not kept.
        let may_be_kept: Vec<bool> = steps.iter().map(may_be_kept).collect();
        for step in &mut steps {
            step.place = None;
            step.dependents.clear();
            step.unmet = 0;
        }
        let places = positions(numbers, plan.steps.len())?;
        let keys = step_keys(&plan.steps, |place| {
            let kept = steps.get(places[place] as usize);
            kept.is_some_and(Step::is_handing_on)
        });
        for ((planned, key), place) in plan.steps.into_iter().zip(keys).zip(0..) {
            let position = places[place as usize] as usize;
            let may_be_kept = may_be_kept.get(position).is_some_and(|&may| may);
            let kept = steps.get(position);
            let is_taken =
                kept.is_some_and(|kept| !may_be_kept || kept.key != key || kept.place.is_some());
            if is_taken || position > steps.len() {
                let number = position + 1;
                return Err(malformed(format!(
                    "step {number} is neither kept as it is nor the next new one"
                )));
            }
            put(&mut steps, &places, place, planned, key);
        }
        let running = |(_, step): &(u32, &Step)| step.running().is_some();
        let running: BTreeSet<u32> = (0..).zip(&steps).filter(running).map(|(i, _)| i).collect();
        if running.iter().any(|&i| steps[i as usize].place.is_none()) {
            return Err(malformed("a step that is running is not in the plan"));
        }
        join(&mut steps, &places);
        let mut plan = Self {
            revision,
            order: plan.order,
            steps,
            places,
            ready: BTreeSet::new(),
            running,
            open: 0,
        };
        plan.count_unmet();
        let is_ready = |step: &Step| step.status == StepStatus::Pending && step.unmet == 0;
        let here = || plan.current().map(|(_, step)| step);
        let ready = (0..).zip(here()).filter(|(_, step)| is_ready(step));
        let ready = ready.map(|(place, _)| place).collect();
        let open = here().filter(|step| !step.has_ended()).count() as u32;
        Ok(Self {
            ready,
            open,
            ..plan
        })
    }
}

/// The positions that the plan's steps have among all; those of a first plan need not be written.
fn positions(numbers: &[u32], steps: usize) -> Result<Vec<u32>, IllegalTransition> {
    if numbers.is_empty() {
        return Ok((0..steps as u32).collect());
    }
    if numbers.len() != steps {
        return Err(malformed("the plan has another number of steps"));
    }
    let position = |number: &u32| number.checked_sub(1);
    let positions: Option<Vec<u32>> = numbers.iter().map(position).collect();
    positions.ok_or_else(|| malformed("a step has the number 0"))
}

/// Keeps the step that has this key, or takes in a new one.
fn put(steps: &mut Vec<Step>, places: &[u32], place: u32, mut planned: PlanStep, key: StepKey) {
    let position = places[place as usize];
    let dependencies = planned.depends_on.iter();
    planned.depends_on = dependencies.map(|&at| places[at as usize]).collect();
    match steps.get_mut(position as usize) {
        Some(kept) => {
            kept.plan = planned;
            kept.place = Some(place);
        }
        None => steps.push(Step::new(planned, key, place)),
    }
}

/// Which steps wait for which.
fn join(steps: &mut [Step], places: &[u32]) {
    for &position in places {
        let dependencies = steps[position as usize].plan.depends_on.clone();
        for dependency in dependencies {
            steps[dependency as usize].dependents.push(position);
        }
    }
}

fn malformed(what: impl std::fmt::Display) -> IllegalTransition {
    IllegalTransition::Malformed {
        what: what.to_string(),
    }
}
