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
#[derive(Debug, Default, Clone)]
pub(crate) struct Checkpointer {
    written: usize,
    last_size: usize,
    next: Option<Checkpoint>,
}

impl Checkpointer {
    /// Continues where the journal stands: bytes of events since its last checkpoint, and the size of
    /// that.
    pub(crate) fn resumed(written: usize, last_size: usize) -> Self {
        Self {
            written,
            last_size,
            next: None,
        }
    }

    /// Takes note of events that others have appended.
    pub(crate) fn folded(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Takes note of a transition of so many bytes that is durable now; `session` is the state after
    /// it.
    pub(crate) fn written(&mut self, bytes: usize, session: &Session) {
        self.written += bytes;
        self.make_if_due(session);
    }

    /// Makes a checkpoint of a state if one is due. When a session has just been read, its first
    /// transition carries it, and the size of its state is known from the beginning.
    pub(crate) fn make_if_due(&mut self, session: &Session) {
        if self.written < LEAST_BYTES.max(self.last_size) {
            return;
        }
        self.written = 0;
        let Some(state) = session.to_checkpoint() else {
            return;
        };
        self.last_size = state.len();
        self.next = (state.len() <= MOST_BYTES).then(|| Checkpoint {
            through_seq: session.seq,
            state: state.into(),
        });
    }

    /// About how many bytes the state has: those of the last checkpoint, and of the events since.
    pub(crate) fn state_bytes(&self) -> usize {
        self.last_size + self.written
    }

    /// The checkpoint that the next transition is to carry.
    pub(crate) fn take(&mut self) -> Option<Checkpoint> {
        self.next.take()
    }
}
