//! Messages, conversations and replies.

use super::turns::when_full;
use super::{attempt, compaction, effect, text};
use cairn_engine::command::ContextOp;
use cairn_engine::conversation::{
    Conversation, ConversationRef, Entry, KnownLayer, Layer, LayerKind, Measured, MemoryMark, Op,
    Reminded, Reminder,
};
use cairn_engine::decide::Reply;
use cairn_engine::event::{
    ContextChanged, EventKind, MemoryWriter, NotesFrame, ReplyReceived, RequestedCall,
};
use cairn_engine::message::{
    FinishReason, Media, Message, Notice, Opaque, Part, PlacedOpaque, Role, ToolCall, ToolResult,
    Usage,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

pub(crate) fn usage() -> impl Strategy<Value = Usage> {
    any::<([u64; 7], u32)>().prop_map(|(tokens, model_calls)| {
        let [input, cached, written, output, reasoning, cost, unpriced] = tokens;
        Usage {
            input_tokens: input,
            cached_input_tokens: cached,
            cache_write_tokens: written,
            output_tokens: output,
            reasoning_tokens: reasoning,
            cost_nano_usd: cost,
            unpriced_tokens: unpriced,
            model_calls,
        }
    })
}

pub(crate) fn tool_call() -> impl Strategy<Value = ToolCall> {
    (text(), text(), text()).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name,
        arguments,
    })
}

/// A thinking block before all else.
pub(crate) fn thought() -> PlacedOpaque {
    PlacedOpaque {
        calls: 0,
        text_bytes: 0,
        opaque: Opaque {
            provider: "anthropic".into(),
            model: "claude".into(),
            kind: "thinking".into(),
            json: r#"{"type":"thinking","thinking":"","signature":"c2ln"}"#.into(),
        },
    }
}

fn opaque() -> impl Strategy<Value = Opaque> {
    (text(), text(), text(), text()).prop_map(|(provider, model, kind, json)| Opaque {
        provider,
        model,
        kind,
        json,
    })
}

fn finish() -> impl Strategy<Value = FinishReason> {
    prop_oneof![
        Just(FinishReason::Stop),
        Just(FinishReason::ToolCalls),
        Just(FinishReason::Length),
        Just(FinishReason::Refusal),
        Just(FinishReason::Other),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    let said = (
        text(),
        vec(tool_call(), 0..3),
        vec((any::<u32>(), any::<u32>(), opaque()), 0..3),
    );
    let of_model = (finish(), usage(), text(), text());
    (any::<(u32, [u64; 4])>(), said, of_model).prop_map(
        |((tool_turn, numbers), (text, calls, opaque), of_model)| {
            let [duration_ms, ops_through, estimated_tokens, window_tokens] = numbers;
            let (finish, usage, provider, model) = of_model;
            let placed = |(calls, text_bytes, opaque)| PlacedOpaque {
                calls,
                text_bytes,
                opaque,
            };
            Reply {
                tool_turn,
                text,
                calls,
                opaque: opaque.into_iter().map(placed).collect(),
                finish,
                usage,
                provider,
                model,
                duration_ms,
                ops_through,
                estimated_tokens,
                window_tokens,
            }
        },
    )
}

pub(super) fn reply_received() -> impl Strategy<Value = EventKind> {
    let requested = (tool_call(), effect(), any::<bool>(), any::<bool>());
    let requested = requested.prop_map(|(call, effect, previews, hooked)| RequestedCall {
        tool_digest: String::new(),
        call,
        effect,
        previews,
        hooked,
    });
    let requested = vec(requested, 0..3);
    (attempt(), reply(), requested, any::<bool>()).prop_map(|(attempt, reply, calls, held)| {
        EventKind::ReplyReceived(ReplyReceived {
            attempt,
            tool_turn: reply.tool_turn,
            text: reply.text,
            calls,
            opaque: reply.opaque,
            finish: reply.finish,
            usage: reply.usage,
            provider: reply.provider,
            model: reply.model,
            duration_ms: reply.duration_ms,
            ops_through: reply.ops_through,
            estimated_tokens: reply.estimated_tokens,
            window_tokens: reply.window_tokens,
            held,
        })
    })
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::System),
        Just(Role::User),
        Just(Role::Assistant),
        Just(Role::Tool),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let result = (text(), text(), any::<bool>()).prop_map(|(call_id, text, is_error)| ToolResult {
        call_id,
        text,
        is_error,
    });
    let media = (text(), vec(any::<u8>(), 0..9)).prop_map(|(mime, data)| Media { mime, data });
    let notice = (text(), any::<bool>()).prop_map(|(text, is_of_workspace)| Notice {
        text,
        is_of_workspace,
    });
    prop_oneof![
        text().prop_map(Part::Text),
        tool_call().prop_map(Part::Call),
        result.prop_map(Part::Result),
        media.prop_map(Part::Media),
        opaque().prop_map(Part::Opaque),
        notice.prop_map(Part::Notice),
    ]
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (role(), vec(part(), 0..4)).prop_map(|(role, parts)| Message { role, parts })
}

fn layer_kind() -> impl Strategy<Value = LayerKind> {
    prop_oneof![
        Just(LayerKind::Prompt),
        Just(LayerKind::Agent),
        Just(LayerKind::Context),
        Just(LayerKind::Environment),
        Just(LayerKind::Capabilities),
        Just(LayerKind::Pool),
        Just(LayerKind::Memory),
        Just(LayerKind::Instructions),
        Just(LayerKind::Mode),
    ]
}

fn mark() -> impl Strategy<Value = MemoryMark> {
    any::<(u64, u64)>().prop_map(|(owner, clients)| MemoryMark { owner, clients })
}

fn layer() -> impl Strategy<Value = Layer> {
    let names = (vec(text(), 0..3), vec(text(), 0..3));
    (layer_kind(), text(), mark(), names).prop_map(|(kind, text, through, (names, allotted))| {
        Layer {
            through,
            names,
            allotted,
            ..Layer::new(kind, text)
        }
    })
}

fn known_layer() -> impl Strategy<Value = KnownLayer> {
    (layer_kind(), any::<u32>(), mark(), vec(text(), 0..3)).prop_map(
        |(kind, number, through, names)| KnownLayer {
            kind,
            number,
            through,
            names,
        },
    )
}

fn reminder() -> impl Strategy<Value = Reminder> {
    let kind = layer_kind().prop_filter("session memory", |kind| *kind != LayerKind::Memory);
    let of = prop_oneof![
        (kind, text()).prop_map(|(kind, digest)| Reminded::Layer { kind, digest }),
        (option::of(mark()), mark())
            .prop_map(|(since, through)| Reminded::Memory { since, through }),
    ];
    (text(), of).prop_map(|(text, of)| Reminder { text, of })
}

pub(super) fn writer() -> impl Strategy<Value = Option<MemoryWriter>> {
    option::of(prop_oneof![
        attempt().prop_map(MemoryWriter::Attempt),
        Just(MemoryWriter::Command),
    ])
}

pub(super) fn frame() -> impl Strategy<Value = Option<NotesFrame>> {
    let frame = (text(), text()).prop_map(|(before, after)| NotesFrame { before, after });
    option::of(frame)
}

pub(super) fn context_op() -> impl Strategy<Value = ContextOp> {
    let placed = || (any::<u32>(), message());
    prop_oneof![
        message().prop_map(ContextOp::Append),
        placed().prop_map(|(index, message)| ContextOp::Update { index, message }),
        placed().prop_map(|(index, message)| ContextOp::Insert { index, message }),
        any::<u32>().prop_map(|index| ContextOp::Remove { index }),
        Just(ContextOp::Pop),
        role().prop_map(ContextOp::Retain),
        Just(ContextOp::Clear),
        option::of(any::<u32>()).prop_map(ContextOp::SetWindow),
        when_full().prop_map(ContextOp::SetWhenFull),
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let placed = || (any::<u32>(), message());
    // 0 stands for the end.
    let inserted = (option::of(1..=u32::MAX), message());
    prop_oneof![
        message().prop_map(Op::Append),
        placed().prop_map(|(number, message)| Op::Update { number, message }),
        inserted.prop_map(|(before, message)| Op::Insert { before, message }),
        any::<u32>().prop_map(|number| Op::Remove { number }),
        Just(Op::Pop),
        role().prop_map(Op::Retain),
        Just(Op::Clear),
        option::of(any::<u32>()).prop_map(Op::SetWindow),
        layer().prop_map(Op::SetLayer),
        known_layer().prop_map(Op::UseLayer),
        reminder().prop_map(Op::Remind),
        text().prop_map(Op::Notice),
    ]
}

pub(super) fn context_changed() -> impl Strategy<Value = ContextChanged> {
    let whose = prop_oneof![
        attempt().prop_map(ConversationRef::Attempt),
        "[a-z]{1,8}".prop_map(ConversationRef::Context),
    ];
    let rest = (any::<u64>(), option::of(message()), any::<bool>());
    (whose, vec(op(), 0..4), rest).prop_map(
        |(conversation, ops, (version, popped, is_steering))| ContextChanged {
            conversation,
            ops,
            version,
            popped,
            is_steering,
        },
    )
}

pub(crate) fn conversation() -> impl Strategy<Value = Conversation> {
    let entry = || {
        (any::<u32>(), message(), option::of(compaction::kind())).prop_map(
            |(number, message, compaction)| Entry {
                number,
                message: Arc::new(message),
                compaction,
            },
        )
    };
    let entries = || vec(entry(), 0..3);
    let zones = (entries(), entries(), entries(), entries());
    let measured = (any::<[u64; 2]>(), any::<u32>(), text());
    let measured = measured.prop_map(|([tokens, estimate], through, model)| Measured {
        tokens,
        estimate,
        through,
        model,
    });
    let counts = (any::<u32>(), option::of(measured));
    (vec(layer(), 0..3), zones, text(), counts).prop_map(
        |(system, (immutable, compressed, incremental, behind), scratch, counts)| {
            let (last_number, measured) = counts;
            Conversation {
                system,
                immutable,
                compressed,
                incremental,
                behind,
                scratch,
                last_number,
                measured,
                ..Conversation::default()
            }
        },
    )
}
