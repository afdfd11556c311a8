//! A client of a turn that continues its stream over restarts of the server, and answers what it asks. While
//! the turn waits for an approval, the client changes the context of the turn.

use super::PAID;
use super::place::Place;
use super::served::{PATIENCE, SESSION};
use crate::support::{Client, connect, link};
use cairn_engine::message::Message;
use cairn_proto::event as wire;
use cairn_proto::event::settlement::{Approve, Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_testkit::{Journal, Site};
use pb::turn_event::Event;
use std::collections::{BTreeMap, BTreeSet};
use tonic::Status;

/// What the client adds to the context while the turn waits, as it stands afterwards. These messages stand
/// before those of the turn.
pub(crate) const ADDED: [&str; 2] = ["There are two accounts.", "Pay from the second one."];
/// What it adds and takes out again.
pub(crate) const REMOVED: &str = "Pay from the first one.";

/// What came of the stream so far.
#[derive(Debug, Default)]
pub(crate) struct Talker {
    cursor: u64,
    /// The text of each reply, by its number.
    texts: BTreeMap<u32, String>,
    calls: Vec<String>,
    results: Vec<String>,
    starts: usize,
    response: String,
    /// What was said to each question; a repeat says the same.
    words: BTreeMap<String, Outcome>,
    answered: BTreeSet<String>,
    /// All changes of the context are acknowledged.
    has_changed: bool,
    pub(crate) has_ended: bool,
}

impl Talker {
    /// Submits the turn, or continues its stream, until the turn has ended or the server is gone.
    pub(crate) async fn go_on(&mut self, place: &Place, reference: &Journal) -> Result<(), Status> {
        let mut client = connect(place.address());
        let request = pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await?;
        let message = Message::user("Pay one, then look.");
        let request = pb::SubmitTurnRequest {
            session: SESSION.to_owned(),
            request_id: "turn".to_owned(),
            turn: Some(wire::SubmitTurn {
                message: Some(message.into()),
                ..wire::SubmitTurn::default()
            }),
            after_seq: self.cursor,
        };
        let mut stream = client.submit_turn(request).await?.into_inner();
        // What it waits for may have been said before.
        self.answer(place, &mut client, reference).await?;
        while !self.has_ended {
            let message = tokio::time::timeout(PATIENCE, stream.message()).await;
            let message = message.expect("an event in time")?;
            let message = message.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            self.cursor = self.cursor.max(message.seq);
            for event in message.events {
                let event = event.event.expect("an event");
                let waits = matches!(event, Event::Waiting(_));
                self.take(event);
                if waits {
                    self.answer(place, &mut client, reference).await?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Started(_) => self.starts += 1,
            Event::Text(delta) => {
                let text = self.texts.entry(delta.tool_turn).or_default();
                assert_eq!(delta.offset, text.len() as u64, "{delta:?}");
                text.push_str(&delta.text);
            }
            Event::Reset(reset) => drop(self.texts.remove(&reset.tool_turn)),
            Event::ToolCall(call) => self.calls.push(call.call.expect("a call").name),
            Event::ToolResult(result) => {
                self.results.push(result.result.expect("a result").call_id);
            }
            Event::Complete(complete) => {
                self.has_ended = true;
                self.response = complete.response;
            }
            Event::Error(error) => panic!("{error:?}"),
            Event::Compacted(compacted) => panic!("{compacted:?}"),
            Event::Queued(_) | Event::Waiting(_) | Event::Resumed(_) | Event::ToolProgress(_) => {}
        }
    }

    async fn answer(
        &mut self,
        place: &Place,
        client: &mut Client,
        reference: &Journal,
    ) -> Result<(), Status> {
        let session = SESSION.to_owned();
        let request = pb::ListPendingRequest {
            session,
            ..pb::ListPendingRequest::default()
        };
        let open = client.list_pending(request).await?.into_inner().pending;
        let is_approval = |open: &pb::Pending| open.reason() == wire::WaitReason::Approval;
        if !self.has_changed && open.iter().any(is_approval) {
            Box::pin(self.change_context(place)).await?;
        }
        for open in open {
            let said = || what_to_say(&place.site, reference, &open);
            self.words.entry(open.id.clone()).or_insert_with(said);
        }
        for (id, outcome) in self.words.clone() {
            if self.answered.contains(&id) {
                continue;
            }
            let request = pb::DecideRequest {
                session: SESSION.to_owned(),
                request_id: format!("decide-{id}"),
                pending_id: id.clone(),
                settlement: Some(wire::Settlement {
                    outcome: Some(outcome),
                }),
            };
            client.decide(request).await?;
            self.answered.insert(id);
        }
        Ok(())
    }

    /// Adds messages to the context and takes one out. A retry after a kill sends the same requests.
    async fn change_context(&mut self, place: &Place) -> Result<(), Status> {
        let mut contexts = ContextServiceClient::new(link(place.address()));
        let [first, second] = ADDED;
        let request = pb::ExtendMessagesRequest {
            session: SESSION.to_owned(),
            request_id: "extend".to_owned(),
            messages: vec![Message::user(REMOVED).into(), Message::user(second).into()],
            ..pb::ExtendMessagesRequest::default()
        };
        let extended = contexts.extend_messages(request).await?.into_inner();
        let request = pb::InsertMessageRequest {
            session: SESSION.to_owned(),
            request_id: "insert".to_owned(),
            index: 0,
            message: Some(Message::user(first).into()),
            ..pb::InsertMessageRequest::default()
        };
        let inserted = contexts.insert_message(request).await?.into_inner();
        let request = pb::RemoveMessageRequest {
            session: SESSION.to_owned(),
            request_id: "remove".to_owned(),
            index: 1,
            ..pb::RemoveMessageRequest::default()
        };
        let removed = contexts.remove_message(request).await?.into_inner();
        let versions = [inserted.version, removed.version];
        let expected = [extended.version + 1, extended.version + 2];
        assert_eq!(versions, expected, "each change is made once");
        self.has_changed = true;
        Ok(())
    }

    /// Panics unless each thing came once.
    pub(crate) fn check(&self, fail: &str) {
        assert_eq!(self.starts, 1, "{fail}");
        assert_eq!(self.calls, ["record", "list_files"], "{fail}");
        assert_eq!(self.results, ["a-0", "b-0"], "{fail}");
        let texts: Vec<&str> = self.texts.values().map(String::as_str).collect();
        assert_eq!(texts, ["I pay.", "I look.", PAID], "{fail}");
        assert_eq!(self.response, PAID, "{fail}");
    }
}

/// Yes to what may be done, and what the ledger says of a call in doubt.
fn what_to_say(site: &Site, reference: &Journal, open: &pb::Pending) -> Outcome {
    match open.reason() {
        wire::WaitReason::InDoubt if site.ledger().has(&open.call_key) => Outcome::Done(Done {
            output: reference.recorded_in(&open.step.into()),
        }),
        wire::WaitReason::InDoubt => Outcome::Retry(Retry {}),
        _ => Outcome::Approve(Approve {}),
    }
}

/// The messages of the context, as texts.
pub(crate) async fn messages(place: &Place) -> Vec<String> {
    let mut contexts = ContextServiceClient::new(link(place.address()));
    let request = pb::ListMessagesRequest {
        session: SESSION.to_owned(),
        ..pb::ListMessagesRequest::default()
    };
    let listed = contexts.list_messages(request).await.expect("messages");
    let messages = listed.into_inner().messages.into_iter();
    messages.map(|it| format!("{:?}", it.message)).collect()
}
