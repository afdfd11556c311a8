//! Reading a session: its newest checkpoint, and the events after it.

use super::cache::Fold;
use super::{
    Acknowledged, Checkpointer, DAMAGED, Quarantine, Store, acknowledged, for_session, unreadable,
};
use crate::key::SessionKey;
use cairn_engine::session::Session;
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Mutex as AsyncMutex;

/// A session read from the store.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) session: Session,
    /// How far the store has come with it.
    pub(crate) acknowledged: Acknowledged,
    /// How far the journal is from its next checkpoint.
    pub(crate) checkpoints: Checkpointer,
    /// How full the journal is, in thousandths of its limits.
    pub(crate) journal_permille: u32,
}

/// A session to look at.
#[derive(Debug)]
pub(crate) struct Viewed {
    pub(crate) session: Arc<Session>,
    /// About how many bytes it has.
    pub(crate) bytes: usize,
    /// Why the session has no owner before it is released, if that is so.
    pub(crate) quarantine: Option<Quarantine>,
    /// How full the journal is, in thousandths of its limits.
    pub(crate) journal_permille: u32,
}

/// What a page says of the session beside its events.
#[derive(Debug, Clone, Copy)]
struct Standing {
    quarantine: Option<Quarantine>,
    journal_permille: u32,
}

impl Standing {
    fn of(page: &pb::ReadEventsResponse) -> Self {
        Self {
            quarantine: Quarantine::read(page.quarantined, page.quarantine_reason()),
            journal_permille: page.journal_permille,
        }
    }
}

impl Store {
    /// Reads a session for its owner.
    pub(crate) async fn load(&self, key: &SessionKey) -> Result<Loaded, RpcError> {
        let (fold, standing) = self.newest(key).await?;
        Ok(Loaded {
            session: Arc::unwrap_or_clone(fold.session),
            acknowledged: fold.acknowledged,
            checkpoints: fold.checkpoints,
            journal_permille: standing.journal_permille,
        })
    }

    /// Keeps the state of an owner that let go of its session, for the next who reads it here.
    pub(crate) fn keep(&self, key: &SessionKey, loaded: Loaded) {
        let fold = Fold {
            session: Arc::new(loaded.session),
            acknowledged: loaded.acknowledged,
            checkpoints: loaded.checkpoints,
        };
        self.cache.put(key, fold);
    }

    /// Gives up kept states for those of owned sessions.
    pub(crate) fn make_room(&self) {
        self.cache.shrink();
    }

    /// Reads a session to look at it. Who looks at the same time shares one fold.
    pub(crate) async fn view(&self, key: &SessionKey) -> Result<Viewed, RpcError> {
        if let Some(kept) = self.cache.get(key) {
            let page = self.read(key, kept.session.seq).await?;
            if acknowledged(&page) == kept.acknowledged && page.last_seq == kept.session.seq {
                self.check_level(key, &page)?;
                return Ok(Viewed::new(&kept, Standing::of(&page)));
            }
        }
        let turn = self.turns.of(key);
        let _turn = turn.lock().await;
        let (fold, standing) = self.newest(key).await?;
        let viewed = Viewed::new(&fold, standing);
        self.cache.put(key, fold);
        Ok(viewed)
    }

    /// The session as it was after that event.
    pub(crate) async fn view_at(&self, key: &SessionKey, seq: u64) -> Result<Session, RpcError> {
        let (session, _) = self.checkpoint(key, seq).await?.unwrap_or_default();
        let mut begun = Begun::new(session, 0);
        self.fold(key, &mut begun, seq).await?;
        Ok(begun.session)
    }

    /// The fold of all events. It begins from a kept one if the store is still at its version and has
    /// its seq: then owners have written nothing since.
    async fn newest(&self, key: &SessionKey) -> Result<(Fold, Standing), RpcError> {
        if let Some(kept) = self.cache.take(key) {
            let page = self.read(key, kept.session.seq).await?;
            let is_same = acknowledged(&page) == kept.acknowledged;
            if is_same && page.last_seq >= kept.session.seq {
                return self.continue_from(key, kept, page).await;
            }
        }
        let checkpoint = self.checkpoint(key, 0).await?;
        let (session, size) = checkpoint.unwrap_or_default();
        let mut begun = Begun::new(session, size);
        let (acknowledged, standing) = self.fold(key, &mut begun, u64::MAX).await?;
        let fold = Fold {
            session: Arc::new(begun.session),
            acknowledged,
            checkpoints: begun.checkpoints,
        };
        Ok((fold, standing))
    }

    async fn continue_from(
        &self,
        key: &SessionKey,
        kept: Fold,
        page: pb::ReadEventsResponse,
    ) -> Result<(Fold, Standing), RpcError> {
        let standing = Standing::of(&page);
        if page.events.is_empty() {
            return Ok((kept, standing));
        }
        let mut begun = Begun {
            session: Arc::unwrap_or_clone(kept.session),
            checkpoints: kept.checkpoints,
        };
        let is_last = self.fold_page(key, &mut begun, u64::MAX, &page).await?;
        let (acknowledged, standing) = match is_last {
            true => (kept.acknowledged, standing),
            false => self.fold(key, &mut begun, u64::MAX).await?,
        };
        let fold = Fold {
            session: Arc::new(begun.session),
            acknowledged,
            checkpoints: begun.checkpoints,
        };
        Ok((fold, standing))
    }

    /// Folds the events after those that were folded, through a seq.
    async fn fold(
        &self,
        key: &SessionKey,
        begun: &mut Begun,
        until: u64,
    ) -> Result<(Acknowledged, Standing), RpcError> {
        loop {
            let page = self.read(key, begun.session.seq).await?;
            if self.fold_page(key, begun, until, &page).await? {
                return Ok((acknowledged(&page), Standing::of(&page)));
            }
        }
    }

    /// Folds a page, and returns whether it was the last one.
    async fn fold_page(
        &self,
        key: &SessionKey,
        begun: &mut Begun,
        until: u64,
        page: &pb::ReadEventsResponse,
    ) -> Result<bool, RpcError> {
        self.check_level(key, page)?;
        for stored in page.events.iter().filter(|stored| stored.seq <= until) {
            let (event, bytes) = self.sized_event(key, stored).await?;
            begun.checkpoints.folded(bytes);
            let folded = begun.session.apply(stored.seq, &event);
            folded.map_err(|error| unreadable(key, stored.seq, error))?;
        }
        let last = page.events.last();
        let is_last = last.is_none_or(|event| event.seq >= page.last_seq);
        Ok(is_last || begun.session.seq >= until)
    }

    /// The newest checkpoint that can be read. The journal has everything that a checkpoint has, so a
    /// damaged one costs time only.
    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> Result<Option<(Session, usize)>, RpcError> {
        let request = pb::GetCheckpointRequest {
            session: key.id.to_string(),
            at_or_before_seq,
        };
        let mut journal = self.journal();
        let found = journal.get_checkpoint(for_session(key, request));
        let found = match found.await.map_err(RpcError::from) {
            Ok(found) => found.into_inner().checkpoint,
            Err(error) if error.reason_name() == DAMAGED => {
                let seq = error.metadata("seq");
                tracing::error!(session = %key, seq, %error, "checkpoint not used: it is damaged");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(found.and_then(|checkpoint| {
            let session = Session::from_checkpoint(&checkpoint.state)?;
            Some((session, checkpoint.state.len()))
        }))
    }
}

impl Viewed {
    fn new(fold: &Fold, standing: Standing) -> Self {
        Self {
            session: fold.session.clone(),
            bytes: fold.checkpoints.state_bytes(),
            quarantine: standing.quarantine,
            journal_permille: standing.journal_permille,
        }
    }
}

/// Folds of one session are made one after the other: the next one has that of the one before.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<SessionKey, Weak<AsyncMutex<()>>>>);

impl Turns {
    fn of(&self, key: &SessionKey) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// A fold that is being made.
struct Begun {
    session: Session,
    checkpoints: Checkpointer,
}

impl Begun {
    /// From a checkpoint of that size.
    fn new(session: Session, size: usize) -> Self {
        let checkpoints = Checkpointer::from_checkpoint(size, &session);
        Self {
            session,
            checkpoints,
        }
    }
}
