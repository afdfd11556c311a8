//! What a program answers.
//!
//! Standard output without a JSON object is a Proceed. An object has the fields of Cairn, or those that Claude Code
//! reads of its hooks:
//!
//! | field | means |
//! |---|---|
//! | `answer` | `proceed`, `mutate`, `skip`, `require_approval` or `block` |
//! | `reason` | of `block` and `require_approval` |
//! | `result` | of `skip` |
//! | `arguments`, `output`, `text`, `ops`, `plan`, `prompt` | of `mutate`: exactly one of them |
//! | `decision`, `reason` | `block`, or `approve` for Proceed |
//! | `continue`, `stopReason` | `false` is a Block |
//! | `hookSpecificOutput.permissionDecision` | `allow` and `defer` are a Proceed, `deny` is a Block, `ask` asks a person |
//! | `hookSpecificOutput.updatedInput` | a Mutate of the arguments |
//! | `hookSpecificOutput.additionalContext` | a notice to the model, or an addition to the output |

use super::plan::PlanJson;
use cairn_engine::conversation::Op;
use cairn_engine::hooks::{MAX_REASON, Mutation, Point, Verdict};
use cairn_engine::message::{Message, Part, Role};
use cairn_rpc::text::clip;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use std::mem::discriminant;

/// The fields of a Mutate.
const CHANGES: [&str; 6] = ["arguments", "output", "text", "ops", "plan", "prompt"];
/// Most bytes of a value that an error shows.
const MOST_SHOWN: usize = 100;
/// In place of a reason.
const NO_REASON: &str = "the hook gave no reason";

type Object = Map<String, Value>;

/// Reads the output of a program that ended with success. `result` is the output of the call that the question is
/// about, if it is about a result.
///
/// # Errors
/// Why it is no answer, in words.
pub(super) fn read(output: &[u8], point: Point, result: Option<&str>) -> Result<Verdict, String> {
    let output = output.trim_ascii();
    if !output.starts_with(b"{") {
        return Ok(Verdict::Proceed);
    }
    // A guard whose answer is broken must not let everything pass.
    let object: Object = serde_json::from_slice(output)
        .map_err(|error| format!("its output begins like a JSON object, and is none: {error}"))?;
    let specific = specific(&object)?;
    let answers = [
        own(&object)?,
        decision(&object)?,
        stop(&object)?,
        permission(specific)?,
        updated_input(specific)?,
    ];
    let answers: Vec<Verdict> = answers.into_iter().flatten().collect();
    let context = additional_context(specific, point, result)?;
    match (strictest(answers)?, context) {
        // What is added counts beside nothing else.
        (Verdict::Proceed, Some(context)) => Ok(context),
        (verdict, _) => Ok(verdict),
    }
}

/// The reason that a program gives in its words.
pub(super) fn reason(said: &str) -> String {
    let said = said.trim();
    match said.is_empty() {
        true => NO_REASON.to_owned(),
        false => said[..said.floor_char_boundary(MAX_REASON)].to_owned(),
    }
}

/// The one answer of several. A Proceed goes with a Mutate, which is a permission for other arguments.
fn strictest(answers: Vec<Verdict>) -> Result<Verdict, String> {
    let (proceeds, mut others): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|answer| *answer == Verdict::Proceed);
    if others.is_empty() {
        return Ok(Verdict::Proceed);
    }
    let first = others.swap_remove(0);
    let agrees = |other: &Verdict| match other {
        Verdict::Mutate(_) => *other == first,
        _ => discriminant(other) == discriminant(&first),
    };
    let is_mutate = matches!(first, Verdict::Mutate(_));
    match others.iter().all(agrees) && (proceeds.is_empty() || is_mutate) {
        true => Ok(first),
        false => Err("its output has two answers that contradict each other".to_owned()),
    }
}

/// The answer in Cairn's own fields.
fn own(object: &Object) -> Result<Option<Verdict>, String> {
    let Some(answer) = text(object, "answer")? else {
        let change = CHANGES.iter().find(|name| object.contains_key(**name));
        return match change {
            None => Ok(None),
            Some(name) => Err(format!(
                "its output has \"{name}\", but not \"answer\": \"mutate\""
            )),
        };
    };
    Ok(Some(match answer {
        "proceed" => Verdict::Proceed,
        "mutate" => Verdict::Mutate(mutation(object)?),
        "skip" => Verdict::Skip(text(object, "result")?.unwrap_or_default().to_owned()),
        "require_approval" => Verdict::RequireApproval(reason_in(object, "reason")?),
        "block" => Verdict::Block(reason_in(object, "reason")?),
        other => {
            let allowed = "proceed, mutate, skip, require_approval, block";
            return Err(not_allowed("answer", other, allowed));
        }
    }))
}

fn mutation(object: &Object) -> Result<Mutation, String> {
    let mut found = CHANGES
        .iter()
        .filter_map(|name| Some((*name, object.get(*name)?)));
    let (Some((name, value)), None) = (found.next(), found.next()) else {
        let allowed = CHANGES.join(", ");
        return Err(format!(
            "its answer is mutate; with it belongs exactly one of: {allowed}"
        ));
    };
    let text = || text(object, name).map(|text| text.unwrap_or_default().to_owned());
    Ok(match name {
        "arguments" => Mutation::Arguments(of_object(name, value)?.to_string()),
        "output" => Mutation::Output(text()?),
        "text" => Mutation::Text(text()?),
        "prompt" => Mutation::Prompt(text()?),
        "plan" => {
            let plan = PlanJson::deserialize(value);
            let plan = plan.map_err(|error| format!("its \"plan\" cannot be read: {error}"))?;
            Mutation::Plan(plan.into())
        }
        _ => {
            let ops = value
                .as_array()
                .ok_or_else(|| "its \"ops\" is no list".to_owned())?;
            Mutation::Ops(ops.iter().map(op).collect::<Result<_, _>>()?)
        }
    })
}

/// A change of the conversation.
fn op(value: &Value) -> Result<Op, String> {
    let object = value
        .as_object()
        .ok_or_else(|| "an item of its \"ops\" is no object".to_owned())?;
    let number = |name: &str| {
        let value = object.get(name).filter(|value| !value.is_null());
        let number = |value: &Value| value.as_u64().and_then(|it| u32::try_from(it).ok());
        let wrong = || format!("an op has \"{name}\", which is no number of a message");
        value
            .map(|value| number(value).ok_or_else(wrong))
            .transpose()
    };
    let required = || number("number")?.ok_or_else(|| "an op has no \"number\"".to_owned());
    let said = || {
        let said = text(object, "text")?;
        said.map(str::to_owned)
            .ok_or_else(|| "an op has no \"text\"".to_owned())
    };
    let message = || {
        let role = match text(object, "role")? {
            None | Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some(other) => return Err(not_allowed("role", other, "user, assistant")),
        };
        Ok(Message {
            role,
            parts: vec![Part::Text(said()?)],
        })
    };
    Ok(match text(object, "op")?.unwrap_or_default() {
        "append" => Op::Append(message()?),
        "update" => Op::Update {
            number: required()?,
            message: message()?,
        },
        "insert" => Op::Insert {
            before: number("before")?,
            message: message()?,
        },
        "remove" => Op::Remove {
            number: required()?,
        },
        "notice" => Op::Notice(said()?),
        other => {
            let allowed = "append, update, insert, remove, notice";
            return Err(not_allowed("op", other, allowed));
        }
    })
}

fn decision(object: &Object) -> Result<Option<Verdict>, String> {
    Ok(match text(object, "decision")? {
        None => None,
        Some("block") => Some(Verdict::Block(reason_in(object, "reason")?)),
        Some("approve") => Some(Verdict::Proceed),
        Some(other) => return Err(not_allowed("decision", other, "block, approve")),
    })
}

fn stop(object: &Object) -> Result<Option<Verdict>, String> {
    match object.get("continue") {
        None | Some(Value::Bool(true)) => Ok(None),
        Some(Value::Bool(false)) => Ok(Some(Verdict::Block(reason_in(object, "stopReason")?))),
        Some(_) => Err("its \"continue\" is neither true nor false".to_owned()),
    }
}

/// The fields that Claude Code keeps for some of its events.
fn specific(object: &Object) -> Result<Option<&Object>, String> {
    match object.get("hookSpecificOutput") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(specific)) => Ok(Some(specific)),
        Some(_) => Err("its \"hookSpecificOutput\" is no object".to_owned()),
    }
}

fn permission(specific: Option<&Object>) -> Result<Option<Verdict>, String> {
    let Some(specific) = specific else {
        return Ok(None);
    };
    let reason = || reason_in(specific, "permissionDecisionReason");
    Ok(match text(specific, "permissionDecision")? {
        None => None,
        Some("allow" | "defer") => Some(Verdict::Proceed),
        Some("deny") => Some(Verdict::Block(reason()?)),
        Some("ask") => Some(Verdict::RequireApproval(reason()?)),
        Some(other) => {
            let allowed = "allow, deny, ask, defer";
            return Err(not_allowed("permissionDecision", other, allowed));
        }
    })
}

fn updated_input(specific: Option<&Object>) -> Result<Option<Verdict>, String> {
    let name = "updatedInput";
    let input = specific.and_then(|specific| specific.get(name));
    let arguments = input.map(|input| of_object(name, input)).transpose()?;
    Ok(arguments.map(|it| Verdict::Mutate(Mutation::Arguments(it.to_string()))))
}

fn additional_context(
    specific: Option<&Object>,
    point: Point,
    result: Option<&str>,
) -> Result<Option<Verdict>, String> {
    let name = "additionalContext";
    let context = specific.map(|specific| text(specific, name)).transpose()?;
    let Some(context) = context.flatten().filter(|context| !context.is_empty()) else {
        return Ok(None);
    };
    let mutation = match (point, result) {
        (Point::PreRequest, _) => Mutation::Ops(vec![Op::Notice(context.to_owned())]),
        (Point::PostToolCall, Some("")) => Mutation::Output(context.to_owned()),
        (Point::PostToolCall, Some(result)) => Mutation::Output(format!("{result}\n{context}")),
        _ => {
            let point = point.name();
            return Err(format!(
                "its output has \"{name}\", which {point} does not take; PreRequest and PostToolCall do"
            ));
        }
    };
    Ok(Some(Verdict::Mutate(mutation)))
}

fn text<'a>(object: &'a Object, name: &str) -> Result<Option<&'a str>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("its \"{name}\" is no text")),
    }
}

fn reason_in(object: &Object, name: &str) -> Result<String, String> {
    // A longer one is refused where all answers are checked.
    let given = text(object, name)?.map(str::trim);
    let given = given.filter(|given| !given.is_empty());
    Ok(given.unwrap_or(NO_REASON).to_owned())
}

fn of_object<'a>(name: &str, value: &'a Value) -> Result<&'a Value, String> {
    match value.is_object() {
        true => Ok(value),
        false => Err(format!("its \"{name}\" is no object")),
    }
}

fn not_allowed(name: &str, value: &str, allowed: &str) -> String {
    let value = clip(value, MOST_SHOWN);
    format!("its \"{name}\" is \"{value}\"; allowed: {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::plan::Order;

    fn at(point: Point, output: &str) -> Result<Verdict, String> {
        read(output.as_bytes(), point, Some("made"))
    }

    fn of_call(output: &str) -> Result<Verdict, String> {
        at(Point::PreToolCall, output)
    }

    fn block(reason: &str) -> Result<Verdict, String> {
        Ok(Verdict::Block(reason.to_owned()))
    }

    #[test]
    fn what_is_no_object_is_a_proceed() {
        for output in [
            "",
            " \n",
            "formatted 3 files\n",
            "[1]",
            "\"block\"",
            "{}",
            " {} ",
        ] {
            assert_eq!(of_call(output), Ok(Verdict::Proceed), "{output}");
        }
        for output in ["{", "{block}", "{} {}", "{\"answer\": \"block\""] {
            let why = of_call(output).unwrap_err();
            assert!(why.contains("begins like a JSON object"), "{output}: {why}");
        }
    }

    #[test]
    fn each_answer_has_its_fields() {
        let skip = |result: &str| Ok(Verdict::Skip(result.to_owned()));
        let cases = [
            (r#"{"answer": "proceed"}"#, Ok(Verdict::Proceed)),
            (r#"{"answer": "block", "reason": " no "}"#, block("no")),
            (r#"{"answer": "block"}"#, block(NO_REASON)),
            (r#"{"answer": "skip", "result": "done"}"#, skip("done")),
            (r#"{"answer": "skip"}"#, skip("")),
            (
                r#"{"answer": "require_approval", "reason": "look"}"#,
                Ok(Verdict::RequireApproval("look".to_owned())),
            ),
        ];
        for (output, verdict) in cases {
            assert_eq!(of_call(output), verdict, "{output}");
        }
    }

    #[test]
    fn each_change_is_read() {
        let change = |fields: &str| of_call(&format!(r#"{{"answer": "mutate", {fields}}}"#));
        let arguments = r#"{"b":1.500000000000000000001,"a":[2]}"#;
        for (fields, mutation) in [
            (
                format!(r#""arguments": {arguments}"#),
                Mutation::Arguments(arguments.to_owned()),
            ),
            (
                r#""output": "o""#.to_owned(),
                Mutation::Output("o".to_owned()),
            ),
            (r#""text": """#.to_owned(), Mutation::Text(String::new())),
            (
                r#""prompt": "p""#.to_owned(),
                Mutation::Prompt("p".to_owned()),
            ),
        ] {
            assert_eq!(change(&fields), Ok(Verdict::Mutate(mutation)), "{fields}");
        }
        for (fields, says) in [
            ("\"reason\": \"x\"", "exactly one of"),
            (r#""text": "a", "output": "b""#, "exactly one of"),
            (r#""arguments": "{}""#, "\"arguments\" is no object"),
            (r#""output": {}"#, "\"output\" is no text"),
            (r#""ops": {}"#, "\"ops\" is no list"),
            (r#""ops": [{"op": "clear"}]"#, "allowed: append"),
            (r#""ops": [{"op": "append"}]"#, "no \"text\""),
            (r#""ops": [{"op": "remove"}]"#, "no \"number\""),
            (r#""ops": [{"op": "remove", "number": -1}]"#, "no number"),
            (
                r#""ops": [{"op": "append", "text": "a", "role": "system"}]"#,
                "allowed: user",
            ),
            (r#""plan": {}"#, "\"plan\" cannot be read"),
            (r#""plan": {"steps": [{"todo": 1}]}"#, "todo"),
        ] {
            let why = change(fields).unwrap_err();
            assert!(why.contains(says), "{fields}: {why}");
        }
    }

    #[test]
    fn ops_are_read() {
        let output = r#"{"answer": "mutate", "ops": [
            {"op": "append", "text": "a"},
            {"op": "update", "number": 3, "text": "b", "role": "assistant"},
            {"op": "insert", "before": 4, "text": "c"},
            {"op": "insert", "before": null, "text": "d"},
            {"op": "remove", "number": 5},
            {"op": "notice", "text": "e"}
        ]}"#;
        let ops = vec![
            Op::Append(Message::user("a")),
            Op::Update {
                number: 3,
                message: Message::assistant("b", Vec::new()),
            },
            Op::Insert {
                before: Some(4),
                message: Message::user("c"),
            },
            Op::Insert {
                before: None,
                message: Message::user("d"),
            },
            Op::Remove { number: 5 },
            Op::Notice("e".to_owned()),
        ];
        let verdict = at(Point::PreRequest, output);
        assert_eq!(verdict, Ok(Verdict::Mutate(Mutation::Ops(ops))));
    }

    #[test]
    fn a_plan_is_read_as_it_is_written() {
        let plan = r#"{"order":"graph","steps":[{"id":"a","title":"","description":"","tool":{"name":"t","arguments":{"n":0.10}},"depends_on":[],"capabilities":["web"],"redo":2,"external_id":"x","note":"n"}]}"#;
        let verdict = of_call(&format!(r#"{{"answer": "mutate", "plan": {plan}}}"#));
        let Ok(Verdict::Mutate(Mutation::Plan(draft))) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(draft.order, Order::Graph);
        assert_eq!(draft.steps[0].redo, 2);
        let tool = draft.steps[0].tool.as_ref().unwrap();
        assert_eq!(tool.arguments, r#"{"n":0.10}"#);
        let written = serde_json::to_string(&PlanJson::from(draft)).unwrap();
        assert_eq!(written, plan);
    }

    #[test]
    fn scripts_for_claude_code_are_understood() {
        let specific = |fields: &str| {
            of_call(&format!(
                r#"{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {fields}}}, "suppressOutput": true}}"#
            ))
        };
        let ask = Ok(Verdict::RequireApproval("look".to_owned()));
        let input = Mutation::Arguments(r#"{"path":"a"}"#.to_owned());
        let input = Ok(Verdict::Mutate(input));
        for (fields, verdict) in [
            (r#""permissionDecision": "allow""#, Ok(Verdict::Proceed)),
            (r#""permissionDecision": "defer""#, Ok(Verdict::Proceed)),
            (
                r#""permissionDecision": "deny", "permissionDecisionReason": "no""#,
                block("no"),
            ),
            (
                r#""permissionDecision": "ask", "permissionDecisionReason": "look""#,
                ask,
            ),
            (r#""updatedInput": {"path": "a"}"#, input.clone()),
            (
                r#""permissionDecision": "allow", "updatedInput": {"path": "a"}"#,
                input,
            ),
        ] {
            assert_eq!(specific(fields), verdict, "{fields}");
        }
        for (output, verdict) in [
            (r#"{"decision": "approve"}"#, Ok(Verdict::Proceed)),
            (r#"{"decision": "block", "reason": "no"}"#, block("no")),
            (r#"{"continue": true}"#, Ok(Verdict::Proceed)),
            (r#"{"continue": false, "stopReason": "no"}"#, block("no")),
            (
                r#"{"continue": false, "stopReason": "a", "decision": "block", "reason": "b"}"#,
                block("b"),
            ),
            (r#"{"systemMessage": "hello"}"#, Ok(Verdict::Proceed)),
        ] {
            assert_eq!(of_call(output), verdict, "{output}");
        }
    }

    #[test]
    fn added_context_goes_to_the_model_where_it_can() {
        let output = r#"{"hookSpecificOutput": {"additionalContext": "more"}}"#;
        let notice = Mutation::Ops(vec![Op::Notice("more".to_owned())]);
        assert_eq!(at(Point::PreRequest, output), Ok(Verdict::Mutate(notice)));
        let added = Mutation::Output("made\nmore".to_owned());
        assert_eq!(at(Point::PostToolCall, output), Ok(Verdict::Mutate(added)));
        let why = of_call(output).unwrap_err();
        assert!(why.contains("PreToolCall does not take"), "{why}");
        let blocked = r#"{"decision": "block", "reason": "no", "hookSpecificOutput": {"additionalContext": "more"}}"#;
        assert_eq!(at(Point::PostToolCall, blocked), block("no"));
    }

    #[test]
    fn unknown_and_contradicting_answers_are_wrong() {
        for (output, says) in [
            (r#"{"answer": "deny"}"#, "allowed: proceed, mutate"),
            (r#"{"answer": 1}"#, "\"answer\" is no text"),
            (r#"{"decision": "deny"}"#, "allowed: block, approve"),
            (r#"{"continue": "no"}"#, "neither true nor false"),
            (r#"{"hookSpecificOutput": []}"#, "is no object"),
            (
                r#"{"hookSpecificOutput": {"permissionDecision": "no"}}"#,
                "allowed: allow, deny",
            ),
            (r#"{"arguments": {}}"#, "but not \"answer\""),
            (
                r#"{"answer": "proceed", "decision": "block"}"#,
                "contradict",
            ),
            (r#"{"answer": "skip", "decision": "block"}"#, "contradict"),
            (
                r#"{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}"#,
                "contradict",
            ),
            (
                r#"{"hookSpecificOutput": {"permissionDecision": "ask", "updatedInput": {}}}"#,
                "contradict",
            ),
        ] {
            let why = of_call(output).unwrap_err();
            assert!(why.contains(says), "{output}: {why}");
        }
    }

    #[test]
    fn a_reason_is_bounded() {
        assert_eq!(reason(" \n"), NO_REASON);
        assert_eq!(reason(" no force pushes\n"), "no force pushes");
        assert_eq!(
            reason(&"\u{fffd}".repeat(MAX_REASON)).len(),
            MAX_REASON / 3 * 3
        );
    }
}
