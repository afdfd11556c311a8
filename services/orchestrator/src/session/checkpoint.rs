//! When a checkpoint is due.

use cairn_engine::session::Session;
use cairn_proto::memory::Checkpoint;

/// Below this many bytes of events, folding them again is cheaper than keeping their fold.
const LEAST_BYTES: usize = 64 * 1024;

/// The store takes no larger ones.
const MOST_BYTES: usize = 60 * 1024 * 1024;

/// Makes a checkpoint whenever as many bytes of events were written as the last one had, so that
/// all checkpoints of a journal together are not larger than twice the journal. Events that are stored
/// apart count with all their bytes: who resumes has to read them.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    written: usize,
    last_size: usize,
    next: Option<Checkpoint>,
}

impl Checkpointer {
    /// Goes on where the journal stands: bytes of events since its last checkpoint, and the size of
    /// that.
    pub(crate) fn resumed(written: usize, last_size: usize) -> Self {
        Self {
            written,
            last_size,
            next: None,
        }
    }

    /// Takes note of events that others have appended.
    pub(super) fn folded(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Takes note of a transition of so many bytes that is durable now; `session` is the state after
    /// it.
    pub(super) fn written(&mut self, bytes: usize, session: &Session) {
        self.written += bytes;
        if self.written < LEAST_BYTES.max(self.last_size) {
            return;
        }
        self.written = 0;
        let Some(state) = session
            .to_checkpoint()
            .filter(|state| state.len() <= MOST_BYTES)
        else {
            return;
        };
        self.last_size = state.len();
        self.next = Some(Checkpoint {
            through_seq: session.seq,
            state: state.into(),
        });
    }

    /// The checkpoint that the next transition is to carry.
    pub(super) fn take(&mut self) -> Option<Checkpoint> {
        self.next.take()
    }
}
