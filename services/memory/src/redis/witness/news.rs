//! What this process was answered, for the other processes of memory: one of them may end together with
//! a server, and then the others know what that server has to have had.
//!
//! Told in the background, a few milliseconds after the answer, and once for many. What was answered
//! within these, by a process that ends with the server, nobody else knows.

use super::{Mark, Witness};
use crate::redis::keys::{self, session_of};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// By partition and member, and whether the session was made since that was told last.
type Pending = HashMap<(u16, String), (Mark, bool)>;

/// What was not told yet; nothing is kept before somebody tells.
#[derive(Debug, Default)]
pub(super) struct News {
    pending: Mutex<Option<Pending>>,
    changed: Notify,
}

impl News {
    /// The session has come so far.
    pub(super) fn add(&self, partition: u16, member: &str, mark: Mark, is_new: bool) {
        let mut pending = self.pending();
        let Some(pending) = &mut *pending else {
            return;
        };
        let entry = pending.entry((partition, member.to_owned()));
        let (known, was_made) = entry.or_default();
        if is_new {
            *known = Mark::default();
        }
        known.raise(mark);
        *was_made |= is_new;
        self.changed.notify_one();
    }

    fn pending(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness {
    /// From now on [`news`](Self::news) are told.
    pub(in crate::redis) fn begin_telling(&self) {
        self.news.pending().get_or_insert_default();
    }

    /// Waits until there is something to tell.
    pub(in crate::redis) async fn has_news(&self) {
        self.news.changed.notified().await;
    }

    /// What is to be told, each with the partition of one of the sessions.
    pub(in crate::redis) fn news(&self, place: impl Fn(u16) -> usize) -> Vec<(u16, String)> {
        let pending = self.news.pending().as_mut().map(std::mem::take);
        let mut by_place: HashMap<usize, (u16, String)> = HashMap::new();
        for ((partition, member), (mark, is_new)) in pending.into_iter().flatten() {
            let told = by_place.entry(place(partition)).or_default();
            told.0 = partition;
            line(&mut told.1, &member, &mark, is_new);
        }
        by_place.into_values().collect()
    }

    /// What another process was answered.
    pub(in crate::redis) fn heard(&self, text: &str) {
        for (member, mark, is_new) in text.lines().filter_map(parse) {
            let Some(key) = session_of(member) else {
                continue;
            };
            let mut marks = self.marks(keys::partition(&key));
            // What was heard may be older than what is known.
            if is_new && marks.is_deleted(member) {
                marks.forget(member);
            }
            marks.raise(member, mark);
        }
    }
}

/// Events are told by their numbers alone: their digests are good in one process.
fn line(text: &mut String, member: &str, mark: &Mark, is_new: bool) {
    let Mark {
        accepted_losses,
        version,
        seq,
        is_deleted,
        event: _,
    } = mark;
    let (is_deleted, is_new) = (u8::from(*is_deleted), u8::from(is_new));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{accepted_losses} {version} {seq} {is_deleted} {is_new} {member}"
    );
}

fn parse(line: &str) -> Option<(&str, Mark, bool)> {
    let mut words = line.splitn(6, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let mark = Mark {
        accepted_losses: number()?,
        version: number()?,
        seq: number()?,
        is_deleted: number()? == 1,
        event: None,
    };
    let is_new = number()? == 1;
    Some((words.next()?, mark, is_new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_told_as_it_is() {
        let mark = Mark {
            accepted_losses: 1,
            version: 3,
            seq: 9,
            ..Mark::default()
        };
        let deleted = Mark {
            is_deleted: true,
            ..Mark::default()
        };
        let mut text = String::new();
        line(&mut text, "n/a b", &mark, false);
        line(&mut text, "n/c", &deleted, true);
        let told: Vec<_> = text.lines().map(parse).collect();
        assert_eq!(
            told,
            [Some(("n/a b", mark, false)), Some(("n/c", deleted, true))]
        );
        for odd in ["", "1 2 3", "1 2 3 0 0", "x 2 3 0 0 n/a", "-1 2 3 0 0 n/a"] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn what_is_told_later_replaces_what_was_to_be_told() {
        let news = News::default();
        let at = |seq| Mark {
            seq,
            ..Mark::default()
        };
        news.add(1, "n/a", at(3), false);
        assert!(news.pending().is_none());
        news.pending().get_or_insert_default();
        for (seq, is_new) in [(3, false), (5, false), (4, false)] {
            news.add(1, "n/a", at(seq), is_new);
        }
        let known = |news: &News| news.pending().as_ref().unwrap()[&(1, "n/a".to_owned())];
        assert_eq!(known(&news), (at(5), false));
        news.add(1, "n/a", at(1), true);
        news.add(1, "n/a", at(2), false);
        assert_eq!(known(&news), (at(2), true));
    }
}
