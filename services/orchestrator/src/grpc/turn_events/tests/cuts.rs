//! Streams that break at any moment and are continued: what a client assembles is the reply.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The event that answers the turn's command.
const FIRST: u64 = 5;

/// A reply: the texts of its tries, of which the last one counts, and how many calls it has.
type Written = (Vec<String>, usize);

/// How one connection goes: the responses that the client reads, and for each part of a reply whether it
/// arrives, and how many events later than it was written.
type Connection = (usize, Vec<(bool, i8)>);

fn replies() -> impl Strategy<Value = Vec<Written>> {
    let tries = prop::collection::vec("[aé]{0,8}", 1..4);
    prop::collection::vec((tries, 0..3_usize), 1..4)
}

fn connections() -> impl Strategy<Value = Vec<Connection>> {
    let parts = prop::collection::vec((prop::bool::weighted(0.8), -2..3_i8), 64);
    prop::collection::vec((0..12_usize, parts), 1..5)
}

/// The events of the turn. After each reply but the last, a person has said something.
fn journal(replies: &[Written]) -> Vec<pb::WatchSessionResponse> {
    let mut events = vec![started(FIRST, 0)];
    for (turn, (tries, calls)) in (0..).zip(replies) {
        let text = tries.last().expect("a try");
        let seq = FIRST + events.len() as u64;
        events.push(reply(seq, turn, text, *calls));
        let said = wire::ContextChanged::default();
        events.push(event(seq + 1, Kind::ContextChanged(said)));
    }
    events.push(completed(FIRST + events.len() as u64));
    events
}

/// What a watcher is sent over one connection: all events, and parts of replies among them.
fn sent(replies: &[Written], arrivals: &[(bool, i8)]) -> Vec<pb::WatchSessionResponse> {
    let events = journal(replies);
    let mut parts = Vec::new();
    for (turn, (tries, _)) in (0..).zip(replies) {
        for (retry, text) in (0..).zip(tries) {
            for (offset, letter) in text.char_indices() {
                let mut part = part(turn, offset as u64, &letter.to_string());
                if let Some(delta) = &mut part.delta {
                    delta.retry = retry;
                }
                parts.push((turn, part));
            }
        }
    }
    // Parts keep their order among each other.
    let mut placed: Vec<(usize, pb::WatchSessionResponse)> = Vec::new();
    for ((turn, part), (arrives, late)) in parts.into_iter().zip(arrivals) {
        let written = 1 + 2 * turn as usize;
        let at = written.saturating_add_signed(isize::from(*late));
        let at = placed.last().map_or(at, |(last, _)| at.max(*last));
        if *arrives {
            placed.push((at, part));
        }
    }
    let mut placed = placed.into_iter().peekable();
    let mut all = Vec::new();
    for (at, event) in events.into_iter().enumerate() {
        while let Some((_, part)) = placed.next_if(|(place, _)| *place <= at) {
            all.push(part);
        }
        all.push(event);
    }
    all
}

/// A client that goes by the contract.
#[derive(Debug, Default)]
struct Client {
    after_seq: u64,
    texts: BTreeMap<u32, String>,
    calls: Vec<String>,
    response: Option<String>,
}

impl Client {
    fn take(&mut self, response: pb::SubmitTurnResponse) {
        assert!(response.seq == 0 || response.seq > self.after_seq, "twice");
        self.after_seq = self.after_seq.max(response.seq);
        for event in response.events {
            assert_eq!(self.response, None, "nothing follows the end");
            match event.event.expect("an event") {
                Event::Text(part) => {
                    let text = self.texts.entry(part.tool_turn).or_default();
                    assert_eq!(text.len() as u64, part.offset, "{text:?} and {part:?}");
                    text.push_str(&part.text);
                }
                Event::Reset(reset) => drop(self.texts.remove(&reset.tool_turn)),
                Event::ToolCall(call) => self.calls.push(call.call.expect("a call").id),
                Event::Complete(complete) => self.response = Some(complete.response),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_client_assembles_is_the_reply(replies in replies(), connections in connections()) {
        let mut client = Client::default();
        let last = connections.len() - 1;
        for (number, (reads, arrivals)) in connections.iter().enumerate() {
            let mut events = TurnEvents::new(FIRST, client.after_seq);
            let mut read = 0;
            for message in sent(&replies, arrivals) {
                let (response, is_over) = events.take(message);
                if let Some(response) = response {
                    client.take(response);
                    read += 1;
                }
                if is_over || (number < last && read >= *reads) {
                    break;
                }
            }
            if client.response.is_some() {
                break;
            }
        }
        let texts: Vec<_> = replies.iter().map(|(tries, _)| tries[tries.len() - 1].clone()).collect();
        let assembled = (0..).zip(&texts).map(|(turn, _)| client.texts.remove(&turn).unwrap_or_default());
        prop_assert_eq!(assembled.collect::<Vec<_>>(), texts.clone());
        prop_assert_eq!(client.response, texts.last().cloned());
        let calls = (0..).zip(&replies).flat_map(|(turn, (_, calls)): (u32, &Written)| {
            (0..*calls).map(move |index| format!("{turn}-{index}"))
        });
        prop_assert_eq!(client.calls, calls.collect::<Vec<_>>());
    }
}
