//! Requests of conversations in which a turn kept its work, for the tests of the encoders.

use cairn_engine::command::{
    CancelRun, Command, Keep, RunLimits, SendMessage, SubmitTurn, TurnOptions, WhenBusy,
};
use cairn_engine::decide::{Agents, Compaction, Facts, Input, Reply, ToolFacts, ToolList};
use cairn_engine::event::{CallFinished, CallRef, CommandReceived, Effect, Event};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::PresentHooks;
use cairn_engine::message::{FinishReason, Message, ToolCall, Usage};
use cairn_engine::rules::{Answer, Rules};
use cairn_engine::session::Session;
use std::collections::BTreeMap;

/// The ways in which a turn ends early.
const ENDS: [&str; 4] = ["failed", "cancelled", "at its limit", "interrupted"];

/// What happens in the turn, in order: replies with calls, results by the index of the call, and a message of the
/// person.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Reply(&'static [&'static str]),
    Result(u32),
    Steer,
}

const MOMENTS: [Moment; 9] = [
    Moment::Reply(&["read", "send"]),
    Moment::Result(1),
    Moment::Result(0),
    Moment::Reply(&["put"]),
    Moment::Steer,
    Moment::Result(0),
    Moment::Reply(&["read", "read"]),
    Moment::Result(0),
    Moment::Result(1),
];

/// For each moment and each end: a name, and the messages of the next request.
pub(crate) fn requests() -> Vec<(String, Vec<Message>)> {
    let mut requests = Vec::new();
    for moments in 0..=MOMENTS.len() {
        for end in ENDS {
            let mut played = Played::new();
            MOMENTS[..moments]
                .iter()
                .for_each(|moment| played.play(*moment));
            played.end(end);
            requests.push((format!("{end} after {moments}"), played.request()));
        }
    }
    requests
}

struct Played {
    session: Session,
    tools: ToolList,
}

impl Played {
    fn new() -> Self {
        let tool = |effect| ToolFacts {
            effect,
            time_limit_ms: 1_000,
            default: Answer::Allow,
            ..ToolFacts::default()
        };
        let tools = [
            ("read", tool(Effect::Pure)),
            ("put", tool(Effect::Idempotent)),
            ("send", tool(Effect::Effectful)),
        ];
        let mut played = Self {
            session: Session::default(),
            tools: tools.map(|(name, facts)| (name.to_owned(), facts)).into(),
        };
        played.decide(Input::Create {
            title: "test".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: None,
        });
        played.command(SubmitTurn {
            message: Some(Message::user("Begin.")),
            options: TurnOptions {
                keep: Some(Keep::Complete),
                ..TurnOptions::default()
            },
            ..SubmitTurn::default()
        });
        played
    }

    fn decide(&mut self, input: Input) {
        let facts = Facts {
            rules: &Rules::default(),
            agents: &Agents::default(),
            prompts: cairn_engine::decide::Prompts::built_in(),
            environment: "",
            now: 1,
            not_after: 2,
            tools: &self.tools,
            away: &[],
            offered: &BTreeMap::new(),
            limits: RunLimits::default(),
            result_bytes: cairn_engine::limits::RESULT_BYTES,
            journal_permille: 0,
            compaction: Compaction::default(),
            responses: |_, _| Ok(String::new()),
            pool: cairn_engine::pool::PoolFacts::none(),
            hooks: &PresentHooks::default(),
            starts: true,
            starts_queued: true,
        };
        self.session.decide(input, &facts).expect("it is legal");
    }

    fn command(&mut self, command: impl Into<Command>) {
        let received = CommandReceived {
            request_id: "request".to_owned(),
            command: command.into(),
        };
        let event = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: received.into(),
        };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).expect("it fits");
        self.decide(Input::HandleCommand);
    }

    fn report(
        &mut self,
        results: Vec<CallFinished>,
        reply: Option<Reply>,
        failure: Option<Failure>,
    ) {
        let attempt = self.attempt();
        self.decide(Input::Report {
            attempt,
            results,
            unfinished: Vec::new(),
            reply,
            failure,
            full: None,
            summary: None,
            retry: None,
        });
    }

    fn attempt(&self) -> cairn_engine::event::AttemptRef {
        let run = self.session.active_run().expect("a turn");
        let (attempt, ..) = run.running_attempts().next().expect("a step");
        attempt
    }

    fn play(&mut self, moment: Moment) {
        let attempt = self.attempt();
        let running = self.session.attempt(attempt).expect("it runs");
        let (tool_turn, ops_through) = (running.tool_turns, running.newest_op());
        match moment {
            Moment::Reply(tools) => {
                // Models give the same ids again.
                let calls = tools.iter().enumerate().map(|(index, tool)| ToolCall {
                    id: format!("call_{index}"),
                    name: (*tool).to_owned(),
                    arguments: "{}".to_owned(),
                });
                let reply = Reply {
                    tool_turn,
                    text: String::new(),
                    calls: calls.collect(),
                    opaque: Vec::new(),
                    finish: FinishReason::ToolCalls,
                    usage: Usage::default(),
                    provider: "test".to_owned(),
                    model: "test".to_owned(),
                    duration_ms: 1,
                    ops_through,
                    estimated_tokens: 0,
                    window_tokens: 0,
                };
                self.report(Vec::new(), Some(reply), None);
            }
            Moment::Result(index) => {
                let call = CallRef {
                    attempt,
                    tool_turn: tool_turn - 1,
                    index,
                };
                let result = CallFinished {
                    call,
                    output: "seen".to_owned(),
                    is_error: false,
                    reason: String::new(),
                    duration_ms: 1,
                    media: Vec::new(),
                    whole: None,
                    file: None,
                    usage: None,
                    provider: String::new(),
                    model: String::new(),
                    held: false,
                };
                self.report(vec![result], None, None);
            }
            Moment::Steer => self.command(SendMessage {
                step: None,
                message: Message::user("Steer."),
            }),
        }
    }

    /// The turn ends, and another one begins.
    fn end(&mut self, end: &str) {
        let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
        match end {
            "failed" => self.report(Vec::new(), None, Some(failure)),
            "cancelled" => self.command(CancelRun::default()),
            "at its limit" => self.decide(Input::LimitReached { failure }),
            _ => {}
        }
        self.command(SubmitTurn {
            message: Some(Message::user("And now?")),
            when_busy: WhenBusy::Interrupt,
            ..SubmitTurn::default()
        });
    }

    fn request(&self) -> Vec<Message> {
        let attempt = self.attempt();
        let mut conversation = self.session.conversation(attempt).expect("it runs");
        let running = self.session.attempt(attempt).expect("it runs");
        for op in &running.waiting_ops {
            conversation.apply(op.clone()).expect("it fits");
        }
        let messages = conversation.messages().into_iter();
        messages.map(|message| (*message).clone()).collect()
    }
}
