//! Turns, contexts, and commands about a session.

use super::{ATTEMPT, Kinds, failure, unlimited};
use cairn_engine::command::{
    AtLimit, BridgeContext, CancelTurn, ChangeContext, Command, ContextCreated, ContextDestroyed,
    ContextOp, ContextSwitched, CreateContext, DestroyContext, Keep, ModeSet, QueuedTurnDropped,
    RenameSession, ResponseFormat, RevokeApproval, SendMessage, SessionRenamed, SetMode,
    SubmitTurn, SwitchContext, TurnOptions, TurnQueued, WhenBusy, WhenFull,
};
use cairn_engine::conversation::{
    ConversationRef, KnownLayer, Layer, LayerKind, MemoryMark, Op, Reminded, Reminder,
};
use cairn_engine::event::{self, CommandReceived, EventKind, StartedTurn};
use cairn_engine::failure::FailureKind;
use cairn_engine::message::{Media, Message, Notice, Opaque, Part, Role, ToolCall};
use cairn_engine::session::{Mode, StepNo};

const MARK: MemoryMark = MemoryMark {
    owner: 3,
    clients: 5,
};

fn layer() -> Layer {
    let text = "<session-context>\ntone: dry\n</session-context>";
    Layer {
        through: MARK,
        ..Layer::new(LayerKind::Memory, text)
    }
}

fn reminder(of: Reminded) -> Op {
    let text = "<system-reminder>\nchanged\n</system-reminder>".into();
    Op::Remind(Reminder { text, of })
}

/// A reply with a part of each kind that it may have.
fn reply() -> Message {
    let call = ToolCall {
        id: "toolu_1".into(),
        name: "look".into(),
        arguments: r#"{"what":"docs"}"#.into(),
    };
    let opaque = Opaque {
        provider: "anthropic".into(),
        model: "claude".into(),
        kind: "thinking".into(),
        json: r#"{"type":"thinking"}"#.into(),
    };
    let mut reply = Message::assistant("I look.", vec![call]);
    reply.parts.insert(0, Part::Opaque(opaque));
    reply
}

fn picture() -> Message {
    let media = Media {
        mime: "image/png".into(),
        data: vec![137, 80, 78, 71],
    };
    Message {
        role: Role::User,
        parts: vec![Part::Text("What is this?".into()), Part::Media(media)],
    }
}

/// A message of a person with a text of Cairn, and one of the workspace.
fn with_notices() -> Message {
    let mut message = Message::user("hello ");
    for (text, is_of_workspace) in [("note ", false), ("rules", true)] {
        let text = text.to_owned();
        message.parts.push(Part::Notice(Notice {
            text,
            is_of_workspace,
        }));
    }
    message
}

/// One change of each kind.
fn ops() -> Vec<Op> {
    let message = || Message::user("Which files mention Redis?");
    vec![
        Op::Append(reply()),
        Op::Append(Message::tool("toolu_1", "3 files", true)),
        Op::Update {
            number: 2,
            message: picture(),
        },
        Op::Insert {
            before: Some(1),
            message: message(),
        },
        Op::Remove { number: 3 },
        Op::Pop,
        Op::Retain(Role::Assistant),
        Op::Clear,
        Op::SetLayer(layer()),
        Op::UseLayer(KnownLayer {
            kind: LayerKind::Prompt,
            number: 2,
            through: MemoryMark::default(),
            names: Vec::new(),
        }),
        reminder(Reminded::Layer {
            kind: LayerKind::Environment,
            digest: "9f86d081".into(),
        }),
        reminder(Reminded::Memory {
            since: Some(MARK),
            through: MemoryMark { owner: 4, ..MARK },
        }),
        reminder(Reminded::Memory {
            since: None,
            through: MARK,
        }),
        Op::Notice("<system-reminder>\nnote\n</system-reminder>".into()),
    ]
}

/// The layer of the pool: new, and as it was before.
fn pool_layers() -> event::ContextChanged {
    let names = || vec!["file_ops".to_owned(), "web_search".to_owned()];
    let ops = vec![
        Op::SetLayer(Layer {
            names: names(),
            allotted: vec!["executor-research".into()],
            ..Layer::new(LayerKind::Pool, "## Current pool state\n- Total: 5")
        }),
        Op::UseLayer(KnownLayer {
            kind: LayerKind::Pool,
            number: 3,
            through: MemoryMark::default(),
            names: names(),
        }),
    ];
    event::ContextChanged {
        conversation: ConversationRef::Context("draft".into()),
        ops,
        version: 9,
        popped: None,
        is_steering: false,
    }
}

/// One change of each kind that a client makes.
fn context_ops() -> Vec<ContextOp> {
    let message = || Message::user("Which files mention Redis?");
    vec![
        ContextOp::Append(reply()),
        ContextOp::Update {
            index: 2,
            message: picture(),
        },
        ContextOp::Insert {
            index: 1,
            message: message(),
        },
        ContextOp::Remove { index: 3 },
        ContextOp::Pop,
        ContextOp::Retain(Role::Assistant),
        ContextOp::Clear,
        ContextOp::SetWindow(Some(20)),
        ContextOp::SetWindow(None),
    ]
}

pub(super) fn contexts() -> Kinds {
    let changed = event::ContextChanged {
        conversation: ConversationRef::Context("draft".into()),
        ops: ops(),
        version: 7,
        popped: Some(reply()),
        is_steering: false,
    };
    let instructions = Reminded::Layer {
        kind: LayerKind::Instructions,
        digest: "9f86d081".into(),
    };
    let noticed = event::ContextChanged {
        conversation: ConversationRef::Context("draft".into()),
        ops: vec![Op::Append(with_notices()), reminder(instructions)],
        version: 8,
        popped: None,
        is_steering: false,
    };
    let steered = event::ContextChanged {
        conversation: ConversationRef::Attempt(ATTEMPT),
        ops: vec![Op::Append(Message::user("in German"))],
        version: 0,
        popped: None,
        is_steering: true,
    };
    let name = || "draft".to_owned();
    vec![
        (
            "session_renamed",
            SessionRenamed {
                title: "Drafts".into(),
            }
            .into(),
        ),
        ("mode_set", ModeSet { mode: Mode::Plan }.into()),
        ("context_changed", changed.into()),
        ("context_changed.notice", noticed.into()),
        ("context_changed.steering", steered.into()),
        ("context_changed.pool", pool_layers().into()),
        (
            "context_created",
            ContextCreated {
                context: name(),
                agent: None,
            }
            .into(),
        ),
        (
            "context_switched",
            ContextSwitched { context: name() }.into(),
        ),
        (
            "context_destroyed",
            ContextDestroyed { context: name() }.into(),
        ),
    ]
}

pub(super) fn turns() -> Kinds {
    let started = event::RunStarted {
        run: 3,
        goal: String::new(),
        limits: unlimited(),
        model: "offline".into(),
        trace_parent: String::new(),
        turn: Some(StartedTurn {
            context: "draft".into(),
            queued: 40,
            turn_index: 2,
        }),
        agent: None,
        hooks: Vec::new(),
    };
    let dropped = |failure| QueuedTurnDropped {
        number: 40,
        reason: "not needed".into(),
        failure,
    };
    let full = failure(FailureKind::LimitExceeded, "LIMIT");
    vec![
        ("run_started.turn", started.into()),
        ("turn_queued", TurnQueued { number: 40 }.into()),
        ("queued_turn_dropped", dropped(None).into()),
        ("queued_turn_dropped.failure", dropped(Some(full)).into()),
    ]
}

fn submitted() -> SubmitTurn {
    SubmitTurn {
        context: "draft".into(),
        model: "offline".into(),
        message: Some(picture()),
        options: TurnOptions {
            temperature_milli: Some(700),
            max_output_tokens: Some(4_000),
            format: ResponseFormat::JsonSchema {
                name: "files".into(),
                schema: r#"{"type":"object"}"#.into(),
            },
            tools: Some(vec!["look".into(), "search_files".into()]),
            max_tool_turns: Some(3),
            when_full: Some(WhenFull::Refuse),
            ..TurnOptions::default()
        },
        when_busy: WhenBusy::Queue,
        trace_parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
        answers_questions: false,
    }
}

pub(super) fn received(id: &str, command: impl Into<Command>) -> EventKind {
    let (request_id, command) = (id.to_owned(), command.into());
    EventKind::from(CommandReceived {
        request_id,
        command,
    })
}

fn pairs() -> Vec<(String, String)> {
    vec![("tone".to_owned(), "dry".to_owned())]
}

pub(super) fn commands() -> Kinds {
    let cancel = CancelTurn {
        number: 40,
        reason: "not needed".into(),
    };
    let send = SendMessage {
        step: Some(StepNo::new(3)),
        message: Message::user("in German"),
    };
    let rename = RenameSession {
        title: "Drafts".into(),
    };
    let revoke = RevokeApproval { grant: 12 };
    let set_mode = SetMode {
        mode: Mode::AcceptEdits,
    };
    let plain = SubmitTurn {
        options: TurnOptions {
            when_full: Some(WhenFull::Refuse),
            ..TurnOptions::default()
        },
        ..SubmitTurn::default()
    };
    let kept = SubmitTurn {
        options: TurnOptions {
            keep: Some(Keep::Complete),
            at_limit: Some(AtLimit::Ask),
            max_turns: Some(500),
            ..TurnOptions::default()
        },
        answers_questions: true,
        ..SubmitTurn::default()
    };
    let submit = submitted();
    vec![
        ("command_received.submit_turn", received("q-30", submit)),
        (
            "command_received.submit_turn.plain",
            received("q-31", plain),
        ),
        ("command_received.submit_turn.kept", received("q-34", kept)),
        ("command_received.cancel_turn", received("q-32", cancel)),
        ("command_received.send_message", received("q-33", send)),
        ("command_received.rename_session", received("q-39", rename)),
        ("command_received.revoke_approval", received("q-40", revoke)),
        ("command_received.set_mode", received("q-50", set_mode)),
    ]
}

pub(super) fn of_contexts() -> Kinds {
    let name = || "draft".to_owned();
    let create = CreateContext {
        name: name(),
        prompt: "You write drafts.".into(),
        immutable: vec![Message::user("always")],
        window: Some(20),
        when_full: None,
        agent: String::new(),
    };
    let destroy = DestroyContext {
        context: name(),
        conclusions: pairs(),
        ask_model: true,
    };
    let bridge = BridgeContext {
        from: "main".into(),
        to: name(),
        values: pairs(),
    };
    let change = ChangeContext {
        context: name(),
        expected_version: Some(6),
        ops: context_ops(),
    };
    let switch = SwitchContext { context: name() };
    vec![
        ("command_received.create_context", received("q-34", create)),
        ("command_received.switch_context", received("q-35", switch)),
        (
            "command_received.destroy_context",
            received("q-36", destroy),
        ),
        ("command_received.bridge_context", received("q-37", bridge)),
        ("command_received.change_context", received("q-38", change)),
    ]
}
