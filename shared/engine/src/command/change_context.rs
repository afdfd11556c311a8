//! Changes the messages of a context.

use super::submit_turn::full;
use super::{Handle, WhenFull};
use crate::conversation::{Entry, Op};
use crate::decide::{Decision, Rejection};
use crate::event::ContextChanged;
use crate::limits::{MAX_CONTEXT, check_extension};
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::session::{Context, Run};
use crate::transitions::IllegalTransition;
use serde::{Deserialize, Serialize};

/// Change the incremental messages of a context, its window, and what happens when it is full: all at once or
/// not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeContext {
    /// Its name; empty for the active one.
    pub context: String,
    /// The version that the context must have; none for any.
    pub expected_version: Option<u64>,
    /// The changes, in order.
    pub ops: Vec<ContextOp>,
}

/// A change of a context. Its indices count the incremental messages before the mark, from 0, as the changes
/// before it leave them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContextOp {
    /// Adds a message at the end.
    Append(Message),
    /// Puts another message in the place of one.
    Update {
        /// Its index.
        index: u32,
        /// The new one.
        message: Message,
    },
    /// Puts a message before another one, or at the end.
    Insert {
        /// The index that it gets.
        index: u32,
        /// The new one.
        message: Message,
    },
    /// Takes a message out.
    Remove {
        /// Its index.
        index: u32,
    },
    /// Takes the last message out, if there is one.
    Pop,
    /// Takes out all messages of other roles.
    Retain(Role),
    /// Takes all messages out.
    Clear,
    /// Sends so many of the latest messages; none for all.
    SetWindow(Option<u32>),
    /// What happens when a turn becomes too long for its model; none for the default.
    SetWhenFull(Option<WhenFull>),
}

impl ContextOp {
    /// The level that each needs; see [`LEVEL`](crate::level::LEVEL).
    fn since(&self) -> u32 {
        match self {
            Self::Append(_) => 1,
            Self::Update { .. } => 1,
            Self::Insert { .. } => 1,
            Self::Remove { .. } => 1,
            Self::Pop => 1,
            Self::Retain(_) => 1,
            Self::Clear => 1,
            Self::SetWindow(_) => 1,
            Self::SetWhenFull(_) => 1,
        }
    }

    /// The lowest level of a reader that can read all of them; 1 for none.
    pub(crate) fn needs_of(ops: &[Self]) -> u32 {
        ops.iter().map(Self::since).max().unwrap_or(1)
    }

    /// The same change of these messages, which are those before the mark, by their numbers. None for what
    /// concerns the context alone.
    pub(crate) fn by_number(self, messages: &[Entry]) -> Result<Option<Op>, IllegalTransition> {
        let number = |index: u32| match messages.get(index as usize) {
            Some(entry) => Ok(entry.number),
            None => Err(IllegalTransition::missing(format_args!(
                "message {index} of {}",
                messages.len()
            ))),
        };
        Ok(Some(match self {
            Self::Append(message) => Op::Append(message),
            Self::Update { index, message } => Op::Update {
                number: number(index)?,
                message,
            },
            Self::Insert { index, message } => Op::Insert {
                before: match index as usize == messages.len() {
                    true => None,
                    false => Some(number(index)?),
                },
                message,
            },
            Self::Remove { index } => Op::Remove {
                number: number(index)?,
            },
            Self::Pop => Op::Pop,
            Self::Retain(role) => Op::Retain(role),
            Self::Clear => Op::Clear,
            Self::SetWindow(window) => Op::SetWindow(window),
            Self::SetWhenFull(_) => return Ok(None),
        }))
    }
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
        self.check_removed(name, length)?;
        for op in &self.ops {
            check_op(op, name, &mut length)?;
        }
        Ok(())
    }
}

impl ChangeContext {
    /// All that is asked for is that several messages from one index on are removed, and there are not so many.
    fn check_removed(&self, name: &str, length: usize) -> Result<(), Rejection> {
        let [first @ ContextOp::Remove { index }, others @ ..] = &self.ops[..] else {
            return Ok(());
        };
        let left = length.saturating_sub(*index as usize);
        let is_too_many = left > 0 && self.ops.len() > left;
        if !is_too_many || others.iter().any(|op| op != first) {
            return Ok(());
        }
        let count = self.ops.len();
        let message = format!(
            "context '{name}' has fewer than {count} messages from index {index} on: allowed are {left}"
        );
        Err(Rejection::refused(Refusal::BadIndex, message))
    }

    /// Bytes of the message that is replaced, if that is all that changes.
    fn replaced(&self, context: &Context) -> u64 {
        let replaced = match &self.ops[..] {
            [ContextOp::Update { index, .. }] => context.conversation.incremental.get(*index as usize),
            _ => None,
        };
        replaced.map_or(0, |entry| entry.message.bytes())
    }
}

fn message_of(op: &ContextOp) -> Option<&Message> {
    match op {
        ContextOp::Append(message)
        | ContextOp::Update { message, .. }
        | ContextOp::Insert { message, .. } => Some(message),
        _ => None,
    }
}

/// The index of an op has to fit the length at its time.
fn check_op(op: &ContextOp, name: &str, length: &mut usize) -> Result<(), Rejection> {
    if message_of(op).is_some_and(|message| message.role == Role::System) {
        let message = "a message of the role system is no part of a context; its system prompt is given when it is created";
        return Err(Rejection::refused(Refusal::BadMessage, message));
    }
    let within = |index: u32, end: usize| match (index as usize) < end {
        true => Ok(()),
        false => {
            let allowed = match end {
                0 => "it has no such messages".to_owned(),
                end => format!("allowed is less than {end}"),
            };
            let message = format!("index {index} is beyond context '{name}': {allowed}");
            Err(Rejection::refused(Refusal::BadIndex, message))
        }
    };
    match op {
        ContextOp::Append(_) => *length += 1,
        ContextOp::Update { index, .. } => within(*index, *length)?,
        ContextOp::Insert { index, .. } => {
            within(*index, *length + 1)?;
            *length += 1;
        }
        ContextOp::Remove { index } => {
            within(*index, *length)?;
            *length -= 1;
        }
        ContextOp::Pop => *length = length.saturating_sub(1),
        // How many stay is not known before; no index follows these in one request.
        ContextOp::Clear | ContextOp::Retain(_) => *length = 0,
        ContextOp::SetWindow(_) | ContextOp::SetWhenFull(_) => {}
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
        let last = last.filter(|_| self.ops.contains(&ContextOp::Pop));
        let popped = last.map(|entry| Message::clone(&entry.message));
        let version = context.version + 1;
        let waiting = decision.session.active_turn_of(&name);
        let is_compacting = |run: &&Run| {
            let mut attempts = run.running_attempts();
            attempts.any(|(.., attempt)| attempt.full.is_some() || attempt.summary.is_some())
        };
        let waiting = waiting.filter(is_compacting);
        let waiting = waiting.map(|run| run.number);
        // The command itself has the changes.
        decision.answer(ContextChanged {
            popped,
            ..ContextChanged::of_context(&name, version, Vec::new())
        })?;
        match waiting {
            // Its next request may fit now, and a summary is to be of other messages.
            Some(run) => Ok(decision.begin_again(run)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SubmitTurn;
    use crate::command::testing::Sent;
    use crate::event::EventKind;
    use crate::limits::MAX_EXTENSION;

    fn change(ops: Vec<ContextOp>) -> ChangeContext {
        ChangeContext {
            ops,
            ..ChangeContext::default()
        }
    }

    fn append(text: &str) -> ContextOp {
        ContextOp::Append(Message::user(text))
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
            ContextOp::Insert {
                index: 2,
                message: Message::user("c"),
            },
            ContextOp::Update {
                index: 1,
                message: Message::assistant("B", Vec::new()),
            },
            ContextOp::Remove { index: 0 },
        ];
        let events = sent.send(change(ops.into()));
        let [EventKind::ContextChanged(changed)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((changed.version, &changed.ops[..]), (1, &[][..]));
        assert_eq!(texts(&sent), ["B", "c"]);
        sent.send(change(vec![ContextOp::Retain(Role::Assistant)]));
        assert_eq!(texts(&sent), ["B"]);
        sent.send(change(vec![ContextOp::Clear]));
        let context = sent.session.context("main").expect("main");
        assert_eq!((context.version, context.bytes), (3, 0));
    }

    #[test]
    fn a_wrong_index_says_what_is_allowed() {
        let remove = |index, count| vec![ContextOp::Remove { index }; count];
        let mut sent = Sent::new();
        let refused = |sent: &mut Sent, ops| {
            let events = sent.send(change(ops));
            let [EventKind::CommandRefused(refused)] = &events[..] else {
                panic!("{events:?}");
            };
            assert_eq!(refused.reason, Refusal::BadIndex);
            refused.message.clone()
        };
        let none = "index 0 is beyond context 'main': it has no such messages";
        assert_eq!(refused(&mut sent, remove(0, 2)), none);
        sent.send(change(vec![append("a"), append("b"), append("c")]));
        let beyond = "index 3 is beyond context 'main': allowed is less than 3";
        assert_eq!(refused(&mut sent, remove(3, 2)), beyond);
        let too_many = "context 'main' has fewer than 3 messages from index 1 on: allowed are 2";
        assert_eq!(refused(&mut sent, remove(1, 3)), too_many);
        let mixed = [remove(1, 1), remove(2, 1)].concat();
        let beyond = "index 2 is beyond context 'main': allowed is less than 2";
        assert_eq!(refused(&mut sent, mixed), beyond);
        sent.send(change(remove(1, 2)));
        assert_eq!(texts(&sent), ["a"]);
    }

    #[test]
    fn a_window_is_set_and_taken_away() {
        let mut sent = Sent::new();
        sent.send(change(vec![append("a"), append("b"), append("c")]));
        for (window, seen) in [(Some(1), 1), (Some(2), 2), (None, 3)] {
            sent.send(change(vec![ContextOp::SetWindow(window)]));
            let context = sent.session.context("").expect("main");
            let said = &context.conversation;
            assert_eq!((said.window, said.in_window().len()), (window, seen));
        }
        assert_eq!(texts(&sent), ["a", "b", "c"]);
        assert_eq!(sent.session.context("").expect("main").version, 4);
    }

    #[test]
    fn a_pop_returns_the_message_or_none() {
        let mut sent = Sent::new();
        sent.send(change(vec![append("last")]));
        for wanted in [Some("last"), None] {
            let events = sent.send(change(vec![ContextOp::Pop]));
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
        let update = |index| ContextOp::Update {
            index,
            message: Message::user("x"),
        };
        let insert = ContextOp::Insert {
            index: 2,
            message: Message::user("x"),
        };
        for ops in [
            vec![append("x"), update(2)],
            vec![insert],
            vec![ContextOp::Remove { index: 1 }],
            vec![ContextOp::Clear, ContextOp::Remove { index: 0 }],
        ] {
            assert_eq!(sent.refused(change(ops)), Refusal::BadIndex);
        }
        let system = ContextOp::Append(Message::system("x"));
        assert_eq!(sent.refused(change(vec![system])), Refusal::BadMessage);
        let unknown = ChangeContext {
            context: "other".to_owned(),
            ..change(vec![ContextOp::Pop])
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
        let update = ContextOp::Update {
            index: 1,
            message: Message::user(most),
        };
        for ops in [vec![update], vec![ContextOp::Pop], vec![append("x")]] {
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
