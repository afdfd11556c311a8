//! A session with its journal, and short words for what happens to it.

pub(crate) mod growth;
pub(crate) mod notation;
mod reading;
pub(crate) mod stages;
pub(crate) mod table;
mod words;

use cairn_engine::command::{self, Command, LimitOverrides, RunLimits, Settlement, StartRun};
use cairn_engine::decide::{
    Agents, Away, Compaction, Facts, Input, Prompts, ToolFacts, ToolList, Unfinished,
};
use cairn_engine::event::{self, AttemptRef, CallFinished, CallRef, Effect, Event, EventKind};
use cairn_engine::failure::Failure;
use cairn_engine::hooks::PresentHooks;
use cairn_engine::message::ToolCall;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::pool::PoolFacts;
use cairn_engine::rules::{Answer, Rules};
use cairn_engine::session::{Call, CallStatus, Run, Session, StepNo, StepStatus};
use cairn_engine::transitions::IllegalTransition;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use reading::{explored, fold, kinds, run_of, step_context};
pub(crate) use words::{
    after, chain, complete, finished, graph, hooked, long, look, model_step, report_reply, send,
    step_call, tool_call, tool_step, with_goal,
};

/// How long after now a call may still be sent.
pub(crate) const LEASE: u64 = 12_000;
/// How long a call may run.
pub(crate) const TIME_LIMIT: u64 = 30_000;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) journal: Vec<Event>,
    pub(crate) now: u64,
    pub(crate) tools: ToolList,
    /// Sources whose tools are not known; none by default.
    pub(crate) away: Vec<Away>,
    /// What the starts of attempts offered; nothing by default.
    pub(crate) offered: BTreeMap<AttemptRef, Arc<ToolList>>,
    pub(crate) rules: Rules,
    /// The agents that are known; none by default.
    pub(crate) agents: Agents,
    /// What models are told of their work; the built-in prompts by default.
    pub(crate) prompts: Prompts,
    pub(crate) limits: RunLimits,
    /// The pool; nothing is known of it by default.
    pub(crate) pool: PoolFacts,
    /// The hooks; none by default.
    pub(crate) hooks: PresentHooks,
    /// How full the journal is; 0 by default.
    pub(crate) journal_permille: u32,
    /// The owner is not about to let go.
    pub(crate) starts: bool,
    /// The hooks are known to the owner.
    pub(crate) starts_queued: bool,
}

impl World {
    /// A session without a run. Its tools: `look` is pure, `put` idempotent, `send` effectful and
    /// remote, `exec` effectful and in the tools process. `pay` is effectful and `peek` pure, and both
    /// need approval.
    pub(crate) fn new() -> Self {
        let tool = |effect, in_process| ToolFacts {
            effect,
            time_limit_ms: TIME_LIMIT,
            in_process,
            default: Answer::Allow,
            ..ToolFacts::default()
        };
        let asking = |effect| ToolFacts {
            default: Answer::Ask,
            ..tool(effect, true)
        };
        let tools = [
            ("look", tool(Effect::Pure, true)),
            ("put", tool(Effect::Idempotent, true)),
            ("send", tool(Effect::Effectful, false)),
            ("exec", tool(Effect::Effectful, true)),
            ("pay", asking(Effect::Effectful)),
            ("peek", asking(Effect::Pure)),
        ];
        let mut world = Self {
            session: Session::default(),
            journal: Vec::new(),
            now: 1_705_329_025_000,
            tools: tools.map(|(name, facts)| (name.to_owned(), facts)).into(),
            away: Vec::new(),
            offered: BTreeMap::new(),
            rules: Rules::default(),
            agents: Agents::default(),
            prompts: Prompts::built_in().clone(),
            limits: RunLimits::default(),
            pool: PoolFacts::default(),
            hooks: PresentHooks::default(),
            journal_permille: 0,
            starts: true,
            starts_queued: true,
        };
        world.decide(Input::Create {
            title: "test".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: None,
        });
        world
    }

    /// A session that carries out `plan`.
    pub(crate) fn with_plan(plan: PlanDraft) -> Self {
        let mut world = Self::new();
        world.start(plan);
        world
    }

    pub(crate) fn start(&mut self, plan: PlanDraft) {
        self.command(Command::StartRun(StartRun {
            goal: "the goal".to_owned(),
            plan: Some(plan),
            trace_parent: "00-abc123-0-01".to_owned(),
            ..StartRun::default()
        }));
    }

    pub(crate) fn start_with(&mut self, plan: PlanDraft, limits: LimitOverrides) {
        self.command(Command::StartRun(StartRun {
            goal: "the goal".to_owned(),
            plan: Some(plan),
            limits,
            ..StartRun::default()
        }));
    }

    pub(crate) fn try_decide(&mut self, input: Input) -> Result<Vec<Event>, IllegalTransition> {
        let facts = Facts {
            rules: &self.rules,
            agents: &self.agents,
            prompts: &self.prompts,
            environment: "",
            now: self.now,
            not_after: self.now + LEASE,
            tools: &self.tools,
            away: &self.away,
            offered: &self.offered,
            limits: self.limits,
            result_bytes: cairn_engine::limits::RESULT_BYTES,
            journal_permille: self.journal_permille,
            compaction: Compaction::default(),
            responses: words::responses,
            pool: &self.pool,
            hooks: &self.hooks,
            starts: self.starts,
            starts_queued: self.starts_queued,
        };
        let events = self.session.decide(input, &facts)?;
        self.journal.extend(events.iter().cloned());
        Ok(events)
    }

    /// Calls of the run whose outcome is not known.
    pub(crate) fn in_doubt(&self) -> usize {
        let attempts = self.run().running_attempts();
        let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        let in_doubt = |call: &Call| matches!(call.status, CallStatus::InDoubt { .. });
        calls.filter(|(_, call)| in_doubt(call)).count()
    }

    pub(crate) fn decide(&mut self, input: Input) -> Vec<Event> {
        self.try_decide(input).unwrap()
    }

    /// What somebody else writes into the journal.
    pub(crate) fn foreign(&mut self, kind: EventKind) {
        let event = Event {
            at: self.now,
            answers: 0,
            principal: None,
            kind,
        };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).unwrap();
        self.journal.push(event);
    }

    /// Receives a command and answers it.
    pub(crate) fn command(&mut self, command: Command) -> Vec<Event> {
        self.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: format!("request-{}", self.session.seq),
            command,
        }));
        self.decide(Input::HandleCommand)
    }

    pub(crate) fn answer(&mut self, pending_id: &str, settlement: Settlement) -> Vec<Event> {
        self.command(Command::Decide(command::Decide {
            pending_id: pending_id.to_owned(),
            settlement,
        }))
    }

    /// The model replies in the attempt at `step` that is under way.
    pub(crate) fn reply(
        &mut self,
        step: impl Into<StepNo>,
        text: &str,
        calls: &[ToolCall],
    ) -> Vec<Event> {
        let attempt = self.attempt(step);
        let running = self.session.attempt(attempt).unwrap();
        let seen = (running.tool_turns, running.newest_op());
        self.decide(report_reply(attempt, seen, text, calls))
    }

    /// The call at `index` of the last tool turn has ended well.
    pub(crate) fn result(&mut self, step: u32, index: u32, output: &str) -> Vec<Event> {
        let result = self.finished(step, index, output, "");
        self.report(step, vec![result])
    }

    pub(crate) fn error(&mut self, step: u32, index: u32, reason: &str) -> Vec<Event> {
        let result = self.finished(step, index, "it went wrong", reason);
        self.report(step, vec![result])
    }

    pub(crate) fn report(
        &mut self,
        step: impl Into<StepNo>,
        results: Vec<CallFinished>,
    ) -> Vec<Event> {
        self.decide(Input::Report {
            unfinished: Vec::new(),
            attempt: self.attempt(step),
            results,
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: None,
        })
    }

    /// What an executor reports of a call of the last tool turn that has not ended.
    pub(crate) fn unfinished(&mut self, step: impl Into<StepNo>, call: Unfinished) -> Vec<Event> {
        self.decide(Input::Report {
            attempt: self.attempt(step),
            results: Vec::new(),
            unfinished: vec![call],
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: None,
        })
    }

    pub(crate) fn fail(&mut self, step: impl Into<StepNo>, failure: Failure) -> Vec<Event> {
        self.decide(Input::Report {
            unfinished: Vec::new(),
            attempt: self.attempt(step),
            results: Vec::new(),
            reply: None,
            failure: Some(failure),
            full: None,
            summary: None,
            retry: None,
        })
    }

    /// The model ends its step.
    pub(crate) fn complete(&mut self, step: u32, summary: &str) -> Vec<Event> {
        self.reply(step, "", &[complete(summary)])
    }

    fn finished(&self, step: u32, index: u32, output: &str, reason: &str) -> CallFinished {
        let call = self.call(step, index);
        finished(call, output, reason)
    }

    /// The name of a call of the last tool turn.
    pub(crate) fn call(&self, step: impl Into<StepNo>, index: u32) -> CallRef {
        let attempt = self.attempt(step);
        let turns = self.session.attempt(attempt).unwrap().tool_turns as usize;
        CallRef {
            attempt,
            tool_turn: turns as u32 - 1,
            index,
        }
    }

    /// The name of the attempt at `step` that is under way, or would be the last one.
    pub(crate) fn attempt(&self, step: impl Into<StepNo>) -> AttemptRef {
        let step = step.into();
        let run = self.session.runs.len() as u32;
        let found = self.session.step(AttemptRef {
            run,
            step,
            attempt: 0,
        });
        AttemptRef {
            run,
            step,
            attempt: found.unwrap().attempts,
        }
    }

    pub(crate) fn run(&self) -> &Run {
        self.session.runs.last().unwrap()
    }

    pub(crate) fn status(&self, step: u32) -> &StepStatus {
        &self.session.step(self.attempt(step)).unwrap().status
    }

    pub(crate) fn running(&self) -> Vec<u32> {
        let attempts = self.run().running_attempts();
        attempts.map(|(name, ..)| name.step.into()).collect()
    }

    /// The output of a finished call of the last tool turn, and whether it tells of a failure.
    pub(crate) fn reported(events: &[Event]) -> Vec<(String, bool)> {
        let finished = events.iter().filter_map(|event| match &event.kind {
            EventKind::CallFinished(it) => Some((it.output.clone(), it.is_error)),
            _ => None,
        });
        finished.collect()
    }

    pub(crate) fn outstanding(&self) -> Vec<Work> {
        self.session.outstanding()
    }

    /// The journal folded from its start.
    pub(crate) fn folded(&self) -> Session {
        fold(&self.journal)
    }
}
