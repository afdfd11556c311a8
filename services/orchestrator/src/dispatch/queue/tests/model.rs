//! The queue beside a simple model of it, which looks at everything each time.

use super::*;
use crate::dispatch::queue::members::Member;
use proptest::prelude::*;
use std::collections::VecDeque;

const SPACES: [&str; 3] = ["x", "y", "z"];
const SESSIONS: [&str; 3] = ["r", "s", "t"];
const EXECUTORS: [&str; 3] = ["a", "b", "c"];
const EXTRAS: [&str; 2] = ["gpu-1", "gpu-2"];
const CAPABILITIES: [&str; 3] = ["file_ops", "gpu", "web_search"];
const TOOLS: [&str; 2] = ["read_file", "web_search"];
const SLOTS: u32 = 2;

#[derive(Debug, Clone, Copy)]
enum Move {
    /// An attempt of that session waits for a slot.
    Wait {
        space: usize,
        session: usize,
        needs: usize,
    },
    /// One of those that wait gives up.
    Leave(usize),
    /// An attempt asks without waiting.
    Reserve(usize),
    /// One with a reserved slot begins, or cannot.
    Begin(usize),
    Release(usize),
    /// One that runs is let go of, or ends, or dies with its executor.
    End(usize),
    EndByExecutor(usize),
    /// An executor reports its slots.
    Report(usize),
    Drain(usize),
    Lose(usize),
    Remove(usize),
    /// An executor can do something else from now on.
    Describe {
        executor: usize,
        capability: usize,
        tool: Option<usize>,
    },
    /// A resource is registered, or removed.
    Register {
        extra: usize,
        capability: Option<usize>,
    },
}

fn moves() -> impl Strategy<Value = Move> {
    use Move::*;
    let needs = 0..needs().len();
    prop_oneof![
        4 => (0..3_usize, 0..3_usize, needs.clone())
            .prop_map(|(space, session, needs)| Wait { space, session, needs }),
        1 => any::<usize>().prop_map(Leave),
        2 => needs.prop_map(Reserve),
        3 => any::<usize>().prop_map(Begin),
        1 => any::<usize>().prop_map(Release),
        2 => any::<usize>().prop_map(End),
        2 => any::<usize>().prop_map(EndByExecutor),
        3 => (0..3_usize).prop_map(Report),
        1 => (0..3_usize).prop_map(Drain),
        1 => (0..3_usize).prop_map(Lose),
        1 => (0..3_usize).prop_map(Remove),
        2 => (0..3_usize, 0..3_usize, prop::option::of(0..2_usize))
            .prop_map(|(executor, capability, tool)| Describe { executor, capability, tool }),
        2 => (0..2_usize, prop::option::of(0..3_usize))
            .prop_map(|(extra, capability)| Register { extra, capability }),
    ]
}

fn needs() -> Vec<Wants> {
    vec![
        no_need(),
        level(2),
        capabilities(&["file_ops"]),
        capabilities(&["gpu"]),
        capabilities(&["gpu>=2"]),
        capabilities(&["gpu", "web_search"]),
        tool("read_file"),
        tool("web_search"),
    ]
}

/// An executor as it is, and not as it was reported.
#[derive(Debug, Clone, Default)]
struct Process {
    has_reported: bool,
    is_lost: bool,
    is_draining: bool,
    version: u64,
    /// What its slots are taken by.
    running: u32,
    capability: Option<&'static str>,
    tool: Option<&'static str>,
    level: u32,
}

#[derive(Debug)]
struct Waits {
    asked: Asked<u32>,
    ticket: Ticket<u32>,
}

/// A slot that was given, with all that it is a slot of.
#[derive(Debug)]
struct Given {
    reserved: Reserved,
    executor: usize,
    /// How often its executor had been removed.
    life: u32,
}

#[derive(Debug, Default)]
struct World {
    queue: Queue<u32>,
    now: u32,
    processes: [Process; 3],
    lives: [u32; 3],
    extras: [Option<(&'static str, u32)>; 2],
    waits: Vec<Waits>,
    reserved: Vec<Given>,
    running: Vec<Given>,
    /// Namespaces that wait, and the turn of each of their sessions.
    order: VecDeque<Namespace>,
    turns: HashMap<(Namespace, Arc<str>), (u32, u64)>,
    next: u64,
}

impl World {
    /// The slots of an executor that nobody has, as the queue can know them.
    fn free(&self, executor: usize) -> u32 {
        let process = &self.processes[executor];
        let is_of = |it: &&Given| it.executor == executor && it.life == self.lives[executor];
        let reserved = self.reserved.iter().filter(is_of).count();
        let taken = process.running + u32::try_from(reserved).expect("a few");
        match process.has_reported && !process.is_lost && !process.is_draining {
            true => SLOTS.saturating_sub(taken),
            false => 0,
        }
    }

    fn free_of_extra(&self, extra: usize) -> u32 {
        let name = EXTRAS[extra];
        let given = self.reserved.iter().chain(&self.running);
        let taken = given.filter(|it| it.reserved.extras.iter().any(|id| **id == *name));
        let taken = u32::try_from(taken.count()).expect("a few");
        self.extras[extra].map_or(0, |(_, slots)| slots.saturating_sub(taken))
    }

    /// The executors that can serve now, each with the registered resources that it needs besides.
    fn able(&self, wants: &Wants) -> Vec<(usize, BTreeSet<usize>)> {
        let executors = 0..EXECUTORS.len();
        let able = executors.filter_map(|executor| {
            let process = &self.processes[executor];
            let is_fit = self.free(executor) > 0
                && process.level >= wants.level
                && (wants.need.tool.as_deref())
                    .is_none_or(|tool| process.tool.is_none_or(|may| may == tool));
            if !is_fit {
                return None;
            }
            let lacking = wants.need.capabilities.iter();
            let lacking = lacking
                .filter(|&(name, &level)| level > 1 || process.capability != Some(name.as_str()));
            let mut extras = BTreeSet::new();
            for (name, &level) in lacking {
                let having = (0..EXTRAS.len()).filter(|&extra| {
                    let is = self.extras[extra].is_some_and(|(has, _)| has == name && level <= 1);
                    is && self.free_of_extra(extra) > 0
                });
                extras.insert(having.max_by_key(|&extra| (self.free_of_extra(extra), extra))?);
            }
            Some((executor, extras))
        });
        able.collect()
    }

    /// The place of the attempt that is to be served next.
    fn next_of_all(&self) -> Option<usize> {
        self.order.iter().find_map(|space| {
            let of_space = self.waits.iter().enumerate().filter(|(_, it)| {
                it.asked.namespace == *space && !self.able(&it.asked.wants).is_empty()
            });
            let turn = |it: &Waits| self.turns[&(space.clone(), it.asked.session.clone())];
            let next = of_space.min_by_key(|(_, it)| (turn(it), it.ticket.since, it.ticket.number));
            next.map(|(place, _)| place)
        })
    }

    /// Forgets the turns of what does not wait any more.
    fn tidy(&mut self) {
        let waits = &self.waits;
        self.order
            .retain(|space| waits.iter().any(|it| it.asked.namespace == *space));
        self.turns.retain(|(space, session), _| {
            let is_of = |it: &Waits| it.asked.namespace == *space && it.asked.session == *session;
            waits.iter().any(is_of)
        });
    }

    fn wait(&mut self, asked: Asked<u32>) {
        let ticket = self.queue.wait(&asked);
        if !self.order.contains(&asked.namespace) {
            self.order.push_back(asked.namespace.clone());
        }
        let key = (asked.namespace.clone(), asked.session.clone());
        let turn = (ticket.since, ticket.number);
        self.turns.entry(key).or_insert(turn);
        self.next = self.next.max(ticket.number + 1);
        self.waits.push(Waits { asked, ticket });
    }

    /// The queue serves as the model does, until neither serves any more.
    fn serve_all(&mut self) -> Result<(), TestCaseError> {
        loop {
            let expected = self.next_of_all();
            let served = self.queue.serve();
            let Some(place) = expected else {
                prop_assert!(served.is_none(), "{served:?}");
                return Ok(());
            };
            let waits = self.waits.remove(place);
            let Some((ticket, reserved)) = served else {
                return Err(TestCaseError::fail(format!("{waits:?} is not served")));
            };
            prop_assert_eq!(ticket, waits.ticket);
            self.check_given(&reserved, &waits.asked.wants)?;
            self.give(reserved);
            let space = waits.asked.namespace.clone();
            self.order.retain(|it| *it != space);
            self.order.push_back(space.clone());
            let latest = self.now;
            self.turns
                .insert((space, waits.asked.session.clone()), (latest, self.next));
            self.next += 1;
            self.tidy();
        }
    }

    /// It is what has most free slots, of those that can serve, and gives nothing that it does not have.
    fn check_given(&self, reserved: &Reserved, wants: &Wants) -> Result<(), TestCaseError> {
        let able = self.able(wants);
        let best = able.iter().max_by_key(|(it, _)| (self.free(*it), *it));
        let (executor, extras) = best.expect("one can serve");
        prop_assert_eq!(&*reserved.member, EXECUTORS[*executor]);
        let given: BTreeSet<&str> = reserved.extras.iter().map(|id| &**id).collect();
        let expected: BTreeSet<&str> = extras.iter().map(|&extra| EXTRAS[extra]).collect();
        prop_assert_eq!(given, expected);
        Ok(())
    }

    fn give(&mut self, reserved: Reserved) {
        let mut names = EXECUTORS.iter();
        let executor = names.position(|name| **name == *reserved.member);
        let executor = executor.expect("an executor");
        let life = self.lives[executor];
        self.reserved.push(Given {
            reserved,
            executor,
            life,
        });
    }

    fn report(&mut self, executor: usize) {
        let process = &mut self.processes[executor];
        (process.has_reported, process.is_lost) = (true, false);
        let reported = Reported {
            version: process.version,
            slots: SLOTS,
            free: match process.is_draining {
                true => 0,
                false => SLOTS - process.running,
            },
            level: process.level,
            is_draining: process.is_draining,
        };
        let id: MemberId = EXECUTORS[executor].into();
        self.queue.members.report(&id, reported);
        self.describe(executor);
    }

    fn describe(&mut self, executor: usize) {
        let Process {
            capability, tool, ..
        } = self.processes[executor];
        let capability: Vec<&str> = capability.into_iter().collect();
        let tool: Vec<&str> = tool.into_iter().collect();
        let id = EXECUTORS[executor];
        describe(&mut self.queue, id, &capability, &tool);
    }

    /// Its attempts end with it.
    fn kill(&mut self, executor: usize) {
        let all = std::mem::take(&mut self.running);
        let is_dead = |it: &Given| it.executor == executor;
        let (dead, running): (Vec<_>, Vec<_>) = all.into_iter().partition(is_dead);
        self.running = running;
        for it in dead {
            self.queue.members.end_by_executor(&it.reserved);
        }
        let process = &mut self.processes[executor];
        (process.running, process.version) = (0, 0);
        (process.is_lost, process.is_draining) = (true, false);
    }

    fn make(&mut self, it: Move) -> Result<(), TestCaseError> {
        match it {
            Move::Wait {
                space,
                session,
                needs: need,
            } => {
                self.now += 1;
                let wants = needs().swap_remove(need);
                self.wait(asked(SPACES[space], SESSIONS[session], self.now, wants));
            }
            Move::Leave(which) if !self.waits.is_empty() => {
                let waits = self.waits.remove(which % self.waits.len());
                prop_assert!(self.queue.leave(&waits.asked, waits.ticket));
                self.tidy();
            }
            Move::Reserve(need) => {
                let wants = needs().swap_remove(need);
                let is_able = !self.able(&wants).is_empty();
                let reserved = self.queue.reserve(&wants);
                prop_assert_eq!(reserved.is_some(), is_able, "all that could be served was");
                if let Some(reserved) = reserved {
                    self.check_given(&reserved, &wants)?;
                    self.give(reserved);
                }
            }
            Move::Begin(which) if !self.reserved.is_empty() => {
                let given = self.reserved.remove(which % self.reserved.len());
                self.begin(given);
            }
            Move::Release(which) if !self.reserved.is_empty() => {
                let given = self.reserved.remove(which % self.reserved.len());
                self.queue.members.release(&given.reserved);
            }
            Move::End(which) if !self.running.is_empty() => {
                let given = self.running.remove(which % self.running.len());
                self.queue.members.end(&given.reserved);
                let process = &mut self.processes[given.executor];
                (process.running, process.version) = (process.running - 1, process.version + 1);
            }
            Move::EndByExecutor(which) if !self.running.is_empty() => {
                let given = self.running.remove(which % self.running.len());
                self.queue.members.end_by_executor(&given.reserved);
                let process = &mut self.processes[given.executor];
                (process.running, process.version) = (process.running - 1, process.version + 1);
                self.report_if_there(given.executor);
            }
            it => self.change_members(it),
        }
        Ok(())
    }

    fn change_members(&mut self, it: Move) {
        match it {
            Move::Report(executor) => self.report(executor),
            Move::Drain(executor) => {
                let process = &mut self.processes[executor];
                process.is_draining = process.has_reported && !process.is_lost;
                self.report_if_there(executor);
            }
            Move::Lose(executor) => {
                self.kill(executor);
                self.queue.members.lose(EXECUTORS[executor]);
            }
            Move::Remove(executor) => {
                self.kill(executor);
                self.queue.members.remove(EXECUTORS[executor]);
                self.lives[executor] += 1;
                let level = self.processes[executor].level;
                self.processes[executor] = Process {
                    level,
                    ..Process::default()
                };
            }
            Move::Describe {
                executor,
                capability,
                tool,
            } => {
                let process = &mut self.processes[executor];
                process.capability = Some(CAPABILITIES[capability]);
                process.tool = tool.map(|tool| TOOLS[tool]);
                self.describe(executor);
            }
            Move::Register { extra, capability } => {
                let id: Arc<str> = EXTRAS[extra].into();
                self.extras[extra] = capability.map(|it| (CAPABILITIES[it], 2));
                match self.extras[extra] {
                    Some((capability, slots)) => {
                        register(&mut self.queue, &id, &[capability], slots);
                    }
                    None => self.queue.members.set_extra(&id, None),
                }
            }
            // There is nothing to be moved.
            _ => {}
        }
    }

    /// The executor takes the attempt, unless it is not there any more or stops.
    fn begin(&mut self, given: Given) {
        let executor = given.executor;
        let process = &mut self.processes[executor];
        let is_there = process.has_reported && !process.is_lost && !process.is_draining;
        if is_there && given.life == self.lives[executor] {
            (process.running, process.version) = (process.running + 1, process.version + 1);
            self.queue.members.begin(&given.reserved, process.version);
            self.running.push(given);
        } else {
            self.queue.members.release(&given.reserved);
        }
    }

    fn report_if_there(&mut self, executor: usize) {
        let process = &self.processes[executor];
        if process.has_reported && !process.is_lost {
            self.report(executor);
        }
    }
}

proptest! {
    /// The model serves whatever can be served, in turn. The queue does the same: nothing goes to an executor that
    /// lacks a capability, the tool or the level, no slot is given twice and none is lost.
    #[test]
    fn the_queue_serves_as_its_model_does(moves in prop::collection::vec(moves(), 1..200)) {
        let mut world = World::default();
        for (process, level) in world.processes.iter_mut().zip([1, 2, 2]) {
            process.level = level;
        }
        world.queue.members.set_tools_level(2);
        for it in moves {
            world.make(it)?;
            world.serve_all()?;
            for (executor, id) in EXECUTORS.into_iter().enumerate() {
                let free = world.queue.members.get(id).map_or(0, Member::available);
                prop_assert_eq!(free, world.free(executor), "{} after {:?}", id, it);
            }
            for (extra, id) in EXTRAS.into_iter().enumerate() {
                let free = world.queue.members.free_of_extra(id);
                prop_assert_eq!(free, world.free_of_extra(extra), "{} after {:?}", id, it);
            }
        }
    }

    /// Reports come before and after the answers of the attempts that they count, and after the ends
    /// of attempts. There are never more reservations and attempts than slots, but for attempts that
    /// are about to end, and in the end every free slot is given.
    #[test]
    fn no_slot_is_given_twice_and_none_is_lost(
        moves in prop::collection::vec(0..7_u8, 1..300)
    ) {
        const SLOTS: u32 = 3;
        let wants = no_need();
        let mut queue = Queue::default();
        let (mut reserved, mut unanswered) = (Vec::new(), VecDeque::new());
        let (mut answered, mut ending) = (Vec::new(), 0);
        let (mut version, mut since) = (0, 0);
        let count = |len: usize| u32::try_from(len).expect("a few");
        report(&mut queue, "a", version, SLOTS);
        for it in moves {
            let running = count(unanswered.len() + answered.len()) + ending;
            match it {
                0 => { queue.wait(&asked("n", "s", since, wants.clone())); since += 1; }
                1 => reserved.extend(queue.reserve(&wants).or(queue.serve().map(|it| it.1))),
                // The executor takes the slot; its answer comes later.
                2 if !reserved.is_empty() && running < SLOTS => {
                    version += 1;
                    unanswered.extend(reserved.pop().map(|it| (it, version)));
                }
                3 => if let Some((it, version)) = unanswered.pop_front() {
                    queue.members.begin(&it, version);
                    answered.push(it);
                },
                4 => report(&mut queue, "a", version, SLOTS - running),
                // The owner lets go, and then the executor frees the slot.
                5 => if let Some(it) = answered.pop() {
                    ending += 1;
                    queue.members.end(&it);
                },
                6 if ending > 0 => { ending -= 1; version += 1; }
                _ => {}
            }
            prop_assert!(count(reserved.len() + unanswered.len() + answered.len()) <= SLOTS);
        }
        while let Some((it, version)) = unanswered.pop_front() {
            queue.members.begin(&it, version);
            answered.push(it);
        }
        report(&mut queue, "a", version + u64::from(ending), SLOTS - count(answered.len()));
        let rest = std::iter::from_fn(|| queue.serve().map(|it| it.1).or_else(|| queue.reserve(&wants)));
        reserved.extend(rest);
        prop_assert_eq!(count(reserved.len() + answered.len()), SLOTS);
    }
}
