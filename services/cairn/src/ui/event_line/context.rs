//! What Cairn says to a model, in a line.

use super::words::PIECE;
use super::{EventLine, Mark, line, step_of};
use cairn_proto::event::context_changed::Conversation as Whose;
use cairn_proto::event::op::Op;
use cairn_proto::event::part::Part;
use cairn_proto::event::{self as wire, LayerKind};
use cairn_rpc::text::clip;

/// A conversation begins with its system prompt; later changes are what the model is told.
pub(super) fn context_line(event: &wire::ContextChanged) -> EventLine {
    let ops = || event.ops.iter().filter_map(|op| op.op.as_ref());
    let written = ops().filter_map(|op| match op {
        Op::SetLayer(layer) => Some(layer.kind()),
        Op::UseLayer(layer) => Some(layer.kind()),
        _ => None,
    });
    let mut layers: Vec<_> = written.collect();
    layers.sort_unstable();
    let layers: Vec<_> = layers.into_iter().map(name).collect();
    let begins =
        (!layers.is_empty()).then(|| format!("the model starts with {}", layers.join(", ")));
    let said = ops().filter_map(said);
    let text = begins
        .into_iter()
        .chain(said)
        .collect::<Vec<_>>()
        .join("; ");
    let whose = match &event.conversation {
        Some(Whose::Context(name)) => format!("context {name}"),
        Some(Whose::Attempt(attempt)) => format!("step {}", step_of(Some(attempt))),
        None => format!("step {}", step_of(None)),
    };
    let text = match text.as_str() {
        "" if event.is_steering => "a person says something to the model",
        "" => "its messages were changed",
        text => text,
    };
    line(Mark::Plain, format!("{whose}: {text}"))
}

fn said(op: &Op) -> Option<String> {
    match op {
        Op::SetLayer(_) | Op::UseLayer(_) => None,
        Op::Remind(reminder) => Some(format!(
            "the model is told that {} changed",
            name(reminder.kind())
        )),
        Op::Append(message) => {
            let texts = message.parts.iter().filter_map(|part| match &part.part {
                Some(Part::Text(text)) => Some(text.as_str()),
                _ => None,
            });
            Some(format!(
                "the model is told: {}",
                clip(&texts.collect::<String>(), PIECE)
            ))
        }
        Op::Notice(text) => Some(format!("the model is told: {}", clip(text, PIECE))),
        Op::SetWindow(change) => Some(match &change.window {
            Some(window) => format!("requests have its latest {} messages", window.messages),
            None => "requests have all of its messages".to_owned(),
        }),
        Op::Update(_)
        | Op::Insert(_)
        | Op::Remove(_)
        | Op::Pop(_)
        | Op::Retain(_)
        | Op::Clear(_) => Some("the conversation was edited".to_owned()),
    }
}

fn name(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::Unspecified => "a layer",
        LayerKind::Prompt => "its instructions",
        LayerKind::Environment => "the environment",
        LayerKind::Memory => "session memory",
        LayerKind::Agent => "the instructions of its role",
        LayerKind::Context => "its own prompt",
        LayerKind::Capabilities => "what it can use",
        LayerKind::Instructions => "the instructions of its folder",
        LayerKind::Mode => "the mode",
        LayerKind::Pool => "the pool of resources",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_each_change_are_reported() {
        let memory = LayerKind::Memory.into();
        let layer = wire::Layer {
            kind: memory,
            ..wire::Layer::default()
        };
        let known = wire::KnownLayer {
            kind: LayerKind::Prompt.into(),
            ..wire::KnownLayer::default()
        };
        let reminder = wire::Reminder {
            kind: memory,
            ..wire::Reminder::default()
        };
        let op = |op| wire::Op { op: Some(op) };
        let message = cairn_engine::message::Message::user("Go on.");
        let begins = wire::ContextChanged {
            ops: vec![op(Op::SetLayer(layer)), op(Op::UseLayer(known))],
            ..wire::ContextChanged::default()
        };
        let changes = wire::ContextChanged {
            ops: vec![op(Op::Append(message.into())), op(Op::Remind(reminder))],
            ..wire::ContextChanged::default()
        };
        assert_eq!(
            context_line(&begins).text,
            "step 0: the model starts with its instructions, session memory"
        );
        assert_eq!(
            context_line(&changes).text,
            "step 0: the model is told: Go on.; the model is told that session memory changed"
        );
    }
}
