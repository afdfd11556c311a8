//! What is missing of a session, by what is known and what a server has.

use super::Mark;
use super::stored::Stored;
use crate::fingerprint::Fingerprint;
use crate::port::SessionKey;

/// How it shows that acknowledged writes of a session are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// There is less than was known.
    Behind,
    /// There is as much, but somebody else has written it: the event of that number is another.
    Overwritten { seq: u64 },
}

/// A session of which acknowledged writes are gone.
pub(super) struct Lost {
    pub(super) key: SessionKey,
    pub(super) known: Mark,
    pub(super) stored: Stored,
    pub(super) loss: Loss,
    /// Why it could not be quarantined.
    pub(super) refusal: Option<String>,
}

impl Lost {
    /// Somebody has accepted it since the session was looked at.
    pub(super) fn accept(&mut self) {
        if let Stored::At(stored) = &mut self.stored {
            stored.accepted_losses = self.known.accepted_losses + 1;
        }
    }

    /// Whether somebody has accepted a loss since that was known which is gone.
    pub(super) fn is_accepted(&self) -> bool {
        let known = self.known.accepted_losses;
        matches!(self.stored, Stored::At(stored) if stored.accepted_losses > known)
    }

    /// What became of what is left, for the log.
    pub(super) fn left(&self) -> String {
        let aside = match &self.refusal {
            None => "it is quarantined".to_owned(),
            Some(why) => format!(
                "it is quarantined once the server takes writes ({why}), which no process of memory \
                 may be restarted before"
            ),
        };
        match (self.stored, self.loss) {
            (Stored::Nothing | Stored::Deleted, _) => "nothing is left of it".to_owned(),
            _ if self.known.is_deleted => format!("its deletion is lost; {aside}"),
            (_, Loss::Behind) => aside,
            (_, Loss::Overwritten { .. }) => format!("others have written since; {aside}"),
        }
    }
}

/// Whether what is stored lacks what is known; `there` is the event in the place of the last that is
/// known by more than its number.
pub(super) fn loss(known: &Mark, stored: Stored, there: Option<Fingerprint>) -> Option<Loss> {
    let is_behind = match stored {
        // Somebody else may have deleted it since.
        Stored::Deleted => return None,
        // The mark of a deletion does not last for ever.
        Stored::Nothing => !known.is_deleted,
        Stored::At(stored) => {
            known.is_deleted
                || stored.version < known.version
                || stored.seq < known.seq
                || stored.accepted_losses < known.accepted_losses
                || stored.made_unix_ms < known.made_unix_ms
        }
    };
    match (is_behind, stored, known.event) {
        (true, ..) => Some(Loss::Behind),
        (false, Stored::At(_), Some(event)) if there != Some(event) => {
            Some(Loss::Overwritten { seq: event.seq })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64, seq: u64) -> Mark {
        Mark {
            version,
            seq,
            ..Mark::default()
        }
    }

    fn event(seq: u64, event: &str) -> Option<Fingerprint> {
        Some(Fingerprint::of(seq, event.as_bytes()))
    }

    #[test]
    fn what_is_less_than_known_is_lost() {
        let known = at(3, 9);
        for (stored, want) in [
            (Stored::At(at(3, 9)), None),
            (Stored::At(at(4, 12)), None),
            (Stored::At(at(3, 8)), Some(Loss::Behind)),
            (Stored::At(at(2, 9)), Some(Loss::Behind)),
            (Stored::Nothing, Some(Loss::Behind)),
            (Stored::Deleted, None),
        ] {
            assert_eq!(loss(&known, stored, None), want, "{stored:?}");
        }
        let deleted = Mark {
            is_deleted: true,
            ..known
        };
        let made = |made: i64| Mark {
            made_unix_ms: Some(made),
            ..known
        };
        let before = Stored::At(made(4));
        assert_eq!(loss(&made(4), before, None), None);
        assert_eq!(loss(&made(5), before, None), Some(Loss::Behind));
        let back = Stored::At(at(9, 99));
        assert_eq!(loss(&deleted, back, None), Some(Loss::Behind));
        assert_eq!(loss(&deleted, Stored::Nothing, None), None);
    }

    #[test]
    fn what_was_known_before_a_loss_was_accepted_is_no_reason() {
        let after = |losses: u64, mark: Mark| Mark {
            accepted_losses: losses,
            ..mark
        };
        for (known, stored, want) in [
            (after(0, at(3, 9)), after(1, at(2, 8)), true),
            (after(1, at(3, 9)), after(1, at(2, 8)), false),
            // That it was accepted is lost as well.
            (after(2, at(2, 8)), after(1, at(3, 9)), false),
        ] {
            let stored = Stored::At(stored);
            let found = loss(&known, stored, None);
            assert_eq!(found, Some(Loss::Behind), "{known:?} {stored:?}");
            let mut lost = Lost {
                key: SessionKey::new("n", "s"),
                known,
                stored,
                loss: Loss::Behind,
                refusal: None,
            };
            assert_eq!(lost.is_accepted(), want, "{known:?} {stored:?}");
            lost.accept();
            assert!(lost.is_accepted(), "{known:?} {stored:?}");
        }
    }

    #[test]
    fn another_event_in_the_place_of_one_that_is_known_is_a_loss() {
        let known = Mark {
            event: event(9, "known"),
            ..at(3, 9)
        };
        let overwritten = Some(Loss::Overwritten { seq: 9 });
        for (stored, there, want) in [
            (Stored::At(at(3, 9)), event(9, "known"), None),
            (Stored::At(at(5, 12)), event(9, "known"), None),
            (Stored::At(at(3, 9)), event(9, "other"), overwritten),
            (Stored::At(at(5, 12)), event(9, "other"), overwritten),
            (Stored::At(at(5, 12)), None, overwritten),
            (Stored::At(at(5, 8)), None, Some(Loss::Behind)),
            (Stored::At(at(2, 9)), event(9, "other"), Some(Loss::Behind)),
            (Stored::Nothing, None, Some(Loss::Behind)),
            (Stored::Deleted, None, None),
        ] {
            let context = format!("{stored:?} {there:?}");
            assert_eq!(loss(&known, stored, there), want, "{context}");
        }
        // A number alone tells nothing of the event.
        assert_eq!(loss(&at(3, 9), Stored::At(at(5, 12)), None), None);
    }
}
