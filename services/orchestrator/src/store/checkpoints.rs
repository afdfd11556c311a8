//! When a checkpoint is due.

use cairn_engine::session::Session;
use cairn_proto::memory::Checkpoint;

/// Below this many bytes of events, folding them again is cheaper than keeping their fold.
const LEAST_BYTES: usize = 64 * 1024;

/// The store takes no larger ones.
const MOST_BYTES: usize = 60 * 1024 * 1024;

/// Makes a checkpoint whenever as many bytes of events were written as the last one had, and keeps it if
/// it has at most twice those bytes: a state may be larger than its events, as each conversation has its
/// own copy of the prompts. So all checkpoints of a journal together are not larger than twice the
/// journal. Events that are stored apart count with all their bytes: who resumes has to read them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Checkpointer {
    written: usize,
    last_size: usize,
    /// What the state has of these events beside their bytes.
    copied: usize,
    next: Option<Checkpoint>,
}

impl Checkpointer {
    /// Continues where the journal stands: bytes of events since its last checkpoint, and the size of
    /// that.
    pub(crate) fn resumed(written: usize, last_size: usize) -> Self {
        Self {
            written,
            last_size,
            ..Self::default()
        }
    }

    /// Takes note of events that others have appended.
    pub(crate) fn folded(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Takes note of copies that events have made of what the state has already.
    pub(crate) fn copied(&mut self, bytes: usize) {
        self.copied += bytes;
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
        let Some(state) = session.to_checkpoint() else {
            return;
        };
        self.last_size = state.len();
        self.copied = 0;
        if state.len() > 2 * self.written {
            return;
        }
        self.written = 0;
        self.next = (state.len() <= MOST_BYTES).then(|| Checkpoint {
            through_seq: session.seq,
            state: state.into(),
        });
    }

    /// About how many bytes the state has: those of the last checkpoint, and what events have brought
    /// since.
    pub(crate) fn state_bytes(&self) -> usize {
        self.last_size + self.written + self.copied
    }

    /// Whether there is a checkpoint that no transition has carried.
    pub(crate) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// The checkpoint that the next transition is to carry.
    pub(crate) fn take(&mut self) -> Option<Checkpoint> {
        self.next.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::conversation::LayerKind;

    #[test]
    fn checkpoints_together_have_at_most_twice_the_bytes_of_the_events() {
        let mut session = Session::default();
        let mut checkpoints = Checkpointer::default();
        let (mut journal, mut stored, mut made) = (0, 0, 0);
        // Events of 1 KiB, of which one makes the state larger by 300 KiB.
        for event in 0..4_000 {
            let more = if event == 50 { 300 * 1024 } else { 1024 };
            let prompt = session.layers.entry(LayerKind::Prompt).or_default();
            prompt.push_str(&"p".repeat(more));
            journal += 1024;
            checkpoints.written(1024, &session);
            if let Some(next) = checkpoints.take() {
                made += 1;
                stored += next.state.len();
                assert!(stored <= 2 * journal, "{stored} of {journal}");
            }
        }
        assert!(made > 2, "{made}");
    }
}
