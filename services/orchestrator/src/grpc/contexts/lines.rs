//! Messages as JSON lines.

use super::super::messages::{ROLES, check};
use cairn_engine::limits::{MAX_EXTENSION, check_extension};
use cairn_engine::message::{Message, Part, Role};
use cairn_engine::text::without_bom;
use cairn_proto::event as wire;
use cairn_proto::json;
use cairn_rpc::RpcError;

/// A line is a message of this kind.
const MESSAGE: &str = "cairn.event.v1.Message";
const FIELD: &str = "jsonl";

/// The messages of lines.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) messages: Vec<Message>,
    /// Number of parts with reasoning of another model, which were left out.
    pub(super) dropped_parts: u32,
}

/// A message as a line, with its line break.
pub(super) fn line(message: &Message) -> Result<String, RpcError> {
    let line = json::line(MESSAGE, &wire::Message::from(message.clone()));
    let line = line.ok_or_else(|| RpcError::internal("a message is no JSON"))?;
    Ok(line + "\n")
}

/// Reads the messages of all lines.
///
/// The reasoning of an import is of one model. With `preserve_reasoning` that is the model of the first
/// reply, and each reply has to have some. Without it that is the model of the newest reply with
/// reasoning, which is the one that may continue; what an older one thought is left out.
///
/// # Errors
/// The first line that is no message, or that lacks its reasoning; more than one request may add.
pub(super) fn read(jsonl: &str, preserve_reasoning: bool) -> Result<Imported, RpcError> {
    let (mut numbered, mut bytes) = (Vec::new(), 0);
    for (i, line) in without_bom(jsonl).lines().enumerate() {
        if !line.trim().is_empty() {
            let message = message(i + 1, line)?;
            check_alone(i + 1, message.bytes())?;
            bytes += message.bytes();
            numbered.push((i + 1, message));
        }
    }
    check_extension(bytes).map_err(|problem| {
        RpcError::precondition(format!("{problem}; import them in parts")).reason("LIMIT")
    })?;
    match preserve_reasoning {
        true => {
            check_reasoning(&numbered)?;
            Ok(Imported {
                messages: numbered.into_iter().map(|(_, message)| message).collect(),
                dropped_parts: 0,
            })
        }
        false => Ok(without_old_reasoning(numbered)),
    }
}

/// Refuses a message that is too large for any request.
fn check_alone(number: usize, bytes: u64) -> Result<(), RpcError> {
    if bytes <= MAX_EXTENSION {
        return Ok(());
    }
    let problem = format!(
        "line {number}: the message has {bytes} bytes; at most {MAX_EXTENSION} are allowed"
    );
    Err(RpcError::precondition(problem).reason("LIMIT"))
}

fn message(number: usize, line: &str) -> Result<Message, RpcError> {
    let sent = json::from_line::<wire::Message>(MESSAGE, line);
    let sent = sent.map_err(|problem| {
        let error = bad_line(number, &problem);
        // The role is the only enum of a message.
        match problem.contains("enum value") {
            true => error.allowed(ROLES),
            false => error,
        }
    })?;
    if sent.role() == wire::Role::Unspecified {
        return Err(bad_line(number, "the message has no known role").allowed(ROLES));
    }
    let message = Message::try_from(sent);
    let message = message.map_err(|error| bad_line(number, &error.to_string()))?;
    check("message", &message).map_err(|error| bad_line(number, &error.message()))?;
    Ok(message)
}

fn bad_line(number: usize, problem: &str) -> RpcError {
    let error = RpcError::invalid(FIELD, format!("line {number}: {problem}"));
    error.reason("BAD_LINE").meta("line", number.to_string())
}

/// Provider and model of a part with reasoning.
fn source(part: &Part) -> Option<(&str, &str)> {
    match part {
        Part::Opaque(opaque) if !opaque.is_fields() => Some((&opaque.provider, &opaque.model)),
        _ => None,
    }
}

fn sources(message: &Message) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    message.parts.iter().filter_map(source)
}

fn check_reasoning(numbered: &[(usize, Message)]) -> Result<(), RpcError> {
    let mut first = None;
    for (number, message) in numbered {
        if message.role == Role::Assistant && sources(message).next().is_none() {
            let problem = "the reply has no reasoning; import without preserve_reasoning";
            return Err(bad_line(*number, problem));
        }
        for source in sources(message) {
            let (provider, model) = *first.get_or_insert(source);
            if source != (provider, model) {
                let problem = format!(
                    "the reasoning is of model {} of {}, and that before it of {model} of {provider}; \
                     import without preserve_reasoning",
                    source.1, source.0
                );
                return Err(bad_line(*number, &problem));
            }
        }
    }
    Ok(())
}

fn without_old_reasoning(numbered: Vec<(usize, Message)>) -> Imported {
    let mut messages = numbered.iter().rev();
    let newest = messages.find_map(|(_, message)| sources(message).next_back());
    let newest = newest.map(|(provider, model)| (provider.to_owned(), model.to_owned()));
    let is_kept = |part: &Part| {
        let newest = newest.as_ref();
        let newest = newest.map(|(provider, model)| (provider.as_str(), model.as_str()));
        source(part).is_none_or(|source| Some(source) == newest)
    };
    let mut imported = Imported::default();
    for (_, mut message) in numbered {
        let before = message.parts.len();
        message.parts.retain(is_kept);
        let dropped = before - message.parts.len();
        imported.dropped_parts += u32::try_from(dropped).unwrap_or(u32::MAX);
        let was_only_reasoning = dropped > 0 && message.parts.is_empty();
        if !was_only_reasoning {
            imported.messages.push(message);
        }
    }
    imported
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::{Media, Notice, Opaque, ToolCall, ToolResult};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn reply(text: &str, models: &[&str]) -> String {
        let mut message = Message::assistant(text, Vec::new());
        message.parts.extend(models.iter().map(|model| {
            Part::Opaque(Opaque {
                provider: "maker".to_owned(),
                model: (*model).to_owned(),
                kind: "thinking".to_owned(),
                json: "{}".to_owned(),
            })
        }));
        line(&message).unwrap()
    }

    fn user() -> String {
        line(&Message::user("hello")).unwrap()
    }

    #[test]
    fn what_was_exported_is_imported() {
        let lines = [user(), reply("a", &["m"]), user(), reply("b", &["m"])].concat();
        for preserve in [false, true] {
            let imported = read(&lines, preserve).unwrap();
            let again: Vec<_> = imported
                .messages
                .iter()
                .map(|it| line(it).unwrap())
                .collect();
            assert_eq!(again.concat(), lines);
            assert_eq!(imported.dropped_parts, 0);
        }
    }

    fn said() -> impl Strategy<Value = String> {
        any::<String>().prop_filter("it says something", |text| !text.is_empty())
    }

    /// A message as a context has it, with reasoning of one model.
    fn of_a_context() -> impl Strategy<Value = Message> {
        let shown = || {
            let media = ("[a-z]{1,9}/[a-z]{1,9}", vec(any::<u8>(), 0..40));
            let media = media.prop_map(|(mime, data)| Part::Media(Media { mime, data }));
            prop_oneof![said().prop_map(Part::Text), media]
        };
        let call = (any::<String>(), any::<String>(), any::<String>());
        let call = call.prop_map(|(id, name, arguments)| {
            Part::Call(ToolCall {
                id,
                name,
                arguments,
            })
        });
        let thought = said().prop_map(|text| {
            Part::Opaque(Opaque {
                provider: "maker".to_owned(),
                model: "m".to_owned(),
                kind: "thinking".to_owned(),
                json: serde_json::json!({"thinking": text}).to_string(),
            })
        });
        let notice = (said(), any::<bool>());
        let notice = notice.prop_map(|(text, is_of_workspace)| {
            Part::Notice(Notice {
                text,
                is_of_workspace,
            })
        });
        let result = (any::<String>(), any::<String>(), any::<bool>());
        let result = result.prop_map(|(call_id, text, is_error)| {
            Part::Result(ToolResult {
                call_id,
                text,
                is_error,
            })
        });
        prop_oneof![
            (Just(Role::User), vec(prop_oneof![shown(), notice], 1..4)),
            (
                Just(Role::Assistant),
                vec(prop_oneof![shown(), call, thought], 0..4)
            ),
            (Just(Role::Tool), vec(prop_oneof![shown(), result], 1..4)),
        ]
        .prop_map(|(role, parts)| Message { role, parts })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_lines_of_a_context_are_its_messages(messages in vec(of_a_context(), 0..8)) {
            let lines = messages.iter().map(|it| line(it).unwrap());
            let imported = read(&lines.collect::<String>(), false).unwrap();
            prop_assert_eq!(imported.messages, messages);
            prop_assert_eq!(imported.dropped_parts, 0);
        }
    }

    /// What a request may add counts as the context counts it, not as its line is written.
    #[test]
    fn the_line_of_every_message_that_may_be_added_is_read() {
        let media = |bytes: usize| Message {
            role: Role::User,
            parts: vec![Part::Media(Media {
                mime: "image/png".to_owned(),
                data: vec![7; bytes],
            })],
        };
        let most = media(MAX_EXTENSION as usize - 41);
        assert_eq!(most.bytes(), MAX_EXTENSION);
        let imported = read(&line(&most).unwrap(), false).unwrap();
        assert_eq!(imported.messages, [most]);
        let more = line(&media(MAX_EXTENSION as usize - 40)).unwrap();
        let error = read(&more, false).unwrap_err();
        assert_eq!(error.reason_name(), "LIMIT", "{error}");
    }

    #[test]
    fn a_message_that_no_request_takes_is_named_and_no_parts_are_proposed() {
        let large = |bytes| line(&Message::user("x".repeat(bytes))).unwrap();
        let most = MAX_EXTENSION as usize;
        let error = read(&(user() + &large(most)), false).unwrap_err();
        let message = error.message();
        assert!(message.starts_with("line 2: the message has "), "{message}");
        let error = read(&(large(most / 2) + &large(most / 2)), false).unwrap_err();
        let message = error.message();
        assert!(message.ends_with("import them in parts"), "{message}");
    }

    #[test]
    fn an_unknown_role_is_refused_with_those_that_there_are() {
        for role in [r#""role":"user","#, r#""role":9,"#, ""] {
            let text = format!(r#"{{{role}"parts":[{{"text":"x"}}]}}"#);
            let error = read(&text, false).unwrap_err();
            assert_eq!(error.reason_name(), "BAD_LINE");
            let wanted = "(allowed: ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL)";
            assert!(error.message().contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_line_keeps_the_marks_of_a_notice() {
        let notice = |text: &str, is_of_workspace| {
            Part::Notice(Notice {
                text: text.to_owned(),
                is_of_workspace,
            })
        };
        let mut message = Message::user("hello");
        message.parts.push(notice("changed", false));
        message.parts.push(notice("instructions", true));
        let text = line(&message).unwrap();
        let parts = concat!(
            r#"{"text":"changed","synthetic":true},"#,
            r#"{"text":"instructions","synthetic":true,"workspace":true}"#
        );
        assert!(text.contains(parts), "{text}");
        assert_eq!(read(&text, false).unwrap().messages, [message]);
        // Only the user's messages have any.
        let reply = r#"{"role":"ROLE_ASSISTANT","parts":[{"text":"x","synthetic":true}]}"#;
        assert_eq!(read(reply, false).unwrap_err().reason_name(), "BAD_LINE");
    }

    #[test]
    fn text_as_windows_writes_it_is_imported() {
        let lines = [user(), user()].concat();
        let windows = format!("\u{feff}{}", lines.replace('\n', "\r\n"));
        let messages = |lines: &str| read(lines, false).unwrap().messages;
        assert_eq!(messages(&windows), messages(&lines));
    }

    #[test]
    fn the_first_bad_line_is_named_and_blank_lines_count() {
        let cases = [
            format!("{}\n  \nno\n", user()),
            format!("\n\n{}\n", r#"{"role":"ROLE_USER","parts":[{"call":{}}]}"#),
            format!("\n\n{}", r#"{"role":"ROLE_SYSTEM","parts":[{"text":"x"}]}"#),
            format!("\n\n{}", r#"{"role":"ROLE_USER"}"#),
        ];
        for (case, wanted) in cases.iter().zip(["4", "3", "3", "3"]) {
            let error = read(case, false).unwrap_err();
            assert_eq!(error.reason_name(), "BAD_LINE");
            assert_eq!(error.metadata("line"), Some(wanted), "{error}");
            assert!(
                error.message().contains(&format!("line {wanted}: ")),
                "{error}"
            );
        }
        assert!(read(" \n\n\t\n", true).unwrap().messages.is_empty());
    }

    #[test]
    fn reasoning_is_of_one_model_and_of_each_reply_if_it_is_preserved() {
        let missing = [reply("a", &["m"]), user(), reply("b", &[])].concat();
        let other = [user(), reply("a", &["m"]), reply("b", &["n"])].concat();
        let mixed = ["\n".to_owned(), user(), reply("a", &["m", "n"])].concat();
        for lines in [missing, other, mixed] {
            let error = read(&lines, true).unwrap_err();
            assert_eq!(error.metadata("line"), Some("3"), "{error}");
        }
    }

    #[test]
    fn fields_of_a_call_are_no_reasoning() {
        let with_fields = |models: &[&str]| {
            let mut message = from_line(&reply("a", models));
            message.parts.push(Part::Opaque(Opaque {
                provider: "maker".to_owned(),
                model: "other".to_owned(),
                kind: "message_fields".to_owned(),
                json: "{}".to_owned(),
            }));
            line(&message).unwrap()
        };
        let lines = [reply("a", &["m"]), user(), with_fields(&["m"])].concat();
        assert_eq!(read(&lines, true).unwrap().messages.len(), 3);
        assert_eq!(read(&lines, false).unwrap().dropped_parts, 0);
        let lines = [user(), with_fields(&[])].concat();
        let error = read(&lines, true).unwrap_err();
        assert!(error.message().contains("no reasoning"), "{error}");
    }

    fn from_line(line: &str) -> Message {
        read(line, false).unwrap().messages.remove(0)
    }

    #[test]
    fn reasoning_of_an_older_model_is_left_out_and_counted() {
        let lines = [
            reply("", &["m"]),
            reply("a", &["m", "n"]),
            user(),
            reply("b", &["n"]),
            reply("c", &[]),
        ];
        let imported = read(&lines.concat(), false).unwrap();
        assert_eq!(imported.dropped_parts, 2);
        let left: Vec<_> = imported
            .messages
            .iter()
            .map(|it| line(it).unwrap())
            .collect();
        let wanted = [
            reply("a", &["n"]),
            user(),
            reply("b", &["n"]),
            reply("c", &[]),
        ];
        assert_eq!(left, wanted);
    }
}
