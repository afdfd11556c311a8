//! What this process was answered, for the other processes of memory: one of them may end together with
//! a server, and then the others know what that server has to have had.
//!
//! Told in the background, a few milliseconds after the answer, and once for many. What was answered
//! within these, by a process that ends with the server, nobody else knows. Who begins to listen says
//! so, and is told all that the others know.

use super::{Mark, Witness};
use crate::fingerprint::Fingerprint;
use crate::redis::keys::{self, PARTITIONS, session_of};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Sessions that wait to be told of at most: more than are remembered. It takes a server that answers
/// but does not let this user publish to come so far.
const MOST: usize = 1 << 16;

/// Sessions in one message.
const AT_ONCE: usize = 1024;

/// A session by its partition and its member there.
type Member = (u16, String);

/// Of whom it was not told yet how far they have come; nothing is kept before somebody tells.
#[derive(Debug, Default)]
pub(super) struct News {
    untold: Mutex<Option<HashSet<Member>>>,
    changed: Notify,
}

/// A message to who listens to one server, and whom it is about.
#[derive(Debug, Default)]
pub(in crate::redis) struct Told {
    members: Vec<Member>,
    text: String,
}

impl News {
    /// There is something new about the session.
    pub(super) fn add(&self, partition: u16, member: &str) {
        self.extend([(partition, member.to_owned())]);
    }

    fn extend(&self, members: impl IntoIterator<Item = Member>) {
        let mut untold = self.untold();
        let Some(untold) = &mut *untold else {
            return;
        };
        let room = MOST.saturating_sub(untold.len());
        untold.extend(members.into_iter().take(room));
        self.changed.notify_one();
    }

    /// Takes out those for whom `is_wanted` holds.
    fn take(&self, is_wanted: impl Fn(u16) -> bool) -> Vec<Member> {
        let mut untold = self.untold();
        let taken = untold.as_mut().map(|untold| {
            let taken = untold.extract_if(|(partition, _)| is_wanted(*partition));
            taken.collect()
        });
        taken.unwrap_or_default()
    }

    fn untold(&self) -> MutexGuard<'_, Option<HashSet<Member>>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// A partition whose channel the message may go over.
    pub(in crate::redis) fn partition(&self) -> u16 {
        self.members.first().map_or(0, |(partition, _)| *partition)
    }

    pub(in crate::redis) fn text(&self) -> &str {
        &self.text
    }
}

impl Witness {
    /// From now on there are [`news`](Self::news).
    pub(in crate::redis) fn begin_telling(&self) {
        self.news.untold().get_or_insert_default();
    }

    /// Waits until there is something to tell.
    pub(in crate::redis) async fn has_news(&self) {
        self.news.changed.notified().await;
    }

    /// What is to be told, by the place of the server that has it, where `is_free` holds for that.
    pub(in crate::redis) fn news(
        &self,
        place: impl Fn(u16) -> usize,
        is_free: impl Fn(usize) -> bool,
    ) -> HashMap<usize, Vec<Told>> {
        let mut by_place: HashMap<usize, Vec<Told>> = HashMap::new();
        for (partition, member) in self.news.take(|partition| is_free(place(partition))) {
            // What was forgotten meanwhile, because it is lost and told, nobody is to hear of.
            let Some(mark) = self.marks(partition).get(&member).copied() else {
                continue;
            };
            let told = by_place.entry(place(partition)).or_default();
            if told.last().is_none_or(|last| last.members.len() >= AT_ONCE) {
                told.push(Told::default());
            }
            if let Some(last) = told.last_mut() {
                line(&mut last.text, &member, &mark);
                last.members.push((partition, member));
            }
        }
        by_place
    }

    /// It could not be told, and is to be told later.
    pub(in crate::redis) fn not_told(&self, told: Told) {
        self.news.extend(told.members);
    }

    /// Somebody has begun to listen: all that is known of these partitions is to be told.
    pub(in crate::redis) fn tell_all(&self, has: impl Fn(u16) -> bool) {
        for partition in (0..PARTITIONS).filter(|partition| has(*partition)) {
            let marks = self.marks(partition);
            let members: Vec<_> = marks
                .all()
                .map(|(member, _)| (partition, member.clone()))
                .collect();
            drop(marks);
            self.news.extend(members);
        }
    }

    /// What another process was answered.
    pub(in crate::redis) fn heard(&self, text: &str) {
        for (member, mark) in text.lines().filter_map(parse) {
            if let Some(key) = session_of(member) {
                self.marks(keys::partition(&key)).raise(member, mark);
            }
        }
    }
}

/// Numbers with a space between; 0 for what is not known.
fn line(text: &mut String, member: &str, mark: &Mark) {
    let Mark {
        accepted_losses,
        version,
        seq,
        event,
        is_deleted,
        made_unix_ms,
    } = mark;
    let is_deleted = u8::from(*is_deleted);
    let made = made_unix_ms.unwrap_or_default();
    let (event, digest) = event.map_or((0, 0), |event| (event.seq, event.digest));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{accepted_losses} {version} {seq} {event} {digest} {is_deleted} {made} {member}"
    );
}

fn parse(line: &str) -> Option<(&str, Mark)> {
    let mut words = line.splitn(8, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (accepted_losses, version, seq) = (number()?, number()?, number()?);
    let (event, digest) = (number()?, number()?);
    let (is_deleted, made) = (number()? == 1, number()?);
    let mark = Mark {
        accepted_losses,
        version,
        seq,
        event: (event > 0).then_some(Fingerprint { seq: event, digest }),
        is_deleted,
        made_unix_ms: i64::try_from(made).ok().filter(|made| *made > 0),
    };
    Some((words.next()?, mark))
}

#[cfg(test)]
mod tests;
