//! What happens in an attempt: replies with their calls, and changes of its conversation.

use crate::bench::{Asked, Called, reply};
use cairn_engine::conversation::{Layer, LayerKind, MemoryMark, Op, Reminded, Reminder};
use cairn_engine::message::{Media, Message, Opaque, Part, Role, ToolCall};
use cairn_model::ChatReply;
use cairn_proto::event::CallMedia;
use cairn_proto::tools::ToolResult;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// The model of both providers.
pub(super) const MODEL: &str = "m";

/// A call of `look` begins early, one of `peek` waits for an approval, and one of `ask_person` for an
/// answer. The owner answers the last four; `step` refuses the arguments, and `dig` is unknown.
const TOOLS: [&str; 8] = [
    "look",
    "peek",
    "put",
    "send",
    "ask_person",
    "session_memory_set",
    "step",
    "dig",
];

#[derive(Debug, Clone)]
pub(super) struct Script {
    /// The attempt is a turn of a conversation; otherwise a step of a plan.
    pub(super) is_conversation: bool,
    /// The executor reports each request before it asks the model.
    pub(super) reports_requests: bool,
    pub(super) turns: Vec<ToolTurn>,
}

/// A reply with its calls, and the changes that become durable at that time.
#[derive(Debug, Clone)]
pub(super) struct ToolTurn {
    model_ms: u64,
    parts: Vec<Piece>,
    while_asked: Option<Change>,
    while_called: Option<Change>,
}

/// A part of a reply.
#[derive(Debug, Clone)]
enum Piece {
    Text,
    /// Only this provider can read it.
    Thought(&'static str),
    Call {
        tool: &'static str,
        ms: u64,
    },
}

/// A change of the conversation that follows from no reply and no result.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// A person sends a message.
    Steering(Message),
    /// The owner makes it.
    Op(Op),
}

/// What a tool turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Model,
    Calls,
}

/// The number of a tool turn, and what it waits for.
pub(super) type Moment = (usize, Phase);

impl Script {
    /// All changes with their moments, in order.
    pub(super) fn changes(&self) -> impl Iterator<Item = (Moment, &Change)> {
        let turns = self.turns.iter().enumerate();
        turns.flat_map(|(at, turn)| {
            let asked = turn.while_asked.iter();
            let asked = asked.map(move |change| ((at, Phase::Model), change));
            let called = turn.while_called.iter();
            asked.chain(called.map(move |change| ((at, Phase::Calls), change)))
        })
    }
}

impl ToolTurn {
    /// Answers the question for this reply, which has the number `turn`, after the model's time.
    pub(super) fn answer(&self, turn: usize, asked: Asked) {
        let (reply, time) = (self.reply(turn), Duration::from_millis(self.model_ms));
        tokio::spawn(async move {
            sleep(time).await;
            asked.answer(Ok(reply));
        });
    }

    fn reply(&self, turn: usize) -> ChatReply {
        let parts = self.parts.iter().enumerate();
        let parts = parts.map(|(at, piece)| {
            let name = format!("{turn}.{at}");
            match piece {
                Piece::Text => Part::Text(format!("Idée {name}. ")),
                Piece::Thought(provider) => Part::Opaque(thought(provider, &name)),
                Piece::Call { tool, ms } => Part::Call(ToolCall {
                    // Another reply may have the same id.
                    id: format!("id-{at}"),
                    name: (*tool).to_owned(),
                    arguments: arguments(tool, &name, *ms),
                }),
            }
        });
        let mut whole = ChatReply {
            message: Message {
                role: Role::Assistant,
                parts: parts.collect(),
            },
            ..reply("", &[])
        };
        whole.usage.input_tokens = 1_000 * (turn as u64 + 1);
        whole
    }
}

fn thought(provider: &str, name: &str) -> Opaque {
    let (kind, json) = match provider {
        "anthropic" => {
            let json = json!({"type": "thinking", "thinking": name, "signature": "c2ln"});
            ("thinking", json)
        }
        _ => ("reasoning_content", json!(name)),
    };
    Opaque {
        provider: provider.to_owned(),
        model: MODEL.to_owned(),
        kind: kind.to_owned(),
        json: json.to_string(),
    }
}

/// No two calls of a script have the same.
fn arguments(tool: &str, name: &str, ms: u64) -> String {
    let arguments = match tool {
        "ask_person" => json!({"question": name}),
        "session_memory_set" => json!({"key": "pool", "value": name}),
        _ => json!({"call": name, "ms": ms}),
    };
    arguments.to_string()
}

/// Answers a call after the time that its arguments name. Some calls fail, and some results have media.
pub(super) fn carry_out_call(called: Called) {
    let arguments: Value = serde_json::from_str(&called.request.arguments_json).expect("JSON");
    let ms = arguments["ms"].as_u64().expect("a time");
    let is_error = ms.is_multiple_of(3);
    let result = ToolResult {
        output: format!("{} of {arguments}", called.request.name),
        is_error,
        reason: if is_error { "ExecutionFailed" } else { "" }.to_owned(),
        media: media(ms),
        ..ToolResult::default()
    };
    tokio::spawn(async move {
        sleep(Duration::from_millis(ms)).await;
        // The attempt may have ended before its last call.
        if !called.is_dropped() {
            called.answer(Ok(result));
        }
    });
}

/// None, a picture, or a picture and a file that no model gets.
fn media(ms: u64) -> Vec<CallMedia> {
    let of = |mime_type: &str, data: Vec<u8>| CallMedia {
        mime_type: mime_type.to_owned(),
        data,
        ..CallMedia::default()
    };
    let picture = || of("image/png", png(ms as u8));
    match ms % 4 {
        0 => vec![picture()],
        1 => vec![of("application/zip", vec![1, 2, 3]), picture()],
        _ => Vec::new(),
    }
}

/// The beginning of a picture, which is all that is looked at.
fn png(number: u8) -> Vec<u8> {
    let begin = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
    [begin, &[0, 0, 1, number, 0, 0, 0, 9]].concat()
}

/// The messages of a context before its turn: among them a call without a result, and a result without
/// a call.
pub(super) fn earlier() -> Vec<Message> {
    let look = Piece::Call {
        tool: "look",
        ms: 0,
    };
    let before = ToolTurn {
        model_ms: 0,
        parts: vec![Piece::Thought("anthropic"), Piece::Text, look],
        while_asked: None,
        while_called: None,
    };
    vec![
        person_says(200, true),
        before.reply(200).message,
        Message::tool("gone", "an old output", false),
    ]
}

/// A message of a person, with a picture or without.
pub(super) fn person_says(number: u8, has_picture: bool) -> Message {
    let mut message = Message::user(format!("Message {number}."));
    if has_picture {
        message.parts.push(Part::Media(Media {
            mime: "image/png".to_owned(),
            data: vec![number],
        }));
    }
    message
}

pub(super) fn script() -> impl Strategy<Value = Script> {
    let kind = (any::<bool>(), any::<bool>());
    kind.prop_flat_map(|(is_conversation, reports_requests)| {
        let turns = prop::collection::vec(tool_turn(is_conversation), 1..4);
        turns.prop_map(move |turns| Script {
            is_conversation,
            reports_requests,
            turns,
        })
    })
}

fn tool_turn(is_conversation: bool) -> impl Strategy<Value = ToolTurn> {
    let call = (select(TOOLS.to_vec()), 0..50_u64);
    let piece = prop_oneof![
        2 => Just(Piece::Text),
        2 => select(vec!["anthropic", "openai"]).prop_map(Piece::Thought),
        3 => call.prop_map(|(tool, ms)| Piece::Call { tool, ms }),
    ];
    let changed = || prop::option::weighted(0.4, change(is_conversation));
    let parts = prop::collection::vec(piece, 0..6);
    let turn = (0..50_u64, parts, changed(), changed());
    turn.prop_map(move |(model_ms, mut parts, while_asked, while_called)| {
        let has_calls = parts
            .iter()
            .any(|piece| matches!(piece, Piece::Call { .. }));
        let is_empty = parts.iter().all(|piece| matches!(piece, Piece::Thought(_)));
        // A reply without calls ends a turn of a conversation.
        if is_conversation && !has_calls {
            parts.push(Piece::Call {
                tool: "look",
                ms: 7,
            });
        } else if is_empty {
            // The model would be asked again for a reply without text and calls.
            parts.push(Piece::Text);
        }
        ToolTurn {
            model_ms,
            parts,
            while_asked,
            while_called,
        }
    })
}

fn change(is_conversation: bool) -> BoxedStrategy<Change> {
    let message = || (0..100_u8, any::<bool>()).prop_map(|(at, media)| person_says(at, media));
    let kinds = [
        LayerKind::Context,
        LayerKind::Environment,
        LayerKind::Memory,
    ];
    let layer = || {
        let kinds = select(kinds.to_vec());
        (kinds, 0..100_u8).prop_map(|(kind, number)| Layer::new(kind, format!("Layer {number}.")))
    };
    let reminder = || {
        layer().prop_map(|layer| Reminder {
            text: format!("Other words: {}", layer.text),
            of: match layer.kind {
                LayerKind::Memory => Reminded::Memory {
                    since: None,
                    through: MemoryMark::default(),
                },
                kind => Reminded::Layer {
                    kind,
                    digest: layer.text.to_string(),
                },
            },
        })
    };
    let notice = (0..100_u8).prop_map(|number| format!("Notice {number}."));
    let of_any = prop_oneof![
        3 => message().prop_map(Change::Steering),
        1 => message().prop_map(|message| Change::Op(Op::Append(message))),
        1 => reminder().prop_map(|reminder| Change::Op(Op::Remind(reminder))),
        1 => notice.prop_map(|text| Change::Op(Op::Notice(text))),
    ];
    // The engine writes no layer in a turn of a conversation.
    if is_conversation {
        return of_any.boxed();
    }
    prop_oneof![
        6 => of_any,
        1 => layer().prop_map(|layer| Change::Op(Op::SetLayer(layer))),
    ]
    .boxed()
}
