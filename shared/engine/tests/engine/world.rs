//! A session with its journal, and short words for what happens to it.

use cairn_engine::command::{Command, LimitOverrides, RunLimits, Settlement, StartRun};
use cairn_engine::decide::{Facts, Input, Reply, ToolFacts};
use cairn_engine::event::{AttemptRef, CallFinished, CallRef, Effect, Event, EventKind};
use cairn_engine::failure::Failure;
use cairn_engine::message::{ToolCall, Usage};
use cairn_engine::outstanding::Work;
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use cairn_engine::state::{Run, Session, StepStatus};
use cairn_engine::transitions::IllegalTransition;
use cairn_engine::views::log::Log;
use cairn_engine::views::tree::Tree;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How long after now a call may still be sent.
pub(crate) const LEASE: u64 = 12_000;
/// How long a call may run.
pub(crate) const TIME_LIMIT: u64 = 30_000;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) journal: Vec<Event>,
    pub(crate) now: u64,
    pub(crate) tools: BTreeMap<String, ToolFacts>,
    pub(crate) limits: RunLimits,
}

impl World {
    /// A session without a run. Its tools: `look` is pure, `put` idempotent, `send` effectful and
    /// remote, `exec` effectful and in the tools process.
    pub(crate) fn new() -> Self {
        let tool = |effect, in_process| ToolFacts {
            effect,
            time_limit_ms: TIME_LIMIT,
            in_process,
        };
        let tools = [
            ("look", tool(Effect::Pure, true)),
            ("put", tool(Effect::Idempotent, true)),
            ("send", tool(Effect::Effectful, false)),
            ("exec", tool(Effect::Effectful, true)),
        ];
        let mut world = Self {
            session: Session::default(),
            journal: Vec::new(),
            now: 1_705_329_025_000,
            tools: tools.map(|(name, facts)| (name.to_owned(), facts)).into(),
            limits: RunLimits::default(),
        };
        world.decide(Input::Create {
            title: "test".to_owned(),
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
            now: self.now,
            not_after: self.now + LEASE,
            tools: &self.tools,
            limits: self.limits,
        };
        let events = self.session.decide(input, &facts)?;
        self.journal.extend(events.iter().cloned());
        Ok(events)
    }

    pub(crate) fn decide(&mut self, input: Input) -> Vec<Event> {
        self.try_decide(input).unwrap()
    }

    /// What somebody else writes into the journal.
    pub(crate) fn foreign(&mut self, kind: EventKind) {
        let event = Event { at: self.now, kind };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).unwrap();
        self.journal.push(event);
    }

    /// Receives a command and answers it.
    pub(crate) fn command(&mut self, command: Command) -> Vec<Event> {
        self.foreign(EventKind::CommandReceived {
            request_id: format!("request-{}", self.session.seq),
            command,
        });
        self.decide(Input::HandleCommand)
    }

    pub(crate) fn answer(&mut self, pending_id: &str, settlement: Settlement) -> Vec<Event> {
        self.command(Command::Decide {
            pending_id: pending_id.to_owned(),
            settlement,
        })
    }

    /// The model replies in the attempt at `step` that is under way.
    pub(crate) fn reply(&mut self, step: u32, text: &str, calls: &[ToolCall]) -> Vec<Event> {
        let attempt = self.attempt(step);
        let turn = self.session.attempt(attempt).unwrap().turns.len();
        self.decide(report_reply(attempt, turn as u32, text, calls))
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

    pub(crate) fn report(&mut self, step: u32, results: Vec<CallFinished>) -> Vec<Event> {
        self.decide(Input::Report {
            attempt: self.attempt(step),
            results,
            reply: None,
            failure: None,
        })
    }

    pub(crate) fn fail(&mut self, step: u32, failure: Failure) -> Vec<Event> {
        self.decide(Input::Report {
            attempt: self.attempt(step),
            results: Vec::new(),
            reply: None,
            failure: Some(failure),
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
    pub(crate) fn call(&self, step: u32, index: u32) -> CallRef {
        let attempt = self.attempt(step);
        let turns = self.session.attempt(attempt).unwrap().turns.len();
        CallRef {
            attempt,
            tool_turn: turns as u32 - 1,
            index,
        }
    }

    /// The name of the attempt at `step` that is under way, or would be the last one.
    pub(crate) fn attempt(&self, step: u32) -> AttemptRef {
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
        attempts.map(|(name, ..)| name.step).collect()
    }

    /// The output of a finished call of the last tool turn, and whether it tells of a failure.
    pub(crate) fn told(events: &[Event]) -> Vec<(String, bool)> {
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

/// Folds a journal from its start.
pub(crate) fn fold(journal: &[Event]) -> Session {
    let mut session = Session::default();
    for (event, seq) in journal.iter().zip(1..) {
        session.apply(seq, event).unwrap();
    }
    session
}

pub(crate) fn report_reply(
    attempt: AttemptRef,
    tool_turn: u32,
    text: &str,
    calls: &[ToolCall],
) -> Input {
    Input::Report {
        attempt,
        results: Vec::new(),
        reply: Some(Reply {
            tool_turn,
            text: text.to_owned(),
            calls: calls.to_vec(),
            usage: Usage {
                input_tokens: 100,
                output_tokens: 10,
                cost_nano_usd: 2_500_000,
                model_calls: 1,
            },
            model: "test-model".to_owned(),
            duration_ms: 700,
        }),
        failure: None,
    }
}

/// An empty reason makes a result that tells of no failure.
pub(crate) fn finished(call: CallRef, output: &str, reason: &str) -> CallFinished {
    CallFinished {
        call,
        output: output.to_owned(),
        is_error: !reason.is_empty(),
        reason: reason.to_owned(),
        duration_ms: 50,
    }
}

pub(crate) fn tool_call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: format!("id-{name}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}

pub(crate) fn step_call(arguments: &Value) -> ToolCall {
    tool_call("step", arguments)
}

pub(crate) fn complete(summary: &str) -> ToolCall {
    step_call(&json!({"complete": true, "summary": summary}))
}

pub(crate) fn look() -> ToolCall {
    tool_call("look", &json!({"path": "notes.md"}))
}

pub(crate) fn send() -> ToolCall {
    tool_call("send", &json!({"to": "somebody"}))
}

/// A step for the model.
pub(crate) fn model_step(title: &str) -> StepDraft {
    StepDraft {
        title: title.to_owned(),
        description: format!("Do {title}."),
        ..StepDraft::default()
    }
}

/// A step that is one call.
pub(crate) fn tool_step(title: &str, tool: &str) -> StepDraft {
    StepDraft {
        title: title.to_owned(),
        tool: Some(ToolInvocation {
            name: tool.to_owned(),
            arguments: r#"{"path":"notes.md"}"#.to_owned(),
        }),
        ..StepDraft::default()
    }
}

pub(crate) fn after(mut step: StepDraft, depends_on: &[&str]) -> StepDraft {
    step.depends_on = depends_on.iter().map(|&id| id.to_owned()).collect();
    step
}

pub(crate) fn chain(steps: Vec<StepDraft>) -> PlanDraft {
    PlanDraft {
        order: Order::Chain,
        steps,
    }
}

pub(crate) fn graph(steps: Vec<StepDraft>) -> PlanDraft {
    PlanDraft {
        order: Order::Graph,
        steps,
    }
}

/// The names of the events' kinds, as far as they matter for their order.
pub(crate) fn kinds(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| {
        let text = format!("{:?}", event.kind);
        let end = text.find([' ', '(', '{']).unwrap_or(text.len());
        text[..end].to_owned()
    };
    events.iter().map(name).collect()
}

/// The run that an event is about; none for what concerns the session.
pub(crate) fn run_of(event: &Event) -> Option<u32> {
    use EventKind as E;
    match &event.kind {
        E::RunStarted { run, .. }
        | E::PlanApplied { run, .. }
        | E::RunWaiting { run, .. }
        | E::RunResumed { run }
        | E::BudgetRaised { run, .. }
        | E::RunCompleted { run, .. }
        | E::RunFailed { run, .. }
        | E::RunCancelled { run, .. }
        | E::StepSkipped { run, .. } => Some(*run),
        E::StepStarted { attempt, .. }
        | E::AttemptContinued { attempt }
        | E::StepCompleted { attempt, .. }
        | E::StepFailed { attempt, .. }
        | E::SubGoalAdded { attempt, .. }
        | E::SubGoalFocused { attempt, .. }
        | E::SubGoalCompleted { attempt, .. }
        | E::ScratchpadWritten { attempt, .. } => Some(attempt.run),
        E::ReplyReceived(reply) => Some(reply.attempt.run),
        E::CallFinished(finished) => Some(finished.call.attempt.run),
        E::CallIntended { call, .. }
        | E::CallInDoubt { call, .. }
        | E::Decided { call, .. }
        | E::CallSettled { call, .. } => Some(call.attempt.run),
        _ => None,
    }
}

/// The views of a world's journal.
pub(crate) fn tree(world: &World) -> Tree {
    let mut tree = Tree::default();
    for (event, seq) in world.journal.iter().zip(1..) {
        tree.apply(seq, event);
    }
    tree
}

pub(crate) fn log(world: &World) -> Log {
    let mut log = Log::default();
    for (event, seq) in world.journal.iter().zip(1..) {
        log.apply(seq, event);
    }
    log
}

/// A run that shows everything: a planner, thoughts, parallel calls, parts of a step, a tool step,
/// and a step that is still under way.
pub(crate) fn explored() -> World {
    let mut world = World::new();
    world.command(Command::StartRun(StartRun {
        goal: "Change the configuration".to_owned(),
        ..StartRun::default()
    }));
    world.now += 1_000;
    world.planned(Ok(chain(vec![
        model_step("Explore"),
        tool_step("Count", "look"),
        model_step("Change"),
        model_step("Test"),
    ])));
    world.now += 1_000;
    let send = tool_call("send", &json!({"to": "ops", "lines": 3, "tags": ["a"]}));
    world.reply(1, "I need the layout first. Then more.", &[look(), send]);
    world.now += 1_000;
    world.result(1, 0, "15 files\nsrc/main.rs");
    world.error(1, 1, "ExecutionFailed");
    world.reply(
        1,
        "",
        &[step_call(&json!({"plan": ["Read it"], "focus": "Read it"}))],
    );
    world.reply(1, "", &[look()]);
    world.result(1, 0, "host = db");
    world.reply(
        1,
        "",
        &[step_call(
            &json!({"complete": true, "summary": "The host is db."}),
        )],
    );
    world.now += 1_000;
    world.reply(1, "All is known.", &[complete("The file is src/config.")]);
    world.now += 500;
    world.result(2, 0, "31 lines");
    world.reply(3, "Now I change it.", &[look()]);
    world
}
