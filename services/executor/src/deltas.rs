//! The text of a reply while it comes: gathered, so that a message is worth its way.

use cairn_engine::event::AttemptRef;
use cairn_proto::event::TextDelta;
use cairn_proto::executor::RetryReport;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Text waits this long for more.
const HOLD: Duration = Duration::from_millis(50);
/// More than this does not wait.
const FULL: usize = 1024;
/// Most bytes of one part, so that it fits into a message however the model's server cuts.
const MOST: usize = 8 * 1024;

/// What a model's stream brings.
#[derive(Debug)]
pub(crate) enum Piece {
    /// More text.
    Text(String),
    /// The model is asked again: what came before is void. With a retry, it is asked only after that has got its go.
    Anew(Option<Retry>),
}

/// The model is to be asked again, and the owner is to know it first.
#[derive(Debug)]
pub(crate) struct Retry {
    /// For the owner.
    pub(crate) report: RetryReport,
    /// The report is acknowledged.
    pub(crate) go: oneshot::Sender<()>,
}

/// The text of one reply on its way to those who watch.
#[derive(Debug)]
pub(crate) struct Deltas {
    attempt: AttemptRef,
    tool_turn: u32,
    /// How often the model was asked again.
    retry: u32,
    /// Bytes that were sent.
    sent: u64,
    gathered: String,
    since: Option<Instant>,
}

impl Deltas {
    pub(crate) fn new(attempt: AttemptRef, tool_turn: u32) -> Self {
        Self {
            attempt,
            tool_turn,
            retry: 0,
            sent: 0,
            gathered: String::new(),
            since: None,
        }
    }

    /// Takes what the model's stream brings. Returns a retry that is to be reported.
    pub(crate) fn take(&mut self, piece: Piece) -> Option<Retry> {
        match piece {
            Piece::Text(text) => {
                self.gathered.push_str(&text);
                self.since.get_or_insert_with(Instant::now);
                None
            }
            Piece::Anew(retry) => {
                *self = Self {
                    retry: self.retry + 1,
                    ..Self::new(self.attempt, self.tool_turn)
                };
                retry
            }
        }
    }

    /// When the text gathered is to be sent; none without any. The first part of a reply does not wait.
    pub(crate) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(match self.sent == 0 || self.gathered.len() >= FULL {
            true => since,
            false => since + HOLD,
        })
    }

    /// Bytes of the next part.
    pub(crate) fn next_bytes(&self) -> usize {
        self.gathered.floor_char_boundary(MOST)
    }

    /// The next part of what was gathered; what is left is due at once.
    pub(crate) fn part(&mut self) -> TextDelta {
        let end = self.next_bytes();
        // A copy: a part that waits for the owner must not keep the memory of all that was gathered.
        let text = self.gathered[..end].to_owned();
        self.gathered.drain(..end);
        if self.gathered.is_empty() {
            self.since = None;
        }
        let offset = self.sent;
        self.sent += text.len() as u64;
        TextDelta {
            attempt: Some(self.attempt.into()),
            tool_turn: self.tool_turn,
            offset,
            text,
            progress: None,
            retry: self.retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deltas() -> Deltas {
        let attempt = AttemptRef {
            run: 1,
            step: 2.into(),
            attempt: 1,
        };
        Deltas::new(attempt, 3)
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn text_waits_a_little_for_more() {
        let mut deltas = deltas();
        assert_eq!(deltas.due(), None);
        deltas.take(text("first "));
        assert_eq!(deltas.due(), Some(Instant::now()));
        deltas.part();
        deltas.take(text("one "));
        let due = deltas.due().unwrap();
        assert_eq!(due, Instant::now() + HOLD);
        tokio::time::advance(HOLD / 2).await;
        deltas.take(text("two"));
        assert_eq!(deltas.due(), Some(due));
        deltas.take(text(&"x".repeat(FULL)));
        assert!(deltas.due().unwrap() <= Instant::now());
    }

    #[test]
    fn parts_tell_their_place_and_a_new_reply_begins_anew() {
        let mut deltas = deltas();
        deltas.take(text("one "));
        let part = deltas.part();
        assert_eq!((part.offset, part.tool_turn, &*part.text), (0, 3, "one "));
        assert_eq!(part.retry, 0);
        deltas.take(text("zwölf"));
        assert_eq!((deltas.part().offset, deltas.due()), (4, None));
        deltas.take(text("x"));
        assert_eq!(deltas.part().offset, 10);
        deltas.take(text("lost"));
        assert!(deltas.take(Piece::Anew(None)).is_none());
        assert_eq!(deltas.due(), None);
        deltas.take(text("again"));
        let part = deltas.part();
        assert_eq!((part.offset, &*part.text, part.retry), (0, "again", 1));
    }

    #[test]
    fn what_is_too_much_for_one_message_goes_in_parts() {
        let mut deltas = deltas();
        let long = "ö".repeat(MOST);
        deltas.take(text(&long));
        let mut seen = String::new();
        while deltas.due().is_some() {
            let part = deltas.part();
            assert_eq!(part.offset, seen.len() as u64);
            assert!(part.text.len() <= MOST && !part.text.is_empty());
            assert_eq!(part.text.capacity(), part.text.len());
            seen += &part.text;
        }
        assert_eq!(seen, long);
    }
}
