//! Which waiting attempt gets which free slot: a pure state machine.

mod members;
mod turns;

pub(crate) use members::Trial;
pub(super) use members::{Described, Extra, Held, MemberId, Members, Presence, Reported, Reserved};

use cairn_engine::pool::Need;
use cairn_rpc::Namespace;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use turns::{Entry, Turns};

/// A need of waiting attempts, with a number that no other need gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NeedId(u64);

/// What an attempt needs of the resources that carry it out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wants {
    pub(super) need: Arc<Need>,
    /// The level of release that its executor must have.
    pub(super) level: u32,
}

/// An attempt that waits.
#[derive(Debug, Clone)]
pub(super) struct Asked<T> {
    pub(super) namespace: Namespace,
    pub(super) session: Arc<str>,
    /// When it began to wait.
    pub(super) since: T,
    pub(super) wants: Wants,
}

/// A place in the queue. No two tickets are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket<T> {
    pub(super) since: T,
    number: u64,
    need: NeedId,
}

/// The needs that attempts wait with, each under one number.
#[derive(Debug, Default)]
struct Needs {
    ids: HashMap<Wants, NeedId>,
    known: BTreeMap<NeedId, Known>,
    next: u64,
}

#[derive(Debug)]
struct Known {
    wants: Wants,
    /// Attempts that wait with it.
    waiting: usize,
}

impl Needs {
    fn add(&mut self, wants: &Wants) -> NeedId {
        let next = NeedId(self.next);
        let id = *self.ids.entry(wants.clone()).or_insert(next);
        let known = self.known.entry(id).or_insert_with(|| Known {
            wants: wants.clone(),
            waiting: 0,
        });
        known.waiting += 1;
        if id == next {
            self.next += 1;
        }
        id
    }

    /// One attempt less waits with it. The last one takes the need along.
    fn remove(&mut self, id: NeedId) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        known.waiting -= 1;
        if known.waiting == 0
            && let Some(known) = self.known.remove(&id)
        {
            self.ids.remove(&known.wants);
        }
    }
}

/// The free slots of all resources, and the attempts that wait for one.
///
/// Namespaces are served in turn, then the sessions of a namespace, and then the oldest attempt of a session. A slot
/// is one of the executor that has most of them, of those that can serve. An attempt that nothing can serve now
/// delays no other: the cost of serving one grows with the needs and the namespaces that wait, and not with the
/// attempts.
#[derive(Debug)]
pub(super) struct Queue<T> {
    pub(super) members: Members,
    needs: Needs,
    turns: Turns<T>,
    next_number: u64,
    waiting: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            members: Members::default(),
            needs: Needs::default(),
            turns: Turns::default(),
            next_number: 0,
            waiting: 0,
        }
    }
}

impl<T: Copy + Ord> Queue<T> {
    /// Reserves a slot, unless none can serve or others wait for one that can serve them.
    pub(super) fn reserve(&mut self, wants: &Wants) -> Option<Reserved> {
        if self.next().is_some() {
            return None;
        }
        let choice = self.members.candidate(wants)?;
        Some(self.members.take(choice))
    }

    /// Puts an attempt into the queue.
    pub(super) fn wait(&mut self, asked: &Asked<T>) -> Ticket<T> {
        let number = self.next_number;
        self.next_number += 1;
        let need = self.needs.add(&asked.wants);
        let since = asked.since;
        let entry = Entry { since, number };
        self.turns
            .add(&asked.namespace, &asked.session, need, entry);
        self.waiting += 1;
        Ticket {
            since,
            number,
            need,
        }
    }

    /// Takes an attempt out of the queue; false if it has been served.
    pub(super) fn leave(&mut self, asked: &Asked<T>, ticket: Ticket<T>) -> bool {
        let Ticket {
            since,
            number,
            need,
        } = ticket;
        let entry = Entry { since, number };
        let was_waiting = self
            .turns
            .remove(&asked.namespace, &asked.session, need, entry);
        if was_waiting {
            self.needs.remove(need);
            self.waiting -= 1;
        }
        was_waiting
    }

    /// Reserves a slot for the next waiting attempt, if there are both.
    pub(super) fn serve(&mut self) -> Option<(Ticket<T>, Reserved)> {
        let next = self.next()?;
        let wants = &self.needs.known.get(&next.need)?.wants;
        let choice = self.members.candidate(wants)?;
        let (need, Entry { since, number }) = (next.need, next.entry);
        let turn = self.next_number;
        self.next_number += 1;
        self.turns.serve(&next, turn);
        self.needs.remove(need);
        self.waiting -= 1;
        let ticket = Ticket {
            since,
            number,
            need,
        };
        Some((ticket, self.members.take(choice)))
    }

    /// The next waiting attempt for which there is a slot.
    fn next(&self) -> Option<turns::Next<T>> {
        if self.waiting == 0 {
            return None;
        }
        let mut servable = BTreeMap::new();
        self.turns.next(|need| {
            *servable.entry(need).or_insert_with(|| {
                let known = self.needs.known.get(&need);
                known.is_some_and(|known| self.members.candidate(&known.wants).is_some())
            })
        })
    }

    /// How many attempts wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The needs of waiting attempts, each with the number of these. One need may come with several levels.
    pub(super) fn needs(&self) -> impl Iterator<Item = (&Need, usize)> {
        let known = self.needs.known.values();
        known.map(|known| (&*known.wants.need, known.waiting))
    }
}

#[cfg(test)]
mod tests;
