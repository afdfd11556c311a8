//! Whose turn it is: namespaces, then their sessions, then the oldest attempt of a session.

use super::NeedId;
use cairn_rpc::Namespace;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A waiting attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry<T> {
    pub(super) since: T,
    pub(super) number: u64,
}

/// The turn of a session, unlike that of any other of its namespace. A session that has just been served comes after
/// all that wait; one that comes anew takes its turn by the time since which its first attempt waits.
type Turn<T> = Entry<T>;

/// The attempts that wait, by namespace, session and need.
#[derive(Debug)]
pub(super) struct Turns<T> {
    waiting: HashMap<Namespace, OfNamespace<T>>,
    /// Namespaces with waiting attempts, the next to be served first.
    order: VecDeque<Namespace>,
    /// The latest time since which an attempt has waited.
    latest: Option<T>,
}

#[derive(Debug)]
struct OfNamespace<T> {
    sessions: HashMap<Arc<str>, OfSession<T>>,
    /// The sessions with attempts of a need, in their turns.
    by_need: BTreeMap<NeedId, BTreeMap<Turn<T>, Arc<str>>>,
}

#[derive(Debug)]
struct OfSession<T> {
    turn: Turn<T>,
    entries: BTreeMap<NeedId, BTreeSet<Entry<T>>>,
}

/// The attempt that is to be served next.
#[derive(Debug)]
pub(super) struct Next<T> {
    /// The place of its namespace in the order.
    place: usize,
    session: Arc<str>,
    pub(super) need: NeedId,
    pub(super) entry: Entry<T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            latest: None,
        }
    }
}

impl<T> Default for OfNamespace<T> {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            by_need: BTreeMap::new(),
        }
    }
}

impl<T: Copy + Ord> Turns<T> {
    pub(super) fn add(
        &mut self,
        namespace: &Namespace,
        session: &Arc<str>,
        need: NeedId,
        entry: Entry<T>,
    ) {
        self.latest = self.latest.max(Some(entry.since));
        let waiting = self.waiting.entry(namespace.clone()).or_insert_with(|| {
            self.order.push_back(namespace.clone());
            OfNamespace::default()
        });
        let of_session = waiting.sessions.entry(session.clone());
        let of_session = of_session.or_insert_with(|| OfSession {
            turn: entry,
            entries: BTreeMap::new(),
        });
        of_session.entries.entry(need).or_default().insert(entry);
        let by_need = waiting.by_need.entry(need).or_default();
        by_need.insert(of_session.turn, session.clone());
    }

    /// Returns whether it was there.
    pub(super) fn remove(
        &mut self,
        namespace: &Namespace,
        session: &Arc<str>,
        need: NeedId,
        entry: Entry<T>,
    ) -> bool {
        let Some(waiting) = self.waiting.get_mut(namespace) else {
            return false;
        };
        let was_there = waiting.remove(session, need, entry);
        if waiting.sessions.is_empty() {
            self.waiting.remove(namespace);
            self.order.retain(|turn| turn != namespace);
        }
        was_there
    }

    /// The next attempt of those whose needs can be served.
    pub(super) fn next(&self, mut is_servable: impl FnMut(NeedId) -> bool) -> Option<Next<T>> {
        self.order.iter().enumerate().find_map(|(place, turn)| {
            let waiting = self.waiting.get(turn)?;
            let mut first = None;
            for (need, sessions) in &waiting.by_need {
                if let Some((turn, session)) = sessions.first_key_value()
                    && is_servable(*need)
                    && first.is_none_or(|(earliest, _)| *turn < earliest)
                {
                    first = Some((*turn, session));
                }
            }
            let (_, session) = first?;
            let entries = waiting.sessions.get(session)?.entries.iter();
            let oldest = entries.filter_map(|(need, entries)| Some((*entries.first()?, *need)));
            let (entry, need) = oldest.filter(|(_, need)| is_servable(*need)).min()?;
            Some(Next {
                place,
                session: session.clone(),
                need,
                entry,
            })
        })
    }

    /// Takes the attempt out. Its session and its namespace come after all others of today, the session with the
    /// number of its turn.
    pub(super) fn serve(&mut self, next: &Next<T>, number: u64) {
        let Some(namespace) = self.order.remove(next.place) else {
            return;
        };
        let Some(waiting) = self.waiting.get_mut(&namespace) else {
            return;
        };
        waiting.remove(&next.session, next.need, next.entry);
        if let Some(since) = self.latest {
            waiting.move_to(&next.session, Turn { since, number });
        }
        if waiting.sessions.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.order.push_back(namespace);
        }
    }
}

impl<T: Copy + Ord> OfNamespace<T> {
    fn remove(&mut self, session: &Arc<str>, need: NeedId, entry: Entry<T>) -> bool {
        let Some(of_session) = self.sessions.get_mut(session) else {
            return false;
        };
        let Some(entries) = of_session.entries.get_mut(&need) else {
            return false;
        };
        let was_there = entries.remove(&entry);
        if entries.is_empty() {
            of_session.entries.remove(&need);
            let turn = of_session.turn;
            if let Some(sessions) = self.by_need.get_mut(&need) {
                sessions.remove(&turn);
                if sessions.is_empty() {
                    self.by_need.remove(&need);
                }
            }
        }
        if of_session.entries.is_empty() {
            self.sessions.remove(session);
        }
        was_there
    }

    /// Gives a session another turn, for each need that it waits with.
    fn move_to(&mut self, session: &Arc<str>, turn: Turn<T>) {
        let Some(of_session) = self.sessions.get_mut(session) else {
            return;
        };
        let before = std::mem::replace(&mut of_session.turn, turn);
        for need in of_session.entries.keys() {
            if let Some(sessions) = self.by_need.get_mut(need) {
                sessions.remove(&before);
                sessions.insert(turn, session.clone());
            }
        }
    }
}
