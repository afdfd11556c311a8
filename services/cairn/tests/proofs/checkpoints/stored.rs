//! What the store has of a session.

use crate::support::link;
use cairn_proto::event::Event;
use cairn_proto::event::event::Kind;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::{GetCheckpointRequest, ReadEventsRequest};
use cairn_rpc::{Link, Principal, with_principal};
use prost::Message as _;
use tonic::Request;

/// The largest checkpoint that is read.
const MOST_BYTES: usize = 72 * 1024 * 1024;

/// A journal, and the checkpoints that are kept of it.
pub(super) struct Stored {
    /// The bytes of each event, also of those that are stored apart.
    events: Vec<usize>,
    /// Newest first: through which seq, and bytes.
    pub(super) kept: Vec<(u64, usize)>,
}

type Journal = JournalServiceClient<Link>;

impl Stored {
    /// Reads it from the memory service at this address.
    pub(super) async fn read(memory: &str, session: &str) -> Self {
        let journal = Journal::new(link(memory)).max_decoding_message_size(MOST_BYTES);
        Self {
            events: events(&mut journal.clone(), session).await,
            kept: kept(&mut journal.clone(), session).await,
        }
    }

    /// Bytes of all events.
    pub(super) fn journal(&self) -> usize {
        self.events.iter().sum()
    }

    /// Bytes of the events up to this one.
    pub(super) fn journal_through(&self, seq: u64) -> usize {
        let count = usize::try_from(seq).expect("a number of events");
        self.events[..count].iter().sum()
    }
}

async fn events(journal: &mut Journal, session: &str) -> Vec<usize> {
    let mut events = Vec::new();
    loop {
        let request = ReadEventsRequest {
            session: session.to_owned(),
            after_seq: events.len() as u64,
            max_events: 0,
        };
        let page = journal.read_events(of_process(request)).await;
        let page = page.expect("a page").into_inner();
        events.extend(page.events.iter().map(|stored| size(&stored.event)));
        if events.len() as u64 >= page.last_seq {
            return events;
        }
    }
}

async fn kept(journal: &mut Journal, session: &str) -> Vec<(u64, usize)> {
    let (mut kept, mut at_or_before_seq) = (Vec::new(), 0);
    loop {
        let request = GetCheckpointRequest {
            session: session.to_owned(),
            at_or_before_seq,
        };
        let found = journal.get_checkpoint(of_process(request)).await;
        let Some(checkpoint) = found.expect("an answer").into_inner().checkpoint else {
            return kept;
        };
        kept.push((checkpoint.through_seq, checkpoint.state.len()));
        // The first event is too small for a checkpoint, and 0 stands for the newest one.
        at_or_before_seq = checkpoint.through_seq - 1;
        assert!(at_or_before_seq > 0, "a checkpoint of the first event");
    }
}

fn size(event: &[u8]) -> usize {
    match Event::decode(event).expect("an event").kind {
        Some(Kind::StoredApart(apart)) => usize::try_from(apart.size).expect("a size"),
        _ => event.len(),
    }
}

fn of_process<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}
