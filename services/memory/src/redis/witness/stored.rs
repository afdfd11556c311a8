//! What a server has of a session, as it answers.

use super::Mark;
use crate::fingerprint::Fingerprint;
use crate::redis::script::{Odd, Reply, int};
use redis::Value;

pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// What a server has of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Nothing,
    Deleted,
    At(Mark),
}

impl Stored {
    /// The same of the session that is known: one that was made later under its name is another.
    fn of(self, known: &Mark) -> Self {
        match self {
            Self::At(Mark {
                made_unix_ms: Some(made),
                ..
            }) if known.made_unix_ms.is_some_and(|known| known < made) => Self::Nothing,
            stored => stored,
        }
    }
}

/// The answers to the questions about one session.
pub(super) fn answer(
    known: &Mark,
    answers: &mut impl Iterator<Item = Value>,
) -> Result<(Stored, Option<Fingerprint>), Odd> {
    let there = match known.event {
        Some(event) => entry(event.seq, answers.next().ok_or(Odd)?)?,
        None => None,
    };
    let stored = stored(answers.next().ok_or(Odd)?)?;
    Ok((stored.of(known), there))
}

/// The one entry of a journal that was asked for, if it is there: an id, and a field with its value.
fn entry(seq: u64, answer: Value) -> Result<Option<Fingerprint>, Odd> {
    let mut entries = Reply::new(answer)?;
    if entries.len() == 0 {
        return Ok(None);
    }
    let mut entry = entries.array()?;
    entry.value()?;
    let mut fields = entry.array()?;
    fields.value()?;
    Ok(Some(Fingerprint::of(seq, &fields.bytes()?)))
}

/// The answer to the fields `del`, `ver`, `seq`, `al` and `cr`.
fn stored(answer: Value) -> Result<Stored, Odd> {
    let mut fields = Reply::new(answer)?;
    if fields.optional()?.is_some() {
        return Ok(Stored::Deleted);
    }
    let version = fields.value()?;
    if version == Value::Nil {
        return Ok(Stored::Nothing);
    }
    let number = |value| {
        let number = int(&value).ok_or(Odd)?;
        u64::try_from(number).map_err(|_| Odd)
    };
    Ok(Stored::At(Mark {
        version: number(version)?,
        seq: number(fields.value()?)?,
        accepted_losses: match fields.value()? {
            // It is there since the first time.
            Value::Nil => 0,
            losses => number(losses)?,
        },
        made_unix_ms: int(&fields.value()?),
        ..Mark::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_made_later_is_another() {
        let made = |made: Option<i64>| Mark {
            made_unix_ms: made,
            ..Mark::default()
        };
        let stored = Stored::At(made(Some(7)));
        for (known, want) in [
            (None, stored),
            (Some(7), stored),
            // Whoever made it anew is gone with it.
            (Some(9), stored),
            (Some(6), Stored::Nothing),
        ] {
            assert_eq!(stored.of(&made(known)), want, "{known:?}");
        }
        assert_eq!(Stored::Deleted.of(&made(Some(6))), Stored::Deleted);
    }

    #[test]
    fn an_entry_of_a_journal_is_known_by_its_bytes() {
        let text = |text: &str| Value::BulkString(text.into());
        let fields = Value::Array(vec![text("m"), text("known")]);
        let found = Value::Array(vec![Value::Array(vec![text("9-0"), fields])]);
        assert_eq!(entry(9, found), Ok(Some(Fingerprint::of(9, b"known"))));
        assert_eq!(entry(9, Value::Array(vec![])), Ok(None));
        assert_eq!(entry(9, Value::Nil), Err(Odd));
    }
}
