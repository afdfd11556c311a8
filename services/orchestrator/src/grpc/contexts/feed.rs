//! Folds of sessions that the watchers of their contexts share.

use crate::key::SessionKey;
use crate::readers::{Part, Readers, Share};
use crate::store::{unmarked_event, unreadable};
use cairn_engine::event::EventKind;
use cairn_engine::session::{Noted, Session};
use cairn_proto::convert::{Decoded, read_event};
use cairn_proto::event as wire;
use cairn_rpc::RpcError;
use prost::Message as _;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// So many events back, and so many bytes, a watcher may be behind the fold that it shares.
const MOST_STEPS: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;

/// What an event means for watchers.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) seq: u64,
    /// The contexts that it changes or creates.
    pub(super) noted: Vec<Noted>,
    /// The context that it destroys.
    pub(super) destroyed: Option<String>,
    bytes: usize,
}

/// A fold, and what its last events meant. The watcher that is first at an event folds it for all.
#[derive(Debug)]
pub(super) struct Feed {
    key: SessionKey,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    session: Session,
    /// Without gaps; the last one is that of the last event folded.
    steps: VecDeque<Arc<Step>>,
    step_bytes: usize,
    /// Bytes of the session beside its contexts, about.
    other_bytes: usize,
    /// Once watchers share it, it has a share of its own.
    share: Option<Share>,
}

impl Feed {
    /// The fold of one watcher. The session has about so many bytes beside its contexts.
    pub(super) fn own(key: &SessionKey, session: Session, other_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            key: key.clone(),
            state: Mutex::new(State {
                session,
                steps: VecDeque::new(),
                step_bytes: 0,
                other_bytes,
                share: None,
            }),
        })
    }

    /// The name and the version of a context, if the fold is just after this event and has the context.
    pub(super) fn context(&self, name: &str, seq: u64) -> Option<(String, u64)> {
        let state = self.lock();
        let session = Some(&state.session).filter(|session| session.seq == seq)?;
        let context = session.context(name)?;
        Some((session.context_name(name).to_owned(), context.version))
    }

    /// What the event with this number means; none if the fold has gone on too far without its watcher. The
    /// event is taken if it is folded now.
    pub(super) fn step(
        &self,
        seq: u64,
        event: &mut Option<wire::Event>,
    ) -> Result<Option<Arc<Step>>, RpcError> {
        let mut state = self.lock();
        if seq == state.session.seq + 1
            && let Some(event) = event.take()
        {
            return state.fold(&self.key, seq, event).map(Some);
        }
        let first = state.steps.front().map_or(u64::MAX, |step| step.seq);
        let at = seq.checked_sub(first);
        Ok(at.and_then(|at| state.steps.get(at as usize)).cloned())
    }

    /// Bytes that it holds, about: all, and those beside contexts.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let state = self.lock();
        (state.bytes(), state.other_bytes)
    }

    /// Counts a stream among those that share the fold, if it is shared.
    pub(super) fn count(&self, stream: &Share) {
        stream.shares_fold(self.lock().share.as_ref());
    }

    fn seq(&self) -> u64 {
        self.lock().session.seq
    }

    /// It can go on from this event.
    fn reaches(&self, seq: u64) -> bool {
        let state = self.lock();
        let first = state.steps.front().map(|step| step.seq);
        let first = first.unwrap_or(state.session.seq + 1);
        (first..=state.session.seq + 1).contains(&(seq + 1))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fold(
        &mut self,
        key: &SessionKey,
        seq: u64,
        event: wire::Event,
    ) -> Result<Arc<Step>, RpcError> {
        let bytes = event.encoded_len();
        // Its level was looked at when it was read.
        let decoded = read_event(event, u32::MAX);
        let event = match decoded.map_err(|error| unreadable(key, seq, error))? {
            Decoded::Event(event) => event,
            Decoded::Newer { .. } => return Err(unmarked_event(key, seq)),
            // What clients are sent is whole.
            Decoded::StoredApart { .. } => {
                return Err(unreadable(key, seq, "it was passed on unread"));
            }
        };
        let noted = match self.session.apply_noting(seq, &event) {
            Ok(noted) => noted,
            Err(error) => {
                // The state is of no use any more: every watcher reads the session for itself.
                self.session = Session::default();
                self.steps.clear();
                return Err(unreadable(key, seq, error));
            }
        };
        let destroyed = match event.kind {
            EventKind::ContextDestroyed(gone) => Some(gone.context),
            _ => None,
        };
        let step = Arc::new(Step {
            seq,
            noted,
            destroyed,
            bytes,
        });
        self.keep(step.clone());
        Ok(step)
    }

    /// A fold that nobody shares keeps no more than the last step.
    fn keep(&mut self, step: Arc<Step>) {
        self.step_bytes += step.bytes;
        self.steps.push_back(step);
        let most = match self.share {
            Some(_) => MOST_STEPS,
            None => 1,
        };
        while self.steps.len() > most || (self.steps.len() > 1 && self.step_bytes > MOST_BYTES) {
            let oldest = self.steps.pop_front();
            self.step_bytes -= oldest.map_or(0, |oldest| oldest.bytes);
        }
        if let Some(share) = &self.share {
            share.set(Part::Fold, self.bytes());
        }
    }

    fn bytes(&self) -> usize {
        self.other_bytes + context_bytes(&self.session) + self.step_bytes
    }
}

/// Bytes of all contexts.
pub(super) fn context_bytes(session: &Session) -> usize {
    let bytes = session.contexts.values().map(|context| context.bytes);
    usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX)
}

/// For each session that is watched, the fold that is furthest.
#[derive(Debug, Default)]
pub(in crate::grpc) struct Feeds(Mutex<HashMap<SessionKey, Weak<Feed>>>);

impl Feeds {
    /// The fold of watchers that have all events.
    pub(super) fn shared(&self, key: &SessionKey) -> Option<Arc<Feed>> {
        self.lock().get(key).and_then(Weak::upgrade)
    }

    /// What a watcher with a fold of its own goes on with from an event, if that is a shared one. Its own
    /// is shared from now on if it has all events and there is none that is further.
    pub(super) fn join(
        &self,
        own: &Arc<Feed>,
        seq: u64,
        has_all: bool,
        readers: &Readers,
    ) -> Option<Arc<Feed>> {
        let mut feeds = self.lock();
        if let Some(shared) = feeds.get(&own.key).and_then(Weak::upgrade) {
            if shared.reaches(seq) {
                return Some(shared);
            }
            if shared.seq() > seq {
                return None;
            }
        }
        if !has_all {
            return None;
        }
        let share = readers.share();
        let mut state = own.lock();
        share.set(Part::Fold, state.bytes());
        state.share = Some(share);
        drop(state);
        feeds.retain(|_, feed| feed.strong_count() > 0);
        feeds.insert(own.key.clone(), Arc::downgrade(own));
        Some(Arc::clone(own))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Weak<Feed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
