//! The first word of every script's answer.

use super::failure::{Effect, odd};
use super::format::Formats;
use super::script::{Odd, Reply};
use crate::port::{End, Limit, StoreError, StoreResult};
use bytes::Bytes;

/// How an operation went that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It happened.
    Ok,
    /// It had happened before.
    Duplicate,
}

/// The port's word for the script's.
///
/// # Errors
/// The refusal, if it is one.
pub(super) fn status(reply: &mut Reply, effect: Effect) -> StoreResult<Status> {
    let lost = |error| odd(effect, error);
    let word = reply.text().map_err(lost)?;
    let refusal = match word.as_str() {
        "ok" => return Ok(Status::Ok),
        "dup" => return Ok(Status::Duplicate),
        "fenced" => StoreError::Fenced,
        "conflict" => StoreError::Conflict,
        "back" => went_back(reply).map_err(lost)?,
        "lost" => StoreError::WritesLost,
        "gap" => StoreError::damaged_event(reply.number().map_err(lost)?),
        "terminal" => StoreError::Terminal(end(&reply.text().map_err(lost)?)),
        "notfound" => StoreError::NotFound,
        "mismatch" => StoreError::RequestMismatch,
        "version" => StoreError::DocumentVersion {
            found: reply.number().map_err(lost)?,
        },
        "limit" => limit(reply).map_err(lost)?,
        "format" => StoreError::Newer {
            found: reply.text().map_err(lost)?,
        },
        _ => return Err(lost(Odd)),
    };
    Err(refusal)
}

/// What scripts say of a session by its fields `f` (format) and `del` (when it was deleted, and how
/// it ended), for bare commands.
///
/// # Errors
/// Why the session cannot be worked on.
pub(super) fn not_refused(
    formats: Formats,
    format: Option<Bytes>,
    deleted: Option<Bytes>,
) -> StoreResult<()> {
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    match (format.map(text), deleted) {
        (None, _) => Err(StoreError::NotFound),
        (Some(format), _) if !formats.know(&format) => Err(StoreError::Newer { found: format }),
        (Some(_), Some(mark)) => Err(StoreError::Terminal(end(&text(mark)))),
        (Some(_), None) => Ok(()),
    }
}

fn limit(reply: &mut Reply) -> Result<StoreError, Odd> {
    let what = Limit::from_name(&reply.text()?).ok_or(Odd)?;
    Ok(StoreError::limit(what, reply.number()?))
}

fn went_back(reply: &mut Reply) -> Result<StoreError, Odd> {
    let (known, stored) = (reply.number()?, reply.number()?);
    Ok(StoreError::WentBack { known, stored })
}

/// When a session was deleted, and how it ended; marks of before have only the first.
fn end(mark: &str) -> End {
    let how = mark
        .split_once(' ')
        .and_then(|(_, how)| End::from_name(how));
    how.unwrap_or(End::Deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    fn told(words: &[&str]) -> StoreResult<Status> {
        let words = words
            .iter()
            .map(|word| Value::SimpleString((*word).to_owned()));
        let mut reply = Reply::new(Value::Array(words.collect())).unwrap();
        status(&mut reply, Effect::Writes)
    }

    #[test]
    fn bare_commands_are_refused_as_scripts_are() {
        let some = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let found = "9".to_owned();
        for (format, deleted, want) in [
            (some("1"), None, Ok(())),
            (None, None, Err(StoreError::NotFound)),
            (some("9"), some("1"), Err(StoreError::Newer { found })),
            (
                some("1"),
                some("1800000000000 archived"),
                Err(StoreError::Terminal(End::Archived)),
            ),
        ] {
            assert_eq!(not_refused(Formats::KNOWN, format, deleted), want);
        }
    }

    #[test]
    fn every_word_has_its_meaning() {
        assert_eq!(told(&["ok"]), Ok(Status::Ok));
        assert_eq!(told(&["dup"]), Ok(Status::Duplicate));
        assert_eq!(told(&["fenced"]), Err(StoreError::Fenced));
        assert_eq!(told(&["lost"]), Err(StoreError::WritesLost));
        assert_eq!(told(&["gap", "7"]), Err(StoreError::damaged_event(7)));
        assert_eq!(
            told(&["version", "7"]),
            Err(StoreError::DocumentVersion { found: 7 })
        );
        for (mark, end) in [
            ("1800000000000", End::Deleted),
            ("1800000000000 expired", End::Expired),
            ("1800000000000 archived", End::Archived),
        ] {
            assert_eq!(told(&["terminal", mark]), Err(StoreError::Terminal(end)));
        }
        assert_eq!(
            told(&["limit", "memory_keys", "12"]),
            Err(StoreError::limit(Limit::MemoryKeys, 12))
        );
        for words in [&["what"][..], &[], &["limit", "what", "1"]] {
            assert!(matches!(told(words), Err(StoreError::Unknown { .. })));
        }
        let found = "9".to_owned();
        assert_eq!(told(&["format", "9"]), Err(StoreError::Newer { found }));
    }
}
