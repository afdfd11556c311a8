//! Which waiting attempt gets which free slot: a pure state machine.

use cairn_rpc::Namespace;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// An executor, by the address of its process.
pub(super) type MemberId = Arc<str>;

/// A place in the queue: when the attempt began to wait, and a number that no other ticket has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket<T> {
    pub(super) since: T,
    number: u64,
    /// The level that its executor must have.
    needs: u32,
}

/// What is known of an executor.
#[derive(Debug, Default)]
struct Member {
    /// Free slots, by its latest report and the attempts that it has begun since.
    free: u32,
    /// How much it can read, by its latest report; 0 stands for 1.
    level: u32,
    /// The version of its latest report: it counts all attempts up to this one.
    version: u64,
    /// Slots that were given to attempts which have not begun yet.
    reserved: u32,
    is_draining: bool,
    /// It cannot be reached, and has not reported since.
    is_lost: bool,
}

impl Member {
    fn available(&self) -> u32 {
        self.free.saturating_sub(self.reserved)
    }
}

/// The free slots of all executors, and the attempts that wait for one.
///
/// The oldest waiting attempt of a namespace is served first, and namespaces are served in turn. A slot
/// is one of the executor that has most of them. An attempt of which no executor with a free slot can read
/// all that it is sent delays no other.
#[derive(Debug)]
pub(super) struct Queue<T> {
    members: BTreeMap<MemberId, Member>,
    waiting: HashMap<Namespace, BTreeSet<Ticket<T>>>,
    /// Namespaces with waiting attempts, the next to be served first.
    turns: VecDeque<Namespace>,
    next_number: u64,
    /// How much the tools can read that all executors use.
    tools_level: u32,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            members: BTreeMap::new(),
            waiting: HashMap::new(),
            turns: VecDeque::new(),
            next_number: 0,
            tools_level: 1,
        }
    }
}

impl<T: Copy + Ord> Queue<T> {
    /// Reserves a slot, unless all are taken or others wait for one.
    pub(super) fn reserve(&mut self, needs: u32) -> Option<MemberId> {
        match self.next() {
            None => self.reserve_most_free(needs),
            Some(_) => None,
        }
    }

    /// Puts an attempt into the queue that waits since then.
    pub(super) fn wait(&mut self, namespace: &Namespace, since: T, needs: u32) -> Ticket<T> {
        let number = self.next_number;
        self.next_number += 1;
        let ticket = Ticket {
            since,
            number,
            needs,
        };
        let waiting = self.waiting.entry(namespace.clone()).or_default();
        if waiting.is_empty() {
            self.turns.push_back(namespace.clone());
        }
        waiting.insert(ticket);
        ticket
    }

    /// Takes an attempt out of the queue; false if it has been served.
    pub(super) fn leave(&mut self, namespace: &Namespace, ticket: Ticket<T>) -> bool {
        let Some(waiting) = self.waiting.get_mut(namespace) else {
            return false;
        };
        let was_waiting = waiting.remove(&ticket);
        if waiting.is_empty() {
            self.waiting.remove(namespace);
            self.turns.retain(|turn| turn != namespace);
        }
        was_waiting
    }

    /// Reserves a slot for the next waiting attempt, if there are both.
    pub(super) fn serve(&mut self) -> Option<(Ticket<T>, MemberId)> {
        let (turn, ticket) = self.next()?;
        let member = self.reserve_most_free(ticket.needs)?;
        let namespace = self.turns.remove(turn)?;
        let waiting = self.waiting.get_mut(&namespace)?;
        waiting.remove(&ticket);
        if waiting.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        Some((ticket, member))
    }

    /// The next waiting attempt for which there is a slot, and the turn of its namespace.
    fn next(&self) -> Option<(usize, Ticket<T>)> {
        let free = self.members.values();
        let free = free.filter(|member| member.available() > 0);
        let highest = free.map(|member| self.usable_level(member)).max()?;
        let mut turns = self.turns.iter().enumerate();
        turns.find_map(|(turn, namespace)| {
            let mut waiting = self.waiting.get(namespace)?.iter();
            let ticket = waiting.find(|ticket| ticket.needs <= highest)?;
            Some((turn, *ticket))
        })
    }

    fn reserve_most_free(&mut self, needs: u32) -> Option<MemberId> {
        let free = self
            .members
            .iter()
            .filter(|(_, member)| member.available() > 0 && self.usable_level(member) >= needs);
        let (id, _) = free.max_by_key(|(_, member)| member.available())?;
        let id = id.clone();
        self.members.get_mut(&id)?.reserved += 1;
        Some(id)
    }

    /// How much an executor and its tools can read.
    fn usable_level(&self, member: &Member) -> u32 {
        member.level.max(1).min(self.tools_level)
    }

    /// The tools of all executors can read this much from now on.
    pub(super) fn set_tools_level(&mut self, level: u32) {
        self.tools_level = level.max(1);
    }

    /// An executor reports how much it can read; 0 stands for 1.
    pub(super) fn set_level(&mut self, id: &str, level: u32) {
        if let Some(member) = self.members.get_mut(id) {
            member.level = level;
        }
    }

    /// How much an executor can read, by its latest report.
    pub(super) fn level_of(&self, id: &str) -> u32 {
        self.members.get(id).map_or(1, |member| member.level.max(1))
    }

    /// An executor reports how many slots are free.
    pub(super) fn report(&mut self, id: &str, version: u64, free: u32, is_draining: bool) {
        let member = self.members.entry(Arc::from(id)).or_default();
        (member.free, member.is_draining) = (free, is_draining);
        member.version = version;
        member.is_lost = false;
    }

    /// An executor cannot be reached: it has no slots until it reports again.
    pub(super) fn lose(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            (member.free, member.is_lost) = (0, true);
        }
    }

    /// An executor is no member any more. That it drains stays known: its attempts may still run.
    pub(super) fn remove(&mut self, id: &str) {
        self.lose(id);
        self.members
            .retain(|member, state| **member != *id || state.is_draining);
    }

    /// An attempt has begun in its reserved slot. Reports from that version on count it.
    pub(super) fn begin(&mut self, id: &str, version: u64) {
        self.release(id);
        if let Some(member) = self.members.get_mut(id)
            && member.version < version
        {
            member.free = member.free.saturating_sub(1);
        }
    }

    /// An attempt is let go of by its owner. Its executor frees the slot at once, and its next report, which
    /// may be some milliseconds away, counts that.
    pub(super) fn end(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id)
            && !member.is_lost
            && !member.is_draining
        {
            member.free += 1;
        }
    }

    /// A reserved slot is not used.
    pub(super) fn release(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            member.reserved = member.reserved.saturating_sub(1);
        }
    }

    /// The executor has reported that it stops.
    pub(super) fn is_draining(&self, id: &str) -> bool {
        self.members
            .get(id)
            .is_some_and(|member| member.is_draining)
    }

    /// How many attempts wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(name: &str) -> Namespace {
        name.parse().expect("a namespace")
    }

    fn served(queue: &mut Queue<u32>) -> Vec<(u32, MemberId)> {
        let served = std::iter::from_fn(|| queue.serve());
        served.map(|(ticket, id)| (ticket.since, id)).collect()
    }

    #[test]
    fn an_attempt_goes_to_the_executor_with_most_free_slots() {
        let mut queue = Queue::<u32>::default();
        assert_eq!(queue.reserve(1), None);
        queue.report("a", 0, 1, false);
        queue.report("b", 0, 3, false);
        let ids: Vec<_> = std::iter::from_fn(|| queue.reserve(1)).collect();
        assert_eq!(ids, ["b", "b", "b", "a"].map(MemberId::from));
        queue.begin("b", 1);
        queue.release("a");
        assert_eq!(queue.reserve(1).as_deref(), Some("a"));
        assert_eq!(queue.reserve(1), None);
    }

    #[test]
    fn the_oldest_is_served_first_and_namespaces_in_turn() {
        let mut queue = Queue::default();
        for since in [1, 2, 3, 4] {
            queue.wait(&space("many"), since, 1);
        }
        let left = queue.wait(&space("few"), 5, 1);
        queue.wait(&space("few"), 6, 1);
        // One that was refused elsewhere has waited longer than those that came since.
        queue.wait(&space("many"), 0, 1);
        assert!(queue.leave(&space("few"), left));
        assert!(!queue.leave(&space("few"), left));
        queue.report("a", 0, 4, false);
        let served = served(&mut queue).into_iter();
        let served: Vec<_> = served.map(|(since, _)| since).collect();
        assert_eq!(served, [0, 6, 1, 2]);
        assert_eq!(queue.waiting(), 2);
    }

    #[test]
    fn no_attempt_overtakes_those_that_wait() {
        let mut queue = Queue::default();
        queue.wait(&space("a"), 1, 1);
        queue.report("a", 0, 1, false);
        assert_eq!(queue.reserve(1), None);
        assert_eq!(served(&mut queue), [(1, MemberId::from("a"))]);
    }

    #[test]
    fn an_attempt_waits_for_what_can_read_it_and_delays_no_other() {
        let mut queue = Queue::default();
        queue.set_tools_level(2);
        queue.wait(&space("a"), 1, 2);
        queue.wait(&space("a"), 2, 1);
        queue.wait(&space("b"), 3, 1);
        queue.report("old", 0, 3, false);
        let old = || MemberId::from("old");
        assert_eq!(served(&mut queue), [(2, old()), (3, old())]);
        assert_eq!(queue.reserve(1), Some(old()));
        queue.report("new", 0, 1, false);
        queue.set_level("new", 2);
        let new = || MemberId::from("new");
        assert_eq!(served(&mut queue), [(1, new())]);
        // Its tools are as old as others.
        queue.set_tools_level(1);
        queue.wait(&space("a"), 4, 2);
        queue.report("new", 1, 2, false);
        assert!(served(&mut queue).is_empty());
        queue.set_tools_level(2);
        assert_eq!(served(&mut queue), [(4, new())]);
    }

    #[test]
    fn slots_of_an_executor_that_is_lost_come_back_with_its_next_report() {
        let mut queue = Queue::<u32>::default();
        queue.report("a", 7, 2, false);
        assert!(queue.reserve(1).is_some());
        queue.lose("a");
        assert_eq!(queue.reserve(1), None);
        queue.release("a");
        // Another process, which begins to count anew.
        queue.report("a", 0, 2, false);
        assert!(queue.reserve(1).is_some() && queue.reserve(1).is_some());
        queue.report("a", 1, 0, true);
        assert!(queue.is_draining("a"));
        queue.remove("a");
        assert!(queue.is_draining("a"));
    }

    proptest! {
        /// Reports come before and after the answers of the attempts that they count, and after the ends
        /// of attempts. There are never more reservations and attempts than slots, but for attempts that
        /// are about to end, and in the end every free slot is given.
        #[test]
        fn no_slot_is_given_twice_and_none_is_lost(
            moves in prop::collection::vec(0..7_u8, 1..300)
        ) {
            const SLOTS: u32 = 3;
            let mut queue = Queue::default();
            let (mut reserved, mut unanswered, mut answered, mut ending) = (0, VecDeque::new(), 0, 0);
            let (mut version, mut since) = (0, 0);
            queue.report("a", version, SLOTS, false);
            for it in moves {
                let running = u32::try_from(unanswered.len()).expect("a few") + answered + ending;
                match it {
                    0 => { queue.wait(&space("n"), since, 1); since += 1; }
                    1 => reserved += u32::from(queue.reserve(1).or(queue.serve().map(|it| it.1)).is_some()),
                    // The executor takes the slot; its answer comes later.
                    2 if reserved > 0 && running < SLOTS => {
                        reserved -= 1;
                        version += 1;
                        unanswered.push_back(version);
                    }
                    3 => if let Some(version) = unanswered.pop_front() {
                        queue.begin("a", version);
                        answered += 1;
                    },
                    4 => queue.report("a", version, SLOTS - running, false),
                    // The owner lets go, and then the executor frees the slot.
                    5 if answered > 0 => { answered -= 1; ending += 1; queue.end("a"); }
                    6 if ending > 0 => { ending -= 1; version += 1; }
                    _ => {}
                }
                let running = u32::try_from(unanswered.len()).expect("a few") + answered;
                prop_assert!(reserved + running <= SLOTS);
            }
            while let Some(version) = unanswered.pop_front() {
                queue.begin("a", version);
                answered += 1;
            }
            queue.report("a", version + u64::from(ending), SLOTS - answered, false);
            while queue.serve().is_some() || queue.reserve(1).is_some() { reserved += 1; }
            prop_assert_eq!(reserved + answered, SLOTS);
        }
    }
}
