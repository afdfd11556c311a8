//! Changes the messages of a context.

use super::Handle;
use super::submit_turn::full;
use crate::conversation::Op;
use crate::decide::{Decision, Rejection};
use crate::event::ContextChanged;
use crate::limits::{MAX_CONTEXT, check_extension};
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::session::Context;
use serde::{Deserialize, Serialize};

/// Change the incremental messages of a context and its window, all at once or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeContext {
    /// Its name; empty for the active one.
    pub context: String,
    /// The version that the context must have; none for any.
    pub expected_version: Option<u64>,
    /// The changes, in order: of messages and the window, not of layers.
    pub ops: Vec<Op>,
}

impl ChangeContext {
    fn check(&self, name: &str, context: &Context) -> Result<(), Rejection> {
        if let Some(expected) = self.expected_version
            && expected != context.version
        {
            let message = format!(
                "context '{name}' has version {}, and version {expected} was expected; read it again",
                context.version
            );
            return Err(Rejection::refused(Refusal::VersionMismatch, message));
        }
        let added: u64 = self.ops.iter().filter_map(message_of).map(Message::bytes).sum();
        check_extension(added).map_err(|message| Rejection::refused(Refusal::Limit, message))?;
        let bytes = context.bytes + added - self.replaced(context);
        // What only removes is never too much.
        if bytes > MAX_CONTEXT && bytes > context.bytes {
            return Err(Rejection::refused(Refusal::Limit, full(name, bytes)));
        }
        let mut length = context.conversation.incremental.len();
        for op in &self.ops {
            check_op(op, name, &mut length)?;
        }
        Ok(())
    }
}

impl ChangeContext {
    /// Bytes of the message that is replaced, if that is all that changes.
    fn replaced(&self, context: &Context) -> u64 {
        let replaced = match &self.ops[..] {
            [Op::Update { index, .. }] => context.conversation.incremental.get(*index as usize),
            _ => None,
        };
        replaced.map_or(0, Message::bytes)
    }
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Append(message) | Op::Update { message, .. } | Op::Insert { message, .. } => Some(message),
        _ => None,
    }
}

/// The index of an op has to fit the length at its time.
fn check_op(op: &Op, name: &str, length: &mut usize) -> Result<(), Rejection> {
    if message_of(op).is_some_and(|message| message.role == Role::System) {
        let message = "a message of the role system is no part of a context; its system prompt is given when it is created";
        return Err(Rejection::refused(Refusal::BadMessage, message));
    }
    let within = |index: u32, end: usize| match (index as usize) < end {
        true => Ok(()),
        false => {
            let message = format!("index {index} is beyond context '{name}': allowed is less than {end}");
            Err(Rejection::refused(Refusal::BadIndex, message))
        }
    };
    match op {
        Op::Append(_) => *length += 1,
        Op::Update { index, .. } => within(*index, *length)?,
        Op::Insert { index, .. } => {
            within(*index, *length + 1)?;
            *length += 1;
        }
        Op::Remove { index } => {
            within(*index, *length)?;
            *length -= 1;
        }
        Op::Pop => *length = length.saturating_sub(1),
        // How many stay is not known before; no index follows these in one request.
        Op::Clear | Op::Retain(_) => *length = 0,
        Op::SetWindow(_) => {}
        Op::Compact { .. }
        | Op::SetLayer(_)
        | Op::UseLayer(_)
        | Op::Remind(_)
        | Op::Notice(_) => {
            let message = "only messages and the window can be changed";
            return Err(Rejection::refused(Refusal::BadMessage, message));
        }
    }
    Ok(())
}

impl Handle for ChangeContext {
    const BEGINS_WORK: bool = true;

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let name = decision.session.context_name(&self.context).to_owned();
        let context = decision.free_context(&name)?;
        self.check(&name, context)?;
        let last = context.conversation.incremental.last();
        let popped = last.filter(|_| self.ops.contains(&Op::Pop)).cloned();
        let version = context.version + 1;
        // The command itself has the changes.
        decision.answer(ContextChanged {
            popped,
            ..ContextChanged::of_context(&name, version, Vec::new())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SubmitTurn;
    use crate::command::testing::Sent;
    use crate::event::EventKind;
    use crate::limits::MAX_EXTENSION;

    fn change(ops: Vec<Op>) -> ChangeContext {
        ChangeContext {
            ops,
            ..ChangeContext::default()
        }
    }

    fn append(text: &str) -> Op {
        Op::Append(Message::user(text))
    }

    fn texts(sent: &Sent) -> Vec<String> {
        let context = sent.session.context("").expect("the active context");
        context.messages().map(Message::text).collect()
    }

    #[test]
    fn changes_take_effect_in_order_and_as_one_version() {
        let mut sent = Sent::new();
        let ops = [
            append("a"),
            append("b"),
            Op::Insert {
                index: 2,
                message: Message::user("c"),
            },
            Op::Update {
                index: 1,
                message: Message::assistant("B", Vec::new()),
            },
            Op::Remove { index: 0 },
        ];
        let events = sent.send(change(ops.into()));
        let [EventKind::ContextChanged(changed)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((changed.version, &changed.ops[..]), (1, &[][..]));
        assert_eq!(texts(&sent), ["B", "c"]);
        sent.send(change(vec![Op::Retain(Role::Assistant)]));
        assert_eq!(texts(&sent), ["B"]);
        sent.send(change(vec![Op::Clear]));
        let context = sent.session.context("main").expect("main");
        assert_eq!((context.version, context.bytes), (3, 0));
    }

    #[test]
    fn a_window_is_set_and_taken_away() {
        let mut sent = Sent::new();
        sent.send(change(vec![append("a"), append("b"), append("c")]));
        for (window, seen) in [(Some(1), 1), (Some(2), 2), (None, 3)] {
            sent.send(change(vec![Op::SetWindow(window)]));
            let context = sent.session.context("").expect("main");
            assert_eq!((context.window, context.in_window().len()), (window, seen));
        }
        assert_eq!(texts(&sent), ["a", "b", "c"]);
        assert_eq!(sent.session.context("").expect("main").version, 4);
    }

    #[test]
    fn a_pop_returns_the_message_or_none() {
        let mut sent = Sent::new();
        sent.send(change(vec![append("last")]));
        for wanted in [Some("last"), None] {
            let events = sent.send(change(vec![Op::Pop]));
            let [EventKind::ContextChanged(changed)] = &events[..] else {
                panic!("{events:?}");
            };
            let popped = changed.popped.as_ref().map(Message::text);
            assert_eq!(popped.as_deref(), wanted);
        }
    }

    #[test]
    fn a_change_that_does_not_fit_changes_nothing() {
        let mut sent = Sent::new();
        sent.send(change(vec![append("only")]));
        let update = |index| Op::Update {
            index,
            message: Message::user("x"),
        };
        let insert = Op::Insert {
            index: 2,
            message: Message::user("x"),
        };
        for ops in [
            vec![append("x"), update(2)],
            vec![insert],
            vec![Op::Remove { index: 1 }],
            vec![Op::Clear, Op::Remove { index: 0 }],
        ] {
            assert_eq!(sent.refused(change(ops)), Refusal::BadIndex);
        }
        let system = Op::Append(Message::system("x"));
        assert_eq!(sent.refused(change(vec![system])), Refusal::BadMessage);
        let notice = Op::Notice("x".to_owned());
        assert_eq!(sent.refused(change(vec![notice])), Refusal::BadMessage);
        let unknown = ChangeContext {
            context: "other".to_owned(),
            ..change(vec![Op::Pop])
        };
        assert_eq!(sent.refused(unknown), Refusal::ContextNotFound);
        assert_eq!(texts(&sent), ["only"]);
    }

    #[test]
    fn another_version_than_the_expected_one_is_refused() {
        let mut sent = Sent::new();
        let expecting = |version| ChangeContext {
            expected_version: Some(version),
            ..change(vec![append("x")])
        };
        sent.send(expecting(0));
        assert_eq!(sent.refused(expecting(0)), Refusal::VersionMismatch);
        sent.send(expecting(1));
        assert_eq!(texts(&sent), ["x", "x"]);
    }

    #[test]
    fn one_change_and_one_context_have_a_limit() {
        let mut sent = Sent::new();
        // With what each message and part counts beside its bytes.
        let most = "x".repeat(MAX_EXTENSION as usize - 32);
        let more = change(vec![append(&most), append("x")]);
        assert_eq!(sent.refused(more), Refusal::Limit);
        let full = (MAX_CONTEXT / MAX_EXTENSION) as usize;
        for _ in 0..full {
            sent.send(change(vec![append(&most)]));
        }
        assert_eq!(sent.refused(change(vec![append("x")])), Refusal::Limit);
        let update = Op::Update {
            index: 1,
            message: Message::user(most),
        };
        for ops in [vec![update], vec![Op::Pop], vec![append("x")]] {
            let events = sent.send(change(ops));
            assert!(matches!(&events[..], [EventKind::ContextChanged(_)]));
        }
        let context = sent.session.context("").expect("main");
        assert_eq!(context.len(), full);
    }

    #[test]
    fn a_context_whose_turn_works_is_busy() {
        let mut sent = Sent::new();
        sent.send(SubmitTurn {
            message: Some(Message::user("hello")),
            ..SubmitTurn::default()
        });
        assert_eq!(sent.refused(change(vec![append("x")])), Refusal::ContextBusy);
    }
}
