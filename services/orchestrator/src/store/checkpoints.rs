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
    /// Bytes of events since the last checkpoint.
    written: usize,
    /// Bytes of the state when it was last encoded.
    encoded: usize,
    /// Bytes of events since then.
    since: usize,
    /// Bytes of the layers that conversations had then, and have now.
    layers: (usize, usize),
    next: Option<Checkpoint>,
}

impl Checkpointer {
    /// Of a new session with so many bytes of events.
    pub(crate) fn begun(written: usize) -> Self {
        Self {
            written,
            since: written,
            ..Self::default()
        }
    }

    /// Of a session that was read from a checkpoint of that size.
    pub(crate) fn from_checkpoint(size: usize, session: &Session) -> Self {
        let layers = session.layer_bytes();
        Self {
            encoded: size,
            layers: (layers, layers),
            ..Self::default()
        }
    }

    /// Takes note of events that others have appended.
    pub(crate) fn folded(&mut self, bytes: usize) {
        self.written += bytes;
        self.since += bytes;
    }

    /// Takes note of a transition of so many bytes that is durable now; `session` is the state after
    /// it.
    pub(crate) fn written(&mut self, bytes: usize, session: &Session) {
        self.folded(bytes);
        self.make_if_due(session);
    }

    /// Makes a checkpoint of a state if one is due. When a session has just been read, its first
    /// transition carries it, and the size of its state is known from the beginning.
    pub(crate) fn make_if_due(&mut self, session: &Session) {
        self.measure(session);
        let expected = self.last_bytes().max(self.layers.1 / 2);
        if self.written < LEAST_BYTES.max(expected) {
            return;
        }
        let Some(state) = session.to_checkpoint() else {
            self.written = 0;
            return;
        };
        (self.encoded, self.since) = (state.len(), 0);
        self.layers.0 = self.layers.1;
        if state.len() > 2 * self.written {
            return;
        }
        self.written = 0;
        self.next = (state.len() <= MOST_BYTES).then(|| Checkpoint {
            through_seq: session.seq,
            state: state.into(),
        });
    }

    /// Takes note of the layers that the conversations of a state have.
    pub(crate) fn measure(&mut self, session: &Session) {
        self.layers.1 = session.layer_bytes();
    }

    /// About how many bytes the state has: those that it had when it was last encoded, and what has come
    /// since.
    pub(crate) fn state_bytes(&self) -> usize {
        self.last_bytes() + self.since
    }

    /// Bytes of the state when it was last encoded, with the layers of now.
    fn last_bytes(&self) -> usize {
        let (before, now) = self.layers;
        (self.encoded + now).saturating_sub(before)
    }

    /// Bytes of the checkpoint that no transition has carried; 0 for none.
    pub(crate) fn next_bytes(&self) -> usize {
        self.next.as_ref().map_or(0, |next| next.state.len())
    }

    /// The checkpoint that the next transition is to carry.
    pub(crate) fn take(&mut self) -> Option<Checkpoint> {
        self.next.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::conversation::{Layer, LayerKind};

    #[test]
    fn copies_of_prompts_count_while_conversations_have_them() {
        let mut session = Session::default();
        let mut checkpoints = Checkpointer::begun(100);
        assert_eq!(checkpoints.state_bytes(), 100);
        let layer = Layer {
            kind: LayerKind::Memory,
            text: "m".repeat(5_000),
        };
        for name in ["main", "other"] {
            let context = session.contexts.entry(name.to_owned()).or_default();
            context.conversation.system = vec![layer.clone()];
            checkpoints.written(10, &session);
        }
        assert_eq!(checkpoints.state_bytes(), 120 + 10_000);
        session.contexts.remove("other");
        checkpoints.written(10, &session);
        assert_eq!(checkpoints.state_bytes(), 130 + 5_000);
        // Also if they were encoded.
        let mut checkpoints = Checkpointer::from_checkpoint(6_000, &session);
        session.contexts.remove("main");
        checkpoints.written(10, &session);
        assert_eq!(checkpoints.state_bytes(), 1_010);
    }

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
