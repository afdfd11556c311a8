//! Where attempts are carried out: what they need of the pool, the resources that they get, and what is missing.

use super::{Message, Owner};
use crate::dispatch::{Lack, Slot, Waited, Waits};
use cairn_engine::decide::Input;
use cairn_engine::event::AttemptRef;
use cairn_engine::outstanding::Work;
use cairn_engine::pool::{Missing, Need, PoolFacts};
use cairn_engine::session::Session;
use futures::stream::{self, StreamExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The resources that an attempt has got.
#[derive(Debug)]
pub(super) struct Placed {
    resources: Vec<String>,
    waited_ms: u64,
    /// It may be carried out before they are in the state.
    has_begun: bool,
}

/// An attempt that waits for its slot, and has not reported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    since: Instant,
    /// That all resources are taken was reported.
    is_reported: bool,
}

/// The attempts under way for which no resource has what they need.
pub(super) fn lacking(session: &Session) -> impl Iterator<Item = AttemptRef> {
    let attempts = session.active_run().into_iter();
    let attempts = attempts.flat_map(|run| run.running_attempts());
    let lacking = attempts.filter(|(_, _, attempt)| attempt.lacks_capability());
    lacking.map(|(name, ..)| name)
}

impl Owner {
    /// What decisions need to know of the pool.
    pub(super) fn pool_facts(&self) -> PoolFacts {
        let active = self.active.iter();
        let active = active.filter_map(|(work, active)| match (work, &active.executor) {
            (Work::RunStep(attempt), Some(executor)) => Some((*attempt, &*executor.resources)),
            _ => None,
        });
        let slots = self.slots.iter();
        let slots = slots.filter_map(|(work, slot)| match work {
            Work::RunStep(attempt) => Some((*attempt, slot.resources())),
            _ => None,
        });
        let arrived = self.inbox.slots();
        let arrived = arrived.map(|(attempt, slot)| (attempt, slot.resources()));
        let allotted = active.chain(slots).chain(arrived);
        let allotted: BTreeMap<_, _> = allotted
            .map(|(attempt, resources)| (attempt, resources.to_vec()))
            .collect();
        let dispatch = &self.deps.dispatch;
        dispatch.pool_facts(&self.key.namespace, allotted)
    }

    /// Wakes the owner whenever the pool changes, from the first attempt on.
    pub(super) fn follow_pool(&mut self) {
        let has_attempts = || {
            let mut active = self.active.keys();
            active.any(|work| matches!(work, Work::RunStep(_)))
        };
        if self.follows_pool || !(has_attempts() || lacking(&self.session).next().is_some()) {
            return;
        }
        self.follows_pool = true;
        let changes = self.deps.dispatch.resource_changes();
        let changed = stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok()?;
            Some((Message::PoolChanged, changes))
        });
        self.inbox.listen(changed);
    }

    /// Counts the attempts that lack something as waiting, and no others.
    pub(super) fn follow_lacks(&mut self) {
        let before = std::mem::take(&mut self.lacks);
        if !self.runs_steps() {
            return;
        }
        let lacks = lacking(&self.session).map(|attempt| (attempt, None));
        let mut lacks: BTreeMap<_, _> = lacks.collect();
        for (attempt, lack) in before {
            if let Some(kept) = lacks.get_mut(&attempt) {
                *kept = Some(lack);
            }
        }
        let begin = |attempt| {
            let need = self.session.need_of(attempt);
            self.deps.dispatch.lack(&Arc::new(need))
        };
        let lacks = lacks.into_iter();
        let lacks = lacks.map(|(attempt, lack)| (attempt, lack.unwrap_or_else(|| begin(attempt))));
        self.lacks = lacks.collect();
    }

    /// The attempts that lack what no resource had, and the pool has now. An owner that lets go of its session leaves
    /// them to the next one.
    pub(super) fn found(&self) -> Option<Input> {
        if self.inbox.is_stopping() || !self.runs_steps() {
            return None;
        }
        let dispatch = &self.deps.dispatch;
        let has = |attempt: &AttemptRef| dispatch.has(&self.session.need_of(*attempt));
        let attempts: Vec<_> = lacking(&self.session).filter(has).collect();
        (!attempts.is_empty()).then_some(Input::Found { attempts })
    }

    /// Waits for a slot. The attempt starts from the state of the moment at which one is there.
    pub(super) fn wait_for_slot(
        &mut self,
        work: Work,
        attempt: AttemptRef,
        need: Arc<Need>,
        pause: Option<Duration>,
    ) {
        let waiting = self.waiting.entry(work).or_insert_with(|| Waiting {
            since: Instant::now(),
            is_reported: false,
        });
        let Waiting { since, is_reported } = *waiting;
        let waits = Waits {
            key: self.key.clone(),
            since,
            need,
            level: self.needs(),
            is_reported,
        };
        let waited = self.deps.dispatch.slot(waits, pause);
        let messages = waited.map(move |waited| match waited {
            Waited::Slot(slot) => Message::SlotFree { attempt, slot },
            Waited::Short { missing, lack } => Message::Short {
                attempt,
                missing,
                lack,
            },
        });
        self.begin_work(work, messages, None);
    }

    /// A slot was free at once. The attempt starts in it, unless a shortage ends with it, its model has to read of
    /// these resources first, or its executor may not make one of its calls.
    pub(super) fn take_slot(&mut self, slot: Slot, work: Work, attempt: AttemptRef) {
        let session = &self.session;
        let waits = self.is_short(attempt)
            || session.has_outdated_pool(attempt, slot.resources())
            || session.has_call_beyond(attempt, slot.tools());
        if waits {
            self.inbox.add(Message::SlotFree { attempt, slot });
            return;
        }
        self.keep_placed(work, attempt, &slot, true);
        self.start_in(slot, work, attempt);
    }

    /// A slot has come for an attempt that waited, or whose model has to read of it.
    pub(super) fn slot_is_free(
        &mut self,
        attempt: AttemptRef,
        slot: Slot,
        inputs: &mut Vec<Input>,
    ) {
        let work = Work::RunStep(attempt);
        self.active.remove(&work);
        let is_tool_step = self.session.is_tool_step(attempt);
        let is_short = self.is_short(attempt);
        // Of a tool step they are kept until after its start. Its executor may use the tool: the step needs that.
        self.keep_placed(work, attempt, &slot, is_tool_step);
        self.slots.insert(work, slot);
        // That a shortage is over is seen at once, and a model reads of its resources before it is asked.
        if is_short || !is_tool_step {
            inputs.extend(self.take_placed());
        }
        if !is_tool_step {
            inputs.push(Input::MemoryChanged {
                attempts: vec![attempt],
            });
        }
    }

    /// The pool lacked what the attempt needs, and the attempt has got no slot since.
    fn is_short(&self, attempt: AttemptRef) -> bool {
        let running = self.session.attempt(attempt);
        running.is_some_and(|running| running.short.is_some())
    }

    /// Keeps the resources of an attempt for the next transition: they are worth none of their own.
    fn keep_placed(&mut self, work: Work, attempt: AttemptRef, slot: &Slot, has_begun: bool) {
        self.deps.dispatch.forget_woken(&self.key);
        let waited = self.waiting.get(&work).map(|it| it.since.elapsed());
        let waited = waited.unwrap_or_default().as_millis();
        let placed = Placed {
            resources: slot.resources().to_vec(),
            waited_ms: u64::try_from(waited).unwrap_or(u64::MAX),
            has_begun,
        };
        self.placed.insert(attempt, placed);
    }

    /// The resources that are kept, for a transition.
    pub(super) fn take_placed(&mut self) -> impl Iterator<Item = Input> + use<> {
        let placed = std::mem::take(&mut self.placed).into_iter();
        placed.map(|(attempt, placed)| Input::Placed {
            attempt,
            resources: placed.resources,
            waited_ms: placed.waited_ms,
            has_begun: placed.has_begun,
        })
    }

    /// The pool lacks what an attempt needs.
    pub(super) fn note_shortage(
        &mut self,
        attempt: AttemptRef,
        missing: Vec<Missing>,
        lack: Option<Lack>,
    ) -> Input {
        let work = Work::RunStep(attempt);
        let is_none = lack.is_some();
        if let Some(lack) = lack {
            // It asks for no slot any more, and waits anew once there is something to wait for.
            self.active.remove(&work);
            self.waiting.remove(&work);
            self.lacks.insert(attempt, lack);
        } else if let Some(waiting) = self.waiting.get_mut(&work) {
            waiting.is_reported = true;
        }
        Input::Short {
            attempt,
            missing,
            is_none,
        }
    }

    /// Resolves once the resources of a slot have lacked for long what the attempt needs. None if it needs no
    /// capability.
    pub(super) fn lost_capability(
        &self,
        slot: &Slot,
        attempt: AttemptRef,
        stream: u64,
    ) -> Option<impl Future<Output = Message> + Send + use<>> {
        let need = self.session.need_of(attempt);
        if need.capabilities.is_empty() {
            return None;
        }
        let lost = self.deps.dispatch.lost(slot, Arc::new(need));
        Some(async move {
            lost.await;
            Message::CapabilityLost { attempt, stream }
        })
    }

    /// The resources of an attempt have lacked for long what it needs. It comes to rest as if its executor stopped,
    /// and waits for others.
    pub(super) fn capability_lost(&mut self, attempt: AttemptRef, stream: u64) {
        let active = self.active.get_mut(&Work::RunStep(attempt));
        let active = active.filter(|active| active.stream == stream);
        if let Some(executor) = active.and_then(|active| active.executor.as_mut()) {
            executor.is_unserved = true;
            let need = self.session.need_of(attempt).text();
            tracing::info!(session = %self.key, ?attempt, need, "attempt continues elsewhere: its resources lack what it needs");
        }
    }
}
