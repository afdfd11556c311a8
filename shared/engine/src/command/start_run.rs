//! Starts a run.

use super::submit_turn::full;
use super::{Handle, LimitOverrides};
use crate::decide::{Change, Decision, Rejection, check_given_plan};
use crate::event::RunStarted;
use crate::limits::{MAX_CONTEXT, MAX_EXTERNAL_ID, MAX_GOAL, MAX_PROMPT_NOTE};
use crate::message::{Message, Usage};
use crate::plan::{Plan, PlanDraft};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Pursue a goal: plan it first, or carry out the plan given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRun {
    /// What is to be reached; may be empty only if a plan is given.
    pub goal: String,
    /// When given, nothing is planned.
    pub plan: Option<PlanDraft>,
    /// What differs from the defaults; 0 leaves the default.
    pub limits: LimitOverrides,
    /// Model for planning and steps; empty for the default.
    pub model: String,
    /// The trace that the run belongs to; see `cairn/event/v1/event.proto`.
    pub trace_parent: String,
    /// Name of its agent; empty for the default agent, whatever the active context has.
    pub agent: String,
    /// A person who can answer questions follows the run.
    pub answers_questions: bool,
    /// The task that the run stands for in another system; may be empty.
    pub external_id: String,
    /// What its models are told in addition; may be empty.
    pub note: String,
}

impl StartRun {
    fn check(&self, decision: &Decision<'_>) -> Result<(), Rejection> {
        if let Some(active) = decision.session.active_run() {
            let message = format!(
                "run {} is active; wait for its end or cancel it",
                active.number
            );
            return Err(Rejection::refused(Refusal::RunActive, message));
        }
        if self.plan.is_none() && self.goal.trim().is_empty() {
            let message = "a run needs a goal or a plan";
            return Err(Rejection::refused(Refusal::BadGoal, message));
        }
        for (name, text, most) in [
            ("goal", &self.goal, MAX_GOAL),
            ("external id", &self.external_id, MAX_EXTERNAL_ID),
            ("note", &self.note, MAX_PROMPT_NOTE),
        ] {
            let bytes = text.len();
            if bytes > most {
                let message = format!("the {name} has {bytes} bytes; at most {most} are allowed");
                return Err(Rejection::refused(Refusal::BadGoal, message));
            }
        }
        if let Some(Err(error)) = self.plan.as_ref().map(Plan::accept) {
            return Err(Rejection::refused(
                Refusal::BadPlan,
                error.located().problem,
            ));
        }
        self.check_context(decision)
    }

    /// Goal and answer will be messages of the active context. As the answer is not known, a context can
    /// grow beyond its limit by one.
    fn check_context(&self, decision: &Decision<'_>) -> Result<(), Rejection> {
        let bytes = decision.known_context("")?.bytes;
        let bytes = match self.goal.trim() {
            "" => bytes,
            _ => bytes + Message::user(&*self.goal).bytes(),
        };
        if bytes > MAX_CONTEXT {
            let name = decision.session.context_name("");
            return Err(Rejection::refused(Refusal::Limit, full(name, bytes)));
        }
        Ok(())
    }
}

impl Handle for StartRun {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        self.check(decision)?;
        let agent = decision.agent_named(&self.agent)?;
        if let Some(plan) = &self.plan {
            check_given_plan(agent.as_ref(), plan, &decision.facts.pool.grants)?;
        }
        let hooks = decision.pins(agent.as_deref())?;
        let run = decision.session.runs.len() as u32 + 1;
        decision.drop_requests(run - 1, "another run has begun since")?;
        let of_agent = agent.as_ref().map(|agent| agent.limits).unwrap_or_default();
        let limits = decision.facts.limits.of_agent(&of_agent).with(self.limits);
        let model = match self.model.as_str() {
            "" => agent
                .as_ref()
                .map(|agent| agent.model.clone())
                .unwrap_or_default(),
            _ => self.model,
        };
        let agent = decision.define(agent)?;
        decision.answer(RunStarted {
            run,
            goal: self.goal,
            limits,
            model,
            trace_parent: self.trace_parent,
            turn: None,
            agent,
            hooks,
        })?;
        let Some(plan) = self.plan else {
            return Ok(());
        };
        if decision.hold_plan(run, &plan, None, Usage::default(), 0)? {
            return Ok(());
        }
        let change = Change::given(plan, 0);
        match limits.review_plan {
            true => {
                decision.propose(run, change)?;
                decision.reconcile_status(run)?;
            }
            false => decision.put_into_force(run, change)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::{Sent, plan};
    use crate::command::{ChangeContext, ContextOp};
    use crate::limits::{MAX_CONTEXT, MAX_EXTENSION};
    use crate::message::Message;
    use crate::session::{RunStatus, Session};

    fn goal(goal: &str) -> StartRun {
        StartRun {
            goal: goal.to_owned(),
            ..StartRun::default()
        }
    }

    #[test]
    fn a_goal_is_planned_and_a_plan_begins() {
        let mut sent = Sent::new();
        sent.send(goal("count the files"));
        assert_eq!(sent.run().status, RunStatus::Planning);
        let sent = Sent::running(&["one"]);
        assert_eq!(sent.run().status, RunStatus::Running);
        assert_eq!(sent.run().running_attempts().count(), 1);
    }

    #[test]
    fn a_plan_to_be_reviewed_waits() {
        let mut sent = Sent::new();
        sent.send(StartRun {
            plan: Some(plan(&["one"])),
            limits: LimitOverrides {
                review_plan: true,
                ..LimitOverrides::default()
            },
            ..StartRun::default()
        });
        assert!(matches!(sent.run().status, RunStatus::Waiting(_)));
    }

    #[test]
    fn there_is_one_run_at_a_time() {
        let mut sent = Sent::running(&["one"]);
        assert_eq!(sent.refused(goal("another")), Refusal::RunActive);
        sent.fail();
        sent.send(goal("another"));
        assert_eq!(sent.run().number, 2);
    }

    /// Its goal and its answer will be messages of the active context.
    #[test]
    fn a_full_context_takes_no_run_more() {
        let mut sent = Sent::new();
        // With what a message and its part count beside their bytes.
        let most = Message::user("x".repeat(MAX_EXTENSION as usize - 32));
        for _ in 0..MAX_CONTEXT / MAX_EXTENSION {
            sent.send(ChangeContext {
                ops: vec![ContextOp::Append(most.clone())],
                ..ChangeContext::default()
            });
        }
        assert_eq!(sent.refused(goal("count the files")), Refusal::Limit);
        sent.send(StartRun {
            plan: Some(plan(&["one"])),
            ..StartRun::default()
        });
        assert_eq!(sent.run().status, RunStatus::Running, "it has no goal");
    }

    #[test]
    fn a_run_needs_a_goal_or_a_plan_that_can_be_carried_out() {
        let mut sent = Sent::new();
        for bad in [" ", &"g".repeat(MAX_GOAL + 1)] {
            assert_eq!(sent.refused(goal(bad)), Refusal::BadGoal);
        }
        let nothing = StartRun {
            plan: Some(PlanDraft::default()),
            ..goal("do nothing")
        };
        assert_eq!(sent.refused(nothing), Refusal::BadPlan);
    }

    #[test]
    fn a_run_keeps_its_external_id_and_its_note() {
        let longest = StartRun {
            external_id: "i".repeat(MAX_EXTERNAL_ID),
            note: "n".repeat(MAX_PROMPT_NOTE),
            ..goal("count the files")
        };
        let mut sent = Sent::new();
        for too_long in [
            StartRun {
                external_id: "i".repeat(MAX_EXTERNAL_ID + 1),
                ..longest.clone()
            },
            StartRun {
                note: "n".repeat(MAX_PROMPT_NOTE + 1),
                ..longest.clone()
            },
        ] {
            assert_eq!(sent.refused(too_long), Refusal::BadGoal);
        }
        sent.send(longest.clone());
        let run = sent.run();
        assert_eq!(
            (&run.external_id, &run.note),
            (&longest.external_id, &longest.note)
        );
        let kept = sent.session.to_checkpoint().expect("a checkpoint");
        assert_eq!(Session::from_checkpoint(&kept), Some(sent.session));
    }
}
