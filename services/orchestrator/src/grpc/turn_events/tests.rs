use super::*;
use cairn_proto::event::{self as wire, AttemptRef, CallRef, RequestedCall};

mod compactions;
mod cuts;
mod held;

const RUN: u32 = 3;

fn attempt() -> Option<AttemptRef> {
    Some(AttemptRef {
        run: RUN,
        step: 1,
        attempt: 1,
    })
}

fn event(seq: u64, kind: Kind) -> pb::WatchSessionResponse {
    pb::WatchSessionResponse {
        seq,
        event: Some(wire::Event {
            kind: Some(kind),
            ..wire::Event::default()
        }),
        delta: None,
    }
}

fn part(tool_turn: u32, offset: u64, text: &str) -> pb::WatchSessionResponse {
    pb::WatchSessionResponse {
        delta: Some(TextDelta {
            retry: 0,
            progress: Default::default(),
            attempt: attempt(),
            tool_turn,
            offset,
            text: text.to_owned(),
        }),
        ..pb::WatchSessionResponse::default()
    }
}

fn started(seq: u64, queued: u64) -> pb::WatchSessionResponse {
    let turn = wire::StartedTurn {
        context: "main".to_owned(),
        queued,
        turn_index: 2,
    };
    event(
        seq,
        Kind::RunStarted(RunStarted {
            run: RUN,
            turn: Some(turn),
            ..RunStarted::default()
        }),
    )
}

fn reply(seq: u64, tool_turn: u32, text: &str, calls: usize) -> pb::WatchSessionResponse {
    let call = |index| RequestedCall {
        call: Some(ToolCall {
            id: format!("{tool_turn}-{index}"),
            ..ToolCall::default()
        }),
        ..RequestedCall::default()
    };
    event(
        seq,
        Kind::ReplyReceived(ReplyReceived {
            attempt: attempt(),
            tool_turn,
            text: text.to_owned(),
            calls: (0..calls).map(call).collect(),
            ..ReplyReceived::default()
        }),
    )
}

fn completed(seq: u64) -> pb::WatchSessionResponse {
    let answer = String::new();
    event(
        seq,
        Kind::RunCompleted(wire::RunCompleted {
            run: RUN,
            answer,
            ..wire::RunCompleted::default()
        }),
    )
}

/// What a client sees, in short words.
fn seen(mut events: TurnEvents, messages: Vec<pb::WatchSessionResponse>) -> Vec<String> {
    let responses = messages.into_iter().filter_map(|it| events.take(it).0);
    let short = |event: pb::TurnEvent| match event.event.expect("an event") {
        Event::Queued(queued) => format!("queued {}", queued.number),
        Event::Started(started) => format!("started {}", started.run),
        Event::Text(text) => format!("{}@{}: {}", text.tool_turn, text.offset, text.text),
        Event::Reset(reset) => format!("{}: reset", reset.tool_turn),
        Event::ToolCall(call) => format!("call {}", call.call.expect("a call").id),
        Event::ToolResult(result) => format!("result {}", result.index),
        Event::ToolProgress(far) => format!("progress {}: {}", far.index, far.message),
        Event::Waiting(_) => "waits".to_owned(),
        Event::Resumed(_) => "continues".to_owned(),
        Event::Compacted(compacted) => format!("compacted {}", compacted.replaced),
        Event::Complete(complete) => format!("complete: {}", complete.response),
        Event::Error(error) => format!("error: {}", error.failure.expect("a failure").message),
    };
    responses.flat_map(|it| it.events).map(short).collect()
}

fn progress(run: u32, tool_turn: u32, index: u32) -> pb::WatchSessionResponse {
    let attempt = AttemptRef {
        run,
        ..attempt().expect("an attempt")
    };
    let call = CallRef {
        attempt: Some(attempt),
        tool_turn,
        index,
    };
    pb::WatchSessionResponse {
        delta: Some(TextDelta {
            progress: Some(CallProgress {
                call: Some(call),
                message: "half".to_owned(),
                ..CallProgress::default()
            }),
            ..TextDelta::default()
        }),
        ..pb::WatchSessionResponse::default()
    }
}

#[test]
fn a_long_result_comes_with_its_handle() {
    let call = CallRef {
        attempt: attempt(),
        tool_turn: 0,
        index: 0,
    };
    let whole = wire::ResultHandle {
        handle: "result-1-9f86".to_owned(),
        lines: 80_000,
        ..wire::ResultHandle::default()
    };
    let finished = CallFinished {
        call: Some(call),
        whole: Some(whole.clone()),
        ..CallFinished::default()
    };
    let finished = event(7, Kind::CallFinished(finished));
    let mut events = TurnEvents::new(5, 0);
    let messages = [started(5, 0), reply(6, 0, "", 1), finished];
    let sent = messages.into_iter().filter_map(|it| events.take(it).0);
    let results = sent
        .flat_map(|it| it.events)
        .filter_map(|it| match it.event {
            Some(Event::ToolResult(result)) => Some(result.whole),
            _ => None,
        });
    assert_eq!(results.collect::<Vec<_>>(), [Some(whole)]);
}

#[test]
fn parts_of_another_try_are_not_mixed_with_those_before() {
    let again = |offset, text: &str| {
        let mut part = part(0, offset, text);
        if let Some(delta) = &mut part.delta {
            delta.retry = 1;
        }
        part
    };
    let messages = vec![
        started(5, 0),
        part(0, 0, "One"),
        // The first part of the second try is lost; the whole reply follows.
        again(3, " or two"),
        reply(6, 0, "Eins", 0),
    ];
    let seen = seen(TurnEvents::new(5, 0), messages);
    assert_eq!(
        seen[1..4],
        ["0@0: One", "0: reset", "0@0: Eins"],
        "{seen:?}"
    );
}

#[test]
fn progress_of_the_calls_of_the_turn_is_passed_on() {
    let messages = vec![
        started(5, 0),
        progress(RUN, 0, 0),
        reply(6, 0, "", 2),
        progress(RUN, 0, 1),
        // Of no call, of an earlier reply, of another run.
        progress(RUN, 0, 2),
        progress(RUN, 1, 0),
        progress(RUN + 1, 0, 0),
        part(1, 0, "Two"),
        progress(RUN, 0, 0),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        [
            "started 3",
            "call 0-0",
            "call 0-1",
            "progress 1: half",
            "1@0: Two",
            "progress 0: half"
        ]
    );
}

#[test]
fn parts_are_passed_on_and_the_rest_comes_with_the_reply() {
    let messages = vec![
        started(5, 0),
        part(0, 0, "I "),
        part(0, 2, "look"),
        // One is lost, so what follows it has to wait.
        part(0, 9, "here"),
        reply(6, 0, "I look for here.", 1),
        part(1, 0, "Two"),
        reply(7, 1, "Two.", 0),
        completed(8),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        [
            "started 3",
            "0@0: I ",
            "0@2: look",
            "0@6:  for here.",
            "call 0-0",
            "1@0: Two",
            "1@3: .",
            "complete: Two."
        ]
    );
}

#[test]
fn parts_that_overtake_their_events_are_kept() {
    let messages = vec![
        part(0, 0, "I"),
        started(5, 0),
        part(1, 0, "Two"),
        reply(6, 0, "I look", 1),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        ["started 3", "0@0: I", "0@1:  look", "call 0-0", "1@0: Two"]
    );
}

#[test]
fn a_new_try_begins_with_a_reset() {
    let messages = vec![
        started(5, 0),
        part(0, 0, "One"),
        part(0, 0, "Two"),
        reply(6, 0, "Three", 0),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        [
            "started 3",
            "0@0: One",
            "0: reset",
            "0@0: Two",
            "0: reset",
            "0@0: Three"
        ]
    );
}

#[test]
fn a_stream_that_is_continued_has_no_event_twice_and_text_after_a_reset() {
    let messages = vec![
        started(5, 0),
        reply(6, 0, "I look", 1),
        reply(7, 1, "Two.", 0),
        completed(8),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 6), messages),
        ["1: reset", "1@0: Two.", "complete: Two."]
    );
}

/// Parts of the reply that is being written come while the client is not yet where it was.
#[test]
fn parts_that_overtake_what_the_client_has_follow_a_reset() {
    let messages = vec![
        started(5, 0),
        part(1, 0, "Two"),
        reply(6, 0, "I look", 1),
        part(1, 3, " or"),
        reply(7, 1, "Two or three.", 0),
    ];
    assert_eq!(
        seen(TurnEvents::new(5, 6), messages),
        ["1: reset", "1@0: Two", "1@3:  or", "1@6:  three."]
    );
    // A part of a reply that the client has whole is late.
    let messages = vec![
        started(5, 0),
        part(0, 0, "I"),
        reply(6, 0, "I look", 0),
        completed(7),
    ];
    assert_eq!(seen(TurnEvents::new(5, 6), messages), ["complete: I look"]);
}

/// Parts of the next reply may follow, and a client that has them has this one.
#[test]
fn a_reply_that_was_sent_in_parts_moves_the_cursor() {
    let mut events = TurnEvents::new(5, 0);
    for message in [started(5, 0), part(0, 0, "One")] {
        assert!(events.take(message).0.is_some());
    }
    let (response, is_over) = events.take(reply(6, 0, "One", 0));
    let response = response.expect("its number");
    assert_eq!(
        (response.seq, response.events.len(), is_over),
        (6, 0, false)
    );
}

#[test]
fn a_queued_turn_begins_under_its_number_or_is_dropped() {
    let queued = |seq| event(seq, Kind::TurnQueued(wire::TurnQueued { number: 4 }));
    let dropped = |reason: &str, failure| {
        let dropped = wire::QueuedTurnDropped {
            number: 4,
            reason: reason.to_owned(),
            failure,
        };
        event(9, Kind::QueuedTurnDropped(dropped))
    };
    // Another turn begins first.
    let messages = vec![queued(5), started(6, 2), started(7, 4)];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        ["queued 4", "started 3"]
    );
    let messages = vec![queued(5), dropped("not needed", None)];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        ["queued 4", "error: the turn was cancelled: not needed"]
    );
    let failure = Failure {
        reason: "CONTEXT_NOT_FOUND".to_owned(),
        message: "there is no context 'side'".to_owned(),
        ..Failure::default()
    };
    let messages = vec![queued(5), dropped("", Some(failure))];
    assert_eq!(
        seen(TurnEvents::new(5, 0), messages),
        ["queued 4", "error: there is no context 'side'"]
    );
}

#[test]
fn a_reply_that_was_cut_is_one_response_with_the_next() {
    let mut cut = reply(6, 0, "One, ", 0);
    if let Some(Kind::ReplyReceived(reply)) = cut.event.as_mut().and_then(|it| it.kind.as_mut()) {
        reply.finish = FinishReason::Length.into();
    }
    let messages = vec![started(5, 0), cut, reply(7, 1, "two.", 0), completed(8)];
    let seen = seen(TurnEvents::new(5, 0), messages);
    assert_eq!(seen.last().map(String::as_str), Some("complete: One, two."));
}
