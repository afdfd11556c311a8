//! When a checkpoint is due.

use cairn_engine::session::{Session, Sizes};
use cairn_proto::memory::Checkpoint;

/// Below this many bytes of events, folding them again is cheaper than keeping their fold.
const LEAST_BYTES: usize = 64 * 1024;

/// The store takes no larger ones.
const MOST_BYTES: usize = 60 * 1024 * 1024;

/// Makes a checkpoint whenever as many bytes of events were written as the last one had, and keeps it if
/// it has at most twice those bytes. So all checkpoints of a journal together are not larger than twice
/// the journal. Events that are stored apart count with all their bytes: a new owner has to read them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Checkpointer {
    /// Bytes of events since the last checkpoint.
    written: usize,
    /// Bytes of the state when it was last encoded.
    encoded: usize,
    /// What contexts and ended turns have. That is counted, and not estimated.
    sizes: Sizes,
    /// Bytes of the rest: when the state was last encoded, and of events since then. What contexts have
    /// taken in of these is not among them. Below 0, the encoding was shorter than what it had.
    rest: isize,
    next: Option<Checkpoint>,
}

impl Checkpointer {
    /// Of a new session with so many bytes of events.
    pub(crate) fn begun(written: usize) -> Self {
        Self {
            written,
            rest: written.cast_signed(),
            ..Self::default()
        }
    }

    /// Of a session that was read from a checkpoint of that size.
    pub(crate) fn from_checkpoint(size: usize, session: &Session) -> Self {
        let sizes = session.sizes();
        Self {
            encoded: size,
            sizes,
            rest: size.cast_signed() - sizes.texts.cast_signed(),
            ..Self::default()
        }
    }

    /// Takes note of events that others have appended.
    pub(crate) fn folded(&mut self, bytes: usize) {
        self.written += bytes;
        self.rest += bytes.cast_signed();
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
        if self.written < LEAST_BYTES.max(self.encoded) {
            return;
        }
        let Some(state) = session.to_checkpoint() else {
            self.written = 0;
            return;
        };
        self.encoded = state.len();
        self.rest = state.len().cast_signed() - self.sizes.texts.cast_signed();
        if state.len() > 2 * self.written {
            return;
        }
        self.written = 0;
        self.next = (state.len() <= MOST_BYTES).then(|| Checkpoint {
            through_seq: session.seq,
            state: state.into(),
        });
    }

    /// Takes note of the contexts and ended turns of a state.
    fn measure(&mut self, session: &Session) {
        let sizes = session.sizes();
        let taken_in = sizes.texts.saturating_sub(self.sizes.texts);
        self.rest -= taken_in.cast_signed();
        self.sizes = sizes;
    }

    /// About how many bytes the state has: its contexts and ended turns, and what else it had when it was
    /// last encoded, or has come since.
    pub(crate) fn state_bytes(&self) -> usize {
        self.sizes.memory + usize::try_from(self.rest).unwrap_or(0)
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
    use cairn_engine::command::{RunLimits, SubmitTurn};
    use cairn_engine::event::{
        CommandReceived, Event, EventKind, RunCancelled, RunStarted, SessionCreated, StartedTurn,
    };
    use cairn_engine::session::MAIN;

    #[test]
    fn what_a_context_takes_in_counts_once_and_as_long_as_it_is_there() {
        let mut session = Session::default();
        let mut checkpoints = Checkpointer::begun(100);
        // A command with a message, and the event that answers it.
        checkpoints.folded(5_100);
        let side = || "side".to_owned();
        session.contexts.entry(side()).or_default().bytes = 5_000;
        checkpoints.written(50, &session);
        assert_eq!(checkpoints.state_bytes(), 5_250);
        session.contexts.clear();
        checkpoints.written(20, &session);
        assert_eq!(checkpoints.state_bytes(), 270);
        // Also if it was encoded.
        session.contexts.entry(side()).or_default().bytes = 5_000;
        let mut checkpoints = Checkpointer::from_checkpoint(6_000, &session);
        assert_eq!(checkpoints.state_bytes(), 6_000);
        session.contexts.clear();
        checkpoints.written(10, &session);
        assert_eq!(checkpoints.state_bytes(), 1_010);
    }

    /// A turn begins, and a person cancels it.
    fn cancelled_turn(session: &mut Session, run: u32) {
        let command = session.seq + 1;
        let received = CommandReceived {
            request_id: format!("request-{run}"),
            command: SubmitTurn::default().into(),
        };
        let started = RunStarted {
            run,
            goal: String::new(),
            limits: RunLimits::default(),
            model: String::new(),
            trace_parent: String::new(),
            turn: Some(StartedTurn {
                context: MAIN.to_owned(),
                queued: 0,
                turn_index: 0,
            }),
            agent: None,
            hooks: Vec::new(),
        };
        let cancelled = RunCancelled {
            run,
            reason: "r".repeat(1_000),
            kept_through: 0,
            results: Vec::new(),
        };
        let events = [
            (0, received.into()),
            (command, started.into()),
            (0, cancelled.into()),
        ];
        for (answers, kind) in events {
            let event = Event {
                at: 1,
                answers,
                principal: None,
                kind,
            };
            let seq = session.seq + 1;
            session.apply(seq, &event).expect("it fits");
        }
    }

    #[test]
    fn ended_turns_count_with_their_records() {
        let mut session = Session::default();
        let created = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: EventKind::SessionCreated(SessionCreated {
                title: String::new(),
                time_to_live_ms: 0,
            }),
        };
        session.apply(1, &created).expect("it fits");
        for run in 1..=11 {
            cancelled_turn(&mut session, run);
        }
        // The newest is no record yet.
        let (sizes, texts) = (session.sizes(), 10 * (MAIN.len() + 1_000));
        assert_eq!(sizes.texts - texts, 10 * "no output".len());
        assert!(sizes.memory >= sizes.texts + 10 * 64);
        let mut checkpoints = Checkpointer::from_checkpoint(sizes.texts + 500, &session);
        assert_eq!(checkpoints.state_bytes(), sizes.memory + 500);
        cancelled_turn(&mut session, 12);
        checkpoints.written(1_100, &session);
        let record = (sizes.memory - sizes.texts) / 10;
        let expected = sizes.memory + record + 500 + 1_100;
        assert_eq!(checkpoints.state_bytes(), expected);
    }

    #[test]
    fn checkpoints_together_have_at_most_twice_the_bytes_of_the_events() {
        let mut session = Session::default();
        let mut checkpoints = Checkpointer::default();
        let (mut journal, mut stored, mut made) = (0, 0, 0);
        // Events of 1 KiB, of which one makes the state larger by 300 KiB.
        for event in 0..4_000 {
            let more = if event == 50 { 300 * 1024 } else { 1024 };
            session.title.push_str(&"p".repeat(more));
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
