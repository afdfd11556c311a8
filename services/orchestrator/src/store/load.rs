//! Reading a session: its newest checkpoint, and the events after it.

use super::{
    Acknowledged, Checkpointer, DAMAGED, Quarantine, Store, acknowledged, for_session, unreadable,
};
use crate::key::SessionKey;
use cairn_engine::session::Session;
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;

/// A session read from the store.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) session: Session,
    /// How far the store has come with it.
    pub(crate) acknowledged: Acknowledged,
    /// Why nobody works on it before it is released, if that is so.
    pub(crate) quarantine: Option<Quarantine>,
    /// How far the journal is from its next checkpoint.
    pub(crate) checkpoints: Checkpointer,
}

impl Store {
    /// Folds a session: the newest checkpoint that can be read, and the events after it. With
    /// `at_seq`, as it was after that event.
    pub(crate) async fn load(
        &self,
        key: &SessionKey,
        at_seq: Option<u64>,
    ) -> Result<Loaded, RpcError> {
        let (mut session, size) = self.checkpoint(key, at_seq).await?.unwrap_or_default();
        let mut folded = 0;
        let until = at_seq.unwrap_or(u64::MAX);
        loop {
            let page = self.read(key, session.seq).await?;
            let is_last = page
                .events
                .last()
                .is_none_or(|event| event.seq >= page.last_seq);
            let quarantine = Quarantine::read(page.quarantined, page.quarantine_reason());
            let acknowledged = acknowledged(&page);
            for stored in page.events {
                if stored.seq > until {
                    break;
                }
                let (event, bytes) = self.sized_event(key, &stored).await?;
                folded += bytes;
                let folded = session.apply(stored.seq, &event);
                folded.map_err(|error| unreadable(key, stored.seq, error))?;
            }
            if is_last || session.seq >= until {
                return Ok(Loaded {
                    session,
                    acknowledged,
                    quarantine,
                    checkpoints: Checkpointer::resumed(folded, size),
                });
            }
        }
    }

    /// The newest checkpoint that can be read. The journal has everything that a checkpoint has, so a
    /// damaged one costs time only.
    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_seq: Option<u64>,
    ) -> Result<Option<(Session, usize)>, RpcError> {
        let request = pb::GetCheckpointRequest {
            session: key.id.to_string(),
            at_or_before_seq: at_seq.unwrap_or(0),
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
