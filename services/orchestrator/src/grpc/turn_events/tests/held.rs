//! Replies and results that hooks are asked about.

use super::*;
use cairn_proto::event::hook_mutation::Change;
use cairn_proto::event::{HookGate, HookMutation, HookOutcome, HookPoint, HookVerdict};

fn held_reply(seq: u64, text: &str, calls: usize) -> pb::WatchSessionResponse {
    let mut message = reply(seq, 0, text, calls);
    let event = message.event.as_mut().unwrap();
    let Some(Kind::ReplyReceived(reply)) = &mut event.kind else {
        panic!("{event:?}");
    };
    reply.held = true;
    reply.usage = Some(wire::Usage {
        input_tokens: 7,
        ..wire::Usage::default()
    });
    message
}

fn result(seq: u64, index: u32, held: bool) -> pb::WatchSessionResponse {
    let call = CallRef {
        attempt: attempt(),
        tool_turn: 0,
        index,
    };
    let finished = CallFinished {
        call: Some(call),
        output: format!("raw {index}"),
        held,
        ..CallFinished::default()
    };
    event(seq, Kind::CallFinished(finished))
}

fn answered(
    seq: u64,
    (point, index): (HookPoint, u32),
    verdict: HookVerdict,
    change: Option<Change>,
) -> pb::WatchSessionResponse {
    let gate = HookGate {
        point: point.into(),
        attempt: attempt(),
        turn: 0,
        index,
    };
    let outcome = HookOutcome {
        verdict: verdict.into(),
        hook: "guard".to_owned(),
        text: "no secrets".to_owned(),
        mutation: change.map(|change| HookMutation {
            change: Some(change),
        }),
        ..HookOutcome::default()
    };
    let answered = HooksAnswered {
        gate: Some(gate),
        outcomes: vec![outcome],
    };
    event(seq, Kind::HooksAnswered(answered))
}

const REPLY: (HookPoint, u32) = (HookPoint::PostRequest, 0);

fn outputs(mut events: TurnEvents, messages: Vec<pb::WatchSessionResponse>) -> Vec<String> {
    let responses = messages.into_iter().filter_map(|it| events.take(it).0);
    let outputs = responses.flat_map(|it| it.events).filter_map(|event| {
        let Some(Event::ToolResult(result)) = event.event else {
            return None;
        };
        let shown = result.result.unwrap();
        Some(format!("{} {}", shown.is_error, shown.text))
    });
    outputs.collect()
}

#[test]
fn a_held_reply_is_sent_as_hooks_left_it_and_not_before() {
    let begin = vec![started(2, 0), held_reply(3, "secret", 1)];
    assert_eq!(seen(TurnEvents::new(2, 0), begin.clone()), ["started 3"]);
    for (verdict, change, expected) in [
        (
            HookVerdict::Proceed,
            None,
            vec!["started 3", "0@0: secret", "call 0-0"],
        ),
        (
            HookVerdict::Mutate,
            Some(Change::Text("hidden".to_owned())),
            vec!["started 3", "0@0: hidden", "call 0-0"],
        ),
        (HookVerdict::Block, None, vec!["started 3"]),
    ] {
        let mut messages = begin.clone();
        messages.push(answered(4, REPLY, verdict, change));
        assert_eq!(seen(TurnEvents::new(2, 0), messages), expected);
    }
}

/// A stream that continues behind the reply, and before the answers, has the whole reply.
#[test]
fn a_client_that_has_the_event_of_a_held_reply_gets_the_reply() {
    let messages = vec![
        started(2, 0),
        held_reply(3, "text", 0),
        answered(4, REPLY, HookVerdict::Proceed, None),
    ];
    let seen = seen(TurnEvents::new(2, 3), messages);
    assert_eq!(seen.last().map(String::as_str), Some("0@0: text"));
}

#[test]
fn the_usage_of_a_blocked_reply_counts() {
    let mut events = TurnEvents::new(2, 0);
    for message in [
        started(2, 0),
        held_reply(3, "secret", 0),
        answered(4, REPLY, HookVerdict::Block, None),
    ] {
        events.take(message);
    }
    assert_eq!(events.usage.input_tokens, 7);
}

#[test]
fn a_held_result_is_sent_as_hooks_left_it() {
    let messages = vec![
        started(2, 0),
        reply(3, 0, "", 3),
        result(4, 0, true),
        result(5, 1, false),
        result(6, 2, true),
        answered(7, (HookPoint::PostToolCall, 2), HookVerdict::Block, None),
        answered(
            8,
            (HookPoint::PostToolCall, 0),
            HookVerdict::Mutate,
            Some(Change::Output("clean".to_owned())),
        ),
    ];
    let expected = [
        "false raw 1",
        "true the call was made, and hook 'guard' blocked its result at PostToolCall: no secrets",
        "false clean",
    ];
    assert_eq!(outputs(TurnEvents::new(2, 0), messages), expected);
}

/// The rest may have what a hook took out of the beginning.
#[test]
fn a_held_result_keeps_its_rest_only_if_hooks_leave_it_as_it_was() {
    let output = |text: &str| Some(Change::Output(text.to_owned()));
    for (verdict, change, is_offered) in [
        (HookVerdict::Proceed, None, true),
        (HookVerdict::Mutate, output("read on: no secrets"), false),
        (HookVerdict::Mutate, output("clean"), false),
        (HookVerdict::Block, None, false),
    ] {
        let mut long = result(4, 0, true);
        let event = long.event.as_mut().unwrap();
        let Some(Kind::CallFinished(finished)) = &mut event.kind else {
            panic!("{event:?}");
        };
        finished.whole = Some(wire::ResultHandle {
            handle: "no secrets".to_owned(),
            ..wire::ResultHandle::default()
        });
        let post = (HookPoint::PostToolCall, 0);
        let mut events = TurnEvents::new(2, 0);
        for message in [started(2, 0), reply(3, 0, "", 1), long] {
            events.take(message);
        }
        let (response, _) = events.take(answered(5, post, verdict, change));
        let shown = response.unwrap().events.remove(0).event;
        let Some(Event::ToolResult(shown)) = shown else {
            panic!("no result");
        };
        assert_eq!(shown.whole.is_some(), is_offered, "{verdict:?}");
    }
}

#[test]
fn a_client_sees_held_results_of_a_cancelled_turn_unless_its_context_keeps_others() {
    let call = |index| CallRef {
        attempt: attempt(),
        tool_turn: 0,
        index,
    };
    let cancelled = |results| {
        let cancelled = wire::RunCancelled {
            run: RUN,
            results,
            ..wire::RunCancelled::default()
        };
        vec![
            started(2, 0),
            reply(3, 0, "", 2),
            result(4, 0, true),
            result(5, 1, true),
            event(6, Kind::RunCancelled(cancelled)),
        ]
    };
    let nothing_kept = outputs(TurnEvents::new(2, 0), cancelled(Vec::new()));
    assert_eq!(nothing_kept, ["false raw 0", "false raw 1"]);
    let kept = [0, 1].map(|index| OpenCall {
        call: Some(call(index)),
        output: format!("withheld {index}"),
    });
    let kept = outputs(TurnEvents::new(2, 0), cancelled(kept.into()));
    assert_eq!(kept, ["true withheld 0", "true withheld 1"]);
}
