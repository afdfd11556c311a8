//! A run: the pursuit of one goal.

use super::{
    Apply, Attempt, Envelope, PlanState, Purpose, Revisions, RunHooks, Session, Spent, Step, Turn,
};
use crate::command::RunLimits;
use crate::event::{
    AgentUse, AttemptRef, RunCancelled, RunCompleted, RunEnding, RunFailed, RunPaused, RunResumed,
    RunStarted, RunTakenOver, RunWaiting, WaitReason,
};
use crate::failure::Failure;
use crate::transitions::{Applied, IllegalTransition, run_may};
use serde::{Deserialize, Serialize};

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RunStatus {
    /// There is no plan yet.
    Planning,
    /// Steps are being carried out.
    Running,
    /// A person has to decide something.
    Waiting(WaitReason),
    /// A person paused it.
    Paused,
    /// Every step ended well.
    Completed,
    /// It ended without reaching its goal.
    Failed,
    /// A person ended it.
    Cancelled,
}

impl RunStatus {
    /// Nothing will happen any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The pursuit of one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 1.
    pub number: u32,
    /// What is to be reached; of a turn, the beginning of what the person says.
    pub goal: String,
    /// What makes it a turn of a conversation; none for a run with a plan.
    pub turn: Option<Turn>,
    /// Empty for the default model.
    pub model: String,
    /// Its agent, as it was when the run began; none for the plain default.
    pub agent: Option<AgentUse>,
    /// In force since the start.
    pub limits: RunLimits,
    /// The command that asked for it.
    pub command_seq: u64,
    /// The event that began it.
    pub first_seq: u64,
    /// The trace that it belongs to.
    pub trace_parent: String,
    /// A person who can answer questions follows it, as its client says.
    pub answers_questions: bool,
    /// The task that it stands for in another system; empty for none.
    pub external_id: String,
    /// What its models are told in addition; may be empty.
    pub note: String,
    /// What it is doing.
    pub status: RunStatus,
    /// The plan in force; none while planning.
    pub plan: Option<PlanState>,
    /// What it used of its budgets, and what it may use.
    pub spent: Spent,
    /// Requests for other plans, and proposals.
    pub revisions: Revisions,
    /// The failure of the first step of this plan that failed.
    pub first_failure: Option<Failure>,
    /// It is to fail with this, once what is under way has ended: a person refused to allow it more, or a hook
    /// blocked it. Nothing begins any more.
    pub ending: Option<Failure>,
    /// The hooks that it asks, and what it waits for from them.
    pub hooks: RunHooks,
    /// Counts starts and ends of steps and their notes, to order them.
    pub ticks: u64,
    /// When it began.
    pub started_at: u64,
    /// How it ended; as by default while it has not.
    pub end: End,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: Option<u64>,
    /// The event that ended it; 0 while it has not.
    pub seq: u64,
    /// Of a completed run: the summary of its last step.
    pub answer: String,
    /// Of a failed run: why.
    pub failure: Option<Failure>,
    /// Of a cancelled run: why.
    pub cancel_reason: String,
}

impl Run {
    /// Attempts under way, in the order of the plan.
    pub fn running_attempts(&self) -> impl Iterator<Item = (AttemptRef, &Step, &Attempt)> {
        let steps = self.plan.iter().flat_map(|plan| {
            let running = plan.running.iter();
            running.filter_map(|slot| Some((slot.number(), plan.steps.get(slot.index())?)))
        });
        steps.filter_map(|(number, step)| {
            let attempt = step.running()?;
            let name = AttemptRef {
                run: self.number,
                step: number,
                attempt: attempt.number,
            };
            Some((name, step, attempt))
        })
    }

    /// Events of others came to stand before those after `seq`.
    pub(super) fn renumber(&mut self, seq: u64, others: u64) {
        for own in [&mut self.first_seq, &mut self.end.seq] {
            if *own > seq {
                *own += others;
            }
        }
    }

    pub(super) fn plan_mut(&mut self) -> Result<&mut PlanState, IllegalTransition> {
        let number = self.number;
        self.plan
            .as_mut()
            .ok_or_else(|| IllegalTransition::missing(format_args!("plan of run {number}")))
    }

    pub(super) fn enter(&mut self, to: RunStatus) -> Applied {
        if !run_may(self.status, to) {
            let what = format_args!("run {}", self.number);
            return Err(IllegalTransition::not_allowed(what, self.status, to));
        }
        self.status = to;
        Ok(())
    }

    /// It is to fail with this, and nothing of it begins any more.
    pub(super) fn begin_ending(&mut self, failure: &Failure) {
        self.ending = Some(failure.clone());
        self.spent.asked = None;
        self.hooks.keep_ends();
    }

    fn end(&mut self, to: RunStatus, event: Envelope<'_>) -> Result<&mut End, IllegalTransition> {
        let before = self.status;
        self.enter(to)?;
        let plan = self.plan.as_ref();
        let is_open = plan.is_some_and(|plan| plan.open > 0);
        if plan.is_some_and(|plan| !plan.running.is_empty()) {
            let what = format_args!("run {}, whose steps are running", self.number);
            return Err(IllegalTransition::not_allowed(what, before, to));
        }
        if is_open && to == RunStatus::Completed {
            let what = format_args!("run {}, whose steps are open", self.number);
            return Err(IllegalTransition::not_allowed(what, before, to));
        }
        self.hooks.end();
        self.end = End {
            at: Some(event.at),
            seq: event.seq,
            ..End::default()
        };
        Ok(&mut self.end)
    }
}

impl Apply for RunStarted {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let is_next = self.run as usize == session.runs.len() + 1;
        if !is_next || session.active_run().is_some() {
            return Err(IllegalTransition::not_allowed(
                format_args!("run {}", self.run),
                "another run is active or the number is not the next",
                RunStatus::Planning,
            ));
        }
        session.check_agent(self.agent.as_ref())?;
        let (answers, turn) = (envelope.answers, self.turn.as_ref());
        let answers_questions = session.is_followed(self, answers);
        let start = session.start_command(answers);
        let external_id = start.map(|start| start.external_id.clone());
        let note = start.map(|start| start.note.clone());
        let command_seq = turn.map_or(answers, |turn| turn.command(answers));
        let turn = turn.map(|turn| Turn::started(turn, self.agent.as_ref(), answers, session));
        let turn = turn.transpose()?;
        let plan = turn.as_ref().map(|_| Turn::plan(self.run)).transpose()?;
        let status = match plan {
            Some(_) => RunStatus::Running,
            None => RunStatus::Planning,
        };
        // No person says what a compaction is about.
        let of_person = turn
            .as_ref()
            .filter(|turn| !matches!(turn.purpose, Purpose::Compact(_)));
        let name = of_person.map(Turn::name);
        session.runs.begin(Run {
            number: self.run,
            goal: name.unwrap_or_else(|| self.goal.clone()),
            turn,
            model: self.model.clone(),
            agent: self.agent.clone(),
            limits: self.limits,
            command_seq,
            first_seq: envelope.seq,
            trace_parent: self.trace_parent.clone(),
            answers_questions,
            external_id: external_id.unwrap_or_default(),
            note: note.unwrap_or_default(),
            status,
            plan,
            spent: Spent::new(&self.limits, envelope.at),
            revisions: Revisions::default(),
            first_failure: None,
            ending: None,
            hooks: RunHooks::of(self.hooks.clone()),
            ticks: 0,
            started_at: envelope.at,
            end: End::default(),
        });
        session.open_run();
        Ok(())
    }
}

/// What is asked of models ends with a pause.
impl Apply for RunPaused {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.run_mut(self.run)?.enter(RunStatus::Paused)?;
        session.drop_summaries(self.run)
    }
}

impl Apply for RunWaiting {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let waiting = RunStatus::Waiting(self.reason);
        session.run_mut(self.run)?.enter(waiting)
    }
}

impl Apply for RunResumed {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let run = session.run_mut(self.run)?;
        if run.status.is_terminal() {
            let what = format_args!("run {}", run.number);
            return Err(IllegalTransition::not_allowed(what, run.status, "resumed"));
        }
        run.enter(match run.plan {
            None => RunStatus::Planning,
            Some(_) => RunStatus::Running,
        })
    }
}

impl Apply for RunTakenOver {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let worked_at = session.worked_at;
        let run = session.run_mut(self.run)?;
        run.spent.exclude_absence(worked_at, envelope.at);
        Ok(())
    }
}

impl Apply for RunEnding {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.spend(self.run, &self.usage.unwrap_or_default())?;
        let run = session.run_mut(self.run)?;
        if run.status.is_terminal() {
            let what = format_args!("run {}", self.run);
            return Err(IllegalTransition::not_allowed(what, run.status, "ending"));
        }
        run.begin_ending(&self.failure);
        run.hooks.open_error(self.run);
        Ok(())
    }
}

impl Apply for RunCompleted {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let end = session
            .run_mut(self.run)?
            .end(RunStatus::Completed, envelope)?;
        end.answer.clone_from(&self.answer);
        session.note_end(self.run, self.kept_through, &self.results)
    }
}

impl Apply for RunFailed {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let end = session
            .run_mut(self.run)?
            .end(RunStatus::Failed, envelope)?;
        end.failure = Some(self.failure.clone());
        session.spend(self.run, &self.usage.unwrap_or_default())?;
        session.note_end(self.run, self.kept_through, &self.results)
    }
}

impl Apply for RunCancelled {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let end = session
            .run_mut(self.run)?
            .end(RunStatus::Cancelled, envelope)?;
        end.cancel_reason.clone_from(&self.reason);
        session.note_end(self.run, self.kept_through, &self.results)
    }
}
