//! The resources and their slots.

use super::Wants;
use cairn_engine::pool::{Capabilities, Need, ResourceState, ResourceTools};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An executor, by the address of its process.
pub(in crate::dispatch) type MemberId = Arc<str>;

/// What is known of an executor.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct Member {
    /// Unlike that of any other, also of one that had its address before: slots of that one are not its own.
    generation: u64,
    /// All slots, by its latest report.
    pub(in crate::dispatch) slots: u32,
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
    /// It has reported.
    has_reported: bool,
    /// It is no member any more, and some of its attempts may still run.
    is_gone: bool,
    described: Described,
}

/// An executor as a resource of the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::dispatch) struct Described {
    pub(in crate::dispatch) id: Arc<str>,
    pub(in crate::dispatch) tools: Arc<ResourceTools>,
    pub(in crate::dispatch) capabilities: Arc<Capabilities>,
}

/// A report of an executor.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::dispatch) struct Reported {
    /// The report counts all attempts up to this one.
    pub(in crate::dispatch) version: u64,
    pub(in crate::dispatch) slots: u32,
    pub(in crate::dispatch) free: u32,
    /// How much it can read; 0 stands for 1.
    pub(in crate::dispatch) level: u32,
    pub(in crate::dispatch) is_draining: bool,
}

impl Member {
    fn new(id: &MemberId, generation: u64) -> Self {
        let described = Described {
            id: id.clone(),
            ..Described::default()
        };
        Self {
            generation,
            slots: 0,
            free: 0,
            level: 0,
            version: 0,
            reserved: 0,
            is_draining: false,
            is_lost: false,
            has_reported: false,
            is_gone: false,
            described,
        }
    }

    /// Slots that an attempt can get.
    pub(in crate::dispatch) fn available(&self) -> u32 {
        self.free.saturating_sub(self.reserved)
    }

    /// What it does with new work.
    pub(in crate::dispatch) fn state(&self) -> ResourceState {
        match self.available() {
            _ if self.is_lost || !self.has_reported => ResourceState::Error,
            _ if self.is_draining => ResourceState::Draining,
            0 => ResourceState::Busy,
            _ => ResourceState::Available,
        }
    }

    pub(in crate::dispatch) fn described(&self) -> &Described {
        &self.described
    }

    fn has_answered(&self) -> bool {
        self.has_reported || self.is_lost
    }

    fn may_use_tool_of(&self, need: &Need) -> bool {
        let tool = need.tool.as_deref();
        // What it may use is not known before its first report, and that is waited for.
        tool.is_none_or(|tool| !self.has_reported || self.described.tools.allows(tool))
    }
}

/// A registered resource that gives capabilities to attempts of executors that lack them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dispatch) struct Extra {
    pub(in crate::dispatch) slots: u32,
    pub(in crate::dispatch) capabilities: Arc<Capabilities>,
}

#[derive(Debug, Clone)]
struct Slots {
    taken: u32,
    /// None once it is not registered any more, while attempts have slots of it.
    extra: Option<Extra>,
}

impl Slots {
    fn free(&self) -> u32 {
        let slots = self.extra.as_ref().map_or(0, |extra| extra.slots);
        slots.saturating_sub(self.taken)
    }

    fn has(&self, capability: &str, level: u32) -> bool {
        let extra = self.extra.as_ref();
        extra.is_some_and(|extra| has(&extra.capabilities, capability, level))
    }
}

/// The resources that would carry out an attempt.
#[derive(Debug)]
pub(super) struct Choice {
    member: MemberId,
    extras: Vec<Arc<str>>,
}

/// The slots of one attempt, until they are released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dispatch) struct Reserved {
    pub(in crate::dispatch) member: MemberId,
    generation: u64,
    /// Registered resources that give it further capabilities.
    pub(in crate::dispatch) extras: Vec<Arc<str>>,
}

/// The resources of an attempt, without a right to their slots.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct Held {
    member: MemberId,
    generation: u64,
    extras: Vec<Arc<str>>,
}

impl Reserved {
    pub(in crate::dispatch) fn held(&self) -> Held {
        Held {
            member: self.member.clone(),
            generation: self.generation,
            extras: self.extras.clone(),
        }
    }
}

/// Whether resources have what an attempt needs, free or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum Presence {
    /// Some that can be reached.
    Reached,
    /// Some, of which none can be reached.
    Lost,
    /// None.
    Absent,
}

/// All resources with slots.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct Members {
    executors: BTreeMap<MemberId, Member>,
    extras: BTreeMap<Arc<str>, Slots>,
    /// The registered resources of each capability.
    having: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// How much the tools can read that all executors use.
    tools_level: u32,
    next_generation: u64,
    /// Resources, by their ids, whose slots or state changed since [`Members::take_touched`].
    touched: BTreeSet<Arc<str>>,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            executors: BTreeMap::new(),
            extras: BTreeMap::new(),
            having: BTreeMap::new(),
            tools_level: 1,
            next_generation: 0,
            touched: BTreeSet::new(),
        }
    }
}

impl Members {
    /// The resources for such an attempt: of the executors that can serve it, the one with most free slots, and for
    /// each capability that it lacks the registered resource with most. Of equals it is the last by id, as in
    /// `PoolView::candidate`.
    pub(super) fn candidate(&self, wants: &Wants) -> Option<Choice> {
        let can_serve = |(_, member): &(&MemberId, &Member)| {
            member.available() > 0
                && self.usable_level(member) >= wants.level
                && member.may_use_tool_of(&wants.need)
                && self.gives(&member.described.capabilities, &wants.need, |it| {
                    it.free() > 0
                })
        };
        let able = self.executors.iter().filter(can_serve);
        let (id, member) = able.max_by(|(_, a), (_, b)| {
            let by_id = a.described.id.cmp(&b.described.id);
            a.available().cmp(&b.available()).then(by_id)
        })?;
        Some(Choice {
            member: id.clone(),
            extras: self.extras_for(&member.described.capabilities, &wants.need)?,
        })
    }

    /// Each capability is among these, or counting registered resources have it.
    fn gives(
        &self,
        capabilities: &Capabilities,
        need: &Need,
        counts: impl Fn(&Slots) -> bool,
    ) -> bool {
        lacking(capabilities, need)
            .all(|(name, level)| self.having(name, level).any(|(_, it)| counts(it)))
    }

    fn extras_for(&self, capabilities: &Capabilities, need: &Need) -> Option<Vec<Arc<str>>> {
        let mut extras: Vec<Arc<str>> = Vec::new();
        for (name, level) in lacking(capabilities, need) {
            let free = self.having(name, level).filter(|(_, it)| it.free() > 0);
            let (id, _) = free.max_by_key(|(_, it)| it.free())?;
            if !extras.contains(id) {
                extras.push(id.clone());
            }
        }
        Some(extras)
    }

    fn having(&self, name: &str, level: u32) -> impl Iterator<Item = (&Arc<str>, &Slots)> {
        let ids = self.having.get(name).into_iter().flatten();
        let extras = ids.filter_map(|id| self.extras.get_key_value(id));
        extras.filter(move |(_, it)| it.has(name, level))
    }

    /// Takes the slots.
    pub(super) fn take(&mut self, choice: Choice) -> Reserved {
        let Choice { member, extras } = choice;
        let generation = self.executors.get_mut(&member).map_or(0, |it| {
            it.reserved += 1;
            self.touched.insert(it.described.id.clone());
            it.generation
        });
        for id in &extras {
            if let Some(slots) = self.extras.get_mut(id) {
                slots.taken += 1;
                self.touched.insert(id.clone());
            }
        }
        Reserved {
            member,
            generation,
            extras,
        }
    }

    /// Whether there are resources for such an attempt, free or not. A need without capabilities, and one of a
    /// tool alone, is met by executors that cannot be reached, and waits for the first one.
    pub(in crate::dispatch) fn presence(&self, need: &Need) -> Presence {
        let mut presence = Presence::Absent;
        let members = self.executors.values().filter(|member| !member.is_gone);
        let mut has_members = false;
        for member in members {
            has_members = true;
            let serves = member.may_use_tool_of(need)
                && self.gives(&member.described.capabilities, need, |_| true);
            match member.is_lost || !member.has_reported {
                _ if !serves => {}
                true => presence = Presence::Lost,
                false => return Presence::Reached,
            }
        }
        match presence {
            Presence::Lost if need.capabilities.is_empty() => Presence::Reached,
            Presence::Absent if need.capabilities.is_empty() && !has_members => Presence::Reached,
            presence => presence,
        }
    }

    /// The resources that an attempt has still have the capabilities that it needs. An executor that cannot be
    /// reached, or was replaced, loses its attempts in another way.
    pub(in crate::dispatch) fn still_serves(&self, held: &Held, need: &Need) -> bool {
        let member = self.executors.get(&held.member);
        let Some(member) = member.filter(|it| it.generation == held.generation && !it.is_gone)
        else {
            return true;
        };
        let extras = || held.extras.iter().filter_map(|id| self.extras.get(id));
        lacking(&member.described.capabilities, need)
            .all(|(name, level)| extras().any(|extra| extra.has(name, level)))
    }

    /// How much an executor and its tools can read.
    fn usable_level(&self, member: &Member) -> u32 {
        member.level.max(1).min(self.tools_level)
    }

    /// The tools of all executors can read this much from now on.
    pub(in crate::dispatch) fn set_tools_level(&mut self, level: u32) {
        self.tools_level = level.max(1);
    }

    /// How much an executor can read, by its latest report.
    pub(in crate::dispatch) fn level_of(&self, id: &str) -> u32 {
        let member = self.executors.get(id);
        member.map_or(1, |member| member.level.max(1))
    }

    /// An executor is a member from now on. It has no slots before it reports.
    pub(in crate::dispatch) fn join(&mut self, id: &MemberId) -> &mut Member {
        let generation = self.next_generation;
        let member = self.executors.entry(id.clone()).or_insert_with(|| {
            self.next_generation += 1;
            Member::new(id, generation)
        });
        member.is_gone = false;
        member
    }

    /// An executor reports.
    pub(in crate::dispatch) fn report(&mut self, id: &MemberId, reported: Reported) {
        let member = self.join(id);
        (member.free, member.slots) = (reported.free, reported.slots);
        (member.version, member.level) = (reported.version, reported.level);
        member.is_draining = reported.is_draining;
        (member.is_lost, member.has_reported) = (false, true);
        let id = member.described.id.clone();
        self.touched.insert(id);
    }

    /// What an executor may use and can do.
    pub(in crate::dispatch) fn describe(&mut self, id: &MemberId, described: Described) {
        if let Some(member) = self.executors.get_mut(id)
            && member.described != described
        {
            self.touched.insert(member.described.id.clone());
            self.touched.insert(described.id.clone());
            member.described = described;
        }
    }

    /// A registered resource is another one now, or none.
    pub(in crate::dispatch) fn set_extra(&mut self, id: &Arc<str>, extra: Option<Extra>) {
        let before = self.extras.get(id).and_then(|it| it.extra.as_ref());
        if before == extra.as_ref() {
            return;
        }
        for name in before.into_iter().flat_map(|it| it.capabilities.keys()) {
            if let Some(ids) = self.having.get_mut(name) {
                ids.remove(id);
                if ids.is_empty() {
                    self.having.remove(name);
                }
            }
        }
        for name in extra.iter().flat_map(|it| it.capabilities.keys()) {
            let ids = self.having.entry(name.clone()).or_default();
            ids.insert(id.clone());
        }
        let slots = self.extras.entry(id.clone());
        let slots = slots.or_insert_with(|| Slots {
            taken: 0,
            extra: None,
        });
        slots.extra = extra;
        self.forget_unused(id);
        self.touched.insert(id.clone());
    }

    /// Free slots of a registered resource.
    pub(in crate::dispatch) fn free_of_extra(&self, id: &str) -> u32 {
        self.extras.get(id).map_or(0, Slots::free)
    }

    fn forget_unused(&mut self, id: &str) {
        keep_if(&mut self.extras, id, |slots| {
            slots.taken > 0 || slots.extra.is_some()
        });
    }

    /// An executor cannot be reached: it has no slots until it reports again. Returns whether it could be reached before.
    pub(in crate::dispatch) fn lose(&mut self, id: &str) -> bool {
        let Some(member) = self.executors.get_mut(id) else {
            return false;
        };
        member.free = 0;
        self.touched.insert(member.described.id.clone());
        !std::mem::replace(&mut member.is_lost, true)
    }

    /// An executor has fewer slots than it reported: none until it reports again.
    pub(in crate::dispatch) fn doubt(&mut self, id: &str) {
        if let Some(member) = self.executors.get_mut(id) {
            member.free = 0;
            self.touched.insert(member.described.id.clone());
        }
    }

    /// An executor is no member any more. That it drains stays known: its attempts may still run.
    pub(in crate::dispatch) fn remove(&mut self, id: &str) {
        self.lose(id);
        if let Some(member) = self.executors.get_mut(id) {
            member.is_gone = true;
            // What has its address next is another process.
            (member.generation, member.reserved) = (self.next_generation, 0);
            self.next_generation += 1;
        }
        keep_if(&mut self.executors, id, |member| member.is_draining);
    }

    /// An attempt has begun in its reserved slot. Reports from that version on count it.
    pub(in crate::dispatch) fn begin(&mut self, reserved: &Reserved, version: u64) {
        if let Some(member) = self.member_of(reserved) {
            member.reserved = member.reserved.saturating_sub(1);
            if member.version < version {
                member.free = member.free.saturating_sub(1);
            }
        }
    }

    /// An attempt is let go of by its owner. Its executor frees the slot at once, and its next report, which
    /// may be some milliseconds away, counts that.
    pub(in crate::dispatch) fn end(&mut self, reserved: &Reserved) {
        if let Some(member) = self.member_of(reserved)
            && !member.is_lost
            && !member.is_draining
        {
            member.free += 1;
        }
        self.release_extras(reserved);
    }

    /// An attempt has ended, and its executor reports that itself.
    pub(in crate::dispatch) fn end_by_executor(&mut self, reserved: &Reserved) {
        self.release_extras(reserved);
    }

    /// A reserved slot is not used.
    pub(in crate::dispatch) fn release(&mut self, reserved: &Reserved) {
        if let Some(member) = self.member_of(reserved) {
            member.reserved = member.reserved.saturating_sub(1);
        }
        self.release_extras(reserved);
    }

    fn release_extras(&mut self, reserved: &Reserved) {
        for id in &reserved.extras {
            if let Some(slots) = self.extras.get_mut(id) {
                slots.taken = slots.taken.saturating_sub(1);
                self.touched.insert(id.clone());
            }
            self.forget_unused(id);
        }
    }

    /// The member whose slot it is, unless another process has its address since.
    fn member_of(&mut self, reserved: &Reserved) -> Option<&mut Member> {
        let member = self.executors.get_mut(&reserved.member);
        let member = member.filter(|it| it.generation == reserved.generation)?;
        self.touched.insert(member.described.id.clone());
        Some(member)
    }

    /// The executor has reported that it stops.
    pub(in crate::dispatch) fn is_draining(&self, id: &str) -> bool {
        let member = self.executors.get(id);
        member.is_some_and(|member| member.is_draining)
    }

    /// An executor that is a member.
    pub(in crate::dispatch) fn get(&self, id: &str) -> Option<&Member> {
        self.executors.get(id).filter(|member| !member.is_gone)
    }

    /// The executors have reported, or cannot be reached.
    pub(in crate::dispatch) fn have_answered(&self) -> bool {
        let mut members = self.executors.values().filter(|member| !member.is_gone);
        members.all(Member::has_answered)
    }

    /// Resources, by their ids, whose slots or state changed since the last time.
    pub(in crate::dispatch) fn take_touched(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }
}

/// A copy of the slots. Taking some of them takes none from an attempt.
#[derive(Debug)]
pub(crate) struct Trial(Members);

impl Trial {
    pub(in crate::dispatch) fn new(members: &Members) -> Self {
        Self(members.clone())
    }

    /// There are slots for an attempt.
    pub(crate) fn fits(&self, need: &Need) -> bool {
        self.candidate(need).is_some()
    }

    /// Takes the slots for an attempt, if there are any.
    pub(crate) fn take(&mut self, need: &Need) {
        if let Some(choice) = self.candidate(need) {
            self.0.take(choice);
        }
    }

    fn candidate(&self, need: &Need) -> Option<Choice> {
        let wants = Wants {
            need: Arc::new(need.clone()),
            level: 0,
        };
        self.0.candidate(&wants)
    }
}

fn has(capabilities: &Capabilities, name: &str, level: u32) -> bool {
    let has = capabilities.get(name);
    has.is_some_and(|&has| has >= level)
}

/// The needed capabilities that are not among these, each with its level.
fn lacking<'a>(
    capabilities: &'a Capabilities,
    need: &'a Need,
) -> impl Iterator<Item = (&'a str, u32)> {
    let needed = need.capabilities.iter();
    let needed = needed.map(|(name, &level)| (name.as_str(), level));
    needed.filter(move |&(name, level)| !has(capabilities, name, level))
}

/// Removes the entry unless it is to be kept.
fn keep_if<V>(map: &mut BTreeMap<Arc<str>, V>, id: &str, keeps: impl FnOnce(&V) -> bool) {
    if map.get(id).is_some_and(|value| !keeps(value)) {
        map.remove(id);
    }
}
