//! Journals as they are in the store.

use cairn_engine::event::Event;
use cairn_proto::convert::{Decoded, decode_event};
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::{Link, Principal, with_principal};
use tonic::Request;

pub(crate) use cairn_engine::event::EventKind as Kind;

/// The journal's service, for the tenant of the tests.
#[derive(Clone)]
pub(crate) struct Journal(pub(crate) JournalServiceClient<Link>);

pub(crate) fn for_tenant<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}

impl Journal {
    pub(crate) async fn read(&self, session: &str, after_seq: u64) -> pb::ReadEventsResponse {
        let request = pb::ReadEventsRequest {
            session: session.to_owned(),
            after_seq,
            max_events: 0,
        };
        let read = self.0.clone().read_events(for_tenant(request)).await;
        read.expect("a page").into_inner()
    }

    pub(crate) async fn events(&self, session: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let page = self.read(session, events.len() as u64).await;
            for stored in &page.events {
                events.push(self.decode(session, &stored.event).await);
            }
            if events.len() as u64 >= page.last_seq {
                return events;
            }
        }
    }

    /// Commits whatever it is.
    pub(crate) async fn commit(&self, request: pb::CommitRequest) {
        let made = self.0.clone().commit(for_tenant(request)).await;
        made.expect("it is written");
    }

    async fn decode(&self, session: &str, bytes: &[u8]) -> Event {
        match decode_event(bytes, u32::MAX).expect("an event") {
            Decoded::Event(event) => event,
            Decoded::Newer { .. } => panic!("an unknown event"),
            Decoded::StoredApart { digest, .. } => {
                let request = pb::GetBlobRequest {
                    session: session.to_owned(),
                    digest,
                };
                let blob = self.0.clone().get_blob(for_tenant(request)).await;
                let data = blob.expect("a blob").into_inner().data;
                match decode_event(&data, u32::MAX).expect("an event") {
                    Decoded::Event(event) => event,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// The kinds of events by their names.
pub(crate) fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(name).collect()
}

fn name(event: &Event) -> String {
    let shown = format!("{:?}", event.kind);
    let end = shown.find(|c: char| !c.is_alphanumeric());
    shown[..end.unwrap_or(shown.len())].to_owned()
}

/// How many events are of the kind.
pub(crate) fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| name(event) == kind).count()
}
