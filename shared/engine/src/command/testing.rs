//! A session for the tests of commands.

use super::{Command, RunLimits, StartRun};
use crate::decide::{Agents, Facts, Input, ToolList, faults};
use crate::event::{CommandReceived, Event, EventKind};
use crate::failure::{Failure, FailureKind};
use crate::hooks::PresentHooks;
use crate::plan::{PlanDraft, StepDraft};
use crate::refusal::Refusal;
use crate::session::{Run, Session};
use std::collections::BTreeMap;

/// A session that commands are sent to.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) session: Session,
    /// The tools that there are; none by default.
    pub(crate) tools: ToolList,
    /// The agents that are known; none by default.
    pub(crate) agents: Agents,
    /// The hooks that there are; none by default.
    pub(crate) hooks: PresentHooks,
    pub(crate) now: u64,
}

impl Sent {
    /// A session in which nothing has happened.
    pub(crate) fn new() -> Self {
        let mut sent = Self {
            session: Session::default(),
            tools: ToolList::new(),
            agents: Agents::default(),
            hooks: PresentHooks::default(),
            now: 1,
        };
        sent.decide(Input::Create {
            title: "test".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: None,
        });
        sent
    }

    /// A session whose run has these steps, one after the other. The model of the first is at work.
    pub(crate) fn running(steps: &[&str]) -> Self {
        let mut sent = Self::new();
        sent.send(StartRun {
            plan: Some(plan(steps)),
            ..StartRun::default()
        });
        sent
    }

    /// The newest run.
    pub(crate) fn run(&self) -> &Run {
        self.session.runs.last().expect("a run")
    }

    /// The step that is at work fails, and its run with it.
    pub(crate) fn fail(&mut self) {
        let mut running = self.run().running_attempts();
        let (attempt, ..) = running.next().expect("a step at work");
        drop(running);
        self.decide(Input::Report {
            unfinished: Vec::new(),
            attempt,
            results: Vec::new(),
            reply: None,
            failure: Some(Failure::new(FailureKind::Other, "Test", "it fails")),
            full: None,
            summary: None,
            retry: None,
        });
    }

    /// The events that a command brings.
    pub(crate) fn send(&mut self, command: impl Into<Command>) -> Vec<EventKind> {
        self.receive(command);
        let events = self.decide(Input::HandleCommand);
        events.into_iter().map(|event| event.kind).collect()
    }

    /// A command waits for its answer.
    pub(crate) fn receive(&mut self, command: impl Into<Command>) {
        self.apply(CommandReceived {
            request_id: format!("request-{}", self.session.seq),
            command: command.into(),
        });
    }

    /// A client writes something into the journal.
    pub(crate) fn apply(&mut self, kind: impl Into<EventKind>) {
        let event = Event {
            at: self.now,
            answers: 0,
            principal: None,
            kind: kind.into(),
        };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).expect("it fits");
    }

    /// The reason why a command is refused; it has changed nothing else.
    pub(crate) fn refused(&mut self, command: impl Into<Command>) -> Refusal {
        let before = self.session.clone();
        let events = self.send(command);
        let [EventKind::CommandRefused(refused)] = &events[..] else {
            panic!("it was accepted: {events:?}");
        };
        assert_eq!(self.session.contexts, before.contexts);
        assert_eq!(self.session.active_context, before.active_context);
        assert_eq!(self.session.memory, before.memory);
        assert_eq!(self.session.runs, before.runs);
        refused.reason
    }

    /// Decides, and also with a fault after each of the events.
    pub(crate) fn decide(&mut self, input: Input) -> Vec<Event> {
        let facts = Facts {
            rules: crate::rules::Rules::none(),
            agents: &self.agents,
            prompts: crate::decide::Prompts::built_in(),
            environment: "",
            now: self.now,
            not_after: self.now,
            tools: &self.tools,
            away: &[],
            offered: &BTreeMap::new(),
            limits: RunLimits::default(),
            result_bytes: crate::limits::RESULT_BYTES,
            journal_permille: 0,
            compaction: crate::decide::Compaction::default(),
            responses: |_, _| Ok(String::new()),
            pool: crate::pool::PoolFacts::none(),
            hooks: &self.hooks,
            starts: true,
            starts_queued: true,
        };
        let (before, again) = (self.session.clone(), input.clone());
        let decided = self.session.decide(input, &facts);
        let events = decided.expect("it is legal");
        faults::check(&before, &again, &facts, events.len());
        events
    }
}

/// A plan of steps for a model.
pub(crate) fn plan(steps: &[&str]) -> PlanDraft {
    let step = |title: &&str| StepDraft {
        title: (*title).to_owned(),
        description: format!("do {title}"),
        ..StepDraft::default()
    };
    PlanDraft {
        steps: steps.iter().map(step).collect(),
        ..PlanDraft::default()
    }
}
