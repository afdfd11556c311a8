//! A message that has to be there and is not is named by its path.

use crate::samples::samples;
use crate::{descriptor, encoded};
use cairn_engine::level::LEVEL;
use cairn_proto::convert::{ConvertError, Decoded, decode_event, summarised};
use cairn_proto::{event as proto, executor};
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Value};

/// Paths of messages that may be left out, as their ends.
const OPTIONAL: [&str; 35] = [
    "call_finished.whole",
    "call_finished.usage",
    "call_finished.file",
    "approval_granted.scope",
    "principal",
    "start_run.plan",
    "start_run.limits",
    "revise_plan.plan",
    "].tool",
    "run_failed.usage",
    "run_ending.usage",
    "hooks_asked.failure",
    "hooks_asked.plan",
    ".mutation",
    "run_started.turn",
    "run_started.agent",
    "context_created.agent",
    "agent_switched.agent",
    "agent_defined.agent.tools",
    "agent_defined.agent.limits",
    "agent_defined.agent.compaction",
    "queued_turn_dropped.failure",
    "context_full.failure",
    "context_changed.popped",
    "submit_turn.message",
    "submit_turn.options",
    "options.response_format",
    "options.tools",
    "create_context.window",
    "set_window.window",
    ".writer",
    "writer.attempt",
    "scratchpad_written.frame",
    ".since",
    ".through",
];

/// A message in the field of another, or in its list.
type Segment = (FieldDescriptor, Option<usize>);

/// Paths to all messages within `message` that are set and are not elements of lists.
fn paths(message: &DynamicMessage) -> Vec<Vec<Segment>> {
    let mut found = Vec::new();
    for (field, value) in message.fields() {
        let inner = match value {
            Value::Message(inner) => {
                found.push(vec![(field.clone(), None)]);
                vec![(None, inner)]
            }
            Value::List(list) => {
                let messages = list.iter().map(Value::as_message).enumerate();
                messages
                    .filter_map(|(position, inner)| Some((Some(position), inner?)))
                    .collect()
            }
            _ => Vec::new(),
        };
        for (position, inner) in inner {
            found.extend(paths(inner).into_iter().map(|mut path| {
                path.insert(0, (field.clone(), position));
                path
            }));
        }
    }
    found
}

fn clear(message: &mut DynamicMessage, path: &[Segment]) {
    let ((field, position), rest) = path.split_first().unwrap();
    if rest.is_empty() {
        message.clear_field(field);
        return;
    }
    let inner = match (message.get_field_mut(field), position) {
        (Value::Message(inner), None) => inner,
        (Value::List(list), Some(position)) => list[*position].as_message_mut().unwrap(),
        other => panic!("not a message: {other:?}"),
    };
    clear(inner, rest);
}

/// The path as an error names it.
fn dotted(path: &[Segment]) -> String {
    let segments: Vec<String> = path
        .iter()
        .map(|(field, position)| match position {
            Some(position) => format!("{}[{position}]", field.name()),
            None => field.name().to_owned(),
        })
        .collect();
    segments.join(".")
}

/// It is one of several: without it, another one may be set that only a newer version knows.
fn is_choice(path: &[Segment]) -> bool {
    let last = path.last();
    last.is_some_and(|(field, _)| field.containing_oneof().is_some())
}

#[test]
fn every_missing_message_of_an_event_is_named_unless_a_newer_one_may_be_there() {
    let mut required = 0;
    for (name, event) in samples() {
        let whole = DynamicMessage::decode(descriptor("Event"), &*encoded(&event)).unwrap();
        for path in paths(&whole) {
            let mut part = whole.clone();
            clear(&mut part, &path);
            let outcome = decode_event(&part.encode_to_vec(), LEVEL);
            let dotted = dotted(&path);
            if is_choice(&path) {
                assert_eq!(outcome, Ok(Decoded::Newer { needs: 1 }), "{name}: {dotted}");
                required += 1;
            } else if OPTIONAL.iter().any(|end| dotted.ends_with(end)) {
                assert!(
                    matches!(outcome, Ok(Decoded::Event(_))),
                    "{name}: {outcome:?}"
                );
            } else {
                let error = outcome.expect_err(name);
                assert_eq!(error.field, dotted, "{name}");
                assert!(error.problem.contains("missing"), "{name}: {error}");
                required += 1;
            }
        }
    }
    assert!(required > 50, "only {required} messages were left out");
}

#[test]
fn missing_messages_of_a_report_are_named() {
    let reply = cairn_engine::decide::Reply::try_from(executor::Reply::default());
    assert_eq!(reply, Err(ConvertError::missing("usage")));

    let full = cairn_engine::decide::FullRequest::try_from(executor::FullRequest::default());
    assert_eq!(full, Err(ConvertError::missing("tokens")));

    let summary = summarised(executor::SummaryReport::default(), None);
    assert_eq!(summary, Err(ConvertError::missing("usage")));

    let result = executor::CallResult::default();
    let result = cairn_proto::convert::Reported::try_from(result);
    assert_eq!(result, Err(ConvertError::missing("call")));

    let result = executor::CallResult {
        call: Some(proto::CallRef::default()),
        ..Default::default()
    };
    let result = cairn_proto::convert::Reported::try_from(result);
    assert_eq!(result, Err(ConvertError::missing("call.attempt")));
}

#[test]
fn a_start_without_limits_has_the_defaults() {
    let start = cairn_engine::command::StartRun::try_from(proto::StartRun {
        goal: "g".into(),
        ..Default::default()
    });
    let expected = cairn_engine::command::StartRun {
        goal: "g".into(),
        ..Default::default()
    };
    assert_eq!(start, Ok(expected));
}

#[test]
fn an_error_says_where_and_what() {
    let error = ConvertError::missing("tool")
        .within("steps[2]")
        .within("plan");
    assert_eq!(error.to_string(), "plan.steps[2].tool: is missing");
}
