//! What a program answers.
//!
//! Empty output, an empty object and text are a Proceed. Other JSON, and text with a line that begins like an answer, are
//! wrong: a guard that is mistaken must not let everything pass. As for Claude Code, an answer is all of the output. It
//! has the fields of Cairn, or those that Claude Code reads of its hooks:
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
//! | `hookSpecificOutput.additionalContext` | a notice to the model at PreRequest, an addition to the output at PostToolCall; passed over elsewhere |
//! | `suppressOutput`, `systemMessage` | nothing |

use super::plan::PlanJson;
use cairn_engine::conversation::Op;
use cairn_engine::hooks::{MAX_REASON, Mutation, Point, Verdict};
use cairn_engine::message::{Message, Part, Role};
use cairn_rpc::text::clip;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::mem::discriminant;

/// The fields of a Mutate.
const CHANGES: [&str; 6] = ["arguments", "output", "text", "ops", "plan", "prompt"];
/// The field of a Skip.
const RESULT: &str = "result";
/// The fields of a Mutate and of a Skip.
const PAYLOADS: [&str; 7] = [
    "arguments",
    "output",
    "text",
    "ops",
    "plan",
    "prompt",
    RESULT,
];
/// The fields of which an object needs one, unless it is empty.
const FIELDS: [&str; 6] = [
    "answer",
    "decision",
    "continue",
    "hookSpecificOutput",
    "systemMessage",
    "suppressOutput",
];
/// The fields of which `hookSpecificOutput` needs one, unless it has the name of the event alone.
const SPECIFIC: [&str; 3] = ["permissionDecision", "updatedInput", "additionalContext"];
/// The name of the event in `hookSpecificOutput`.
const EVENT: &str = "hookEventName";
/// The fields with which an answer begins.
const BEGINNINGS: [&str; 3] = ["\"answer\"", "\"decision\"", "\"hookSpecificOutput\""];
/// What an editor may write before the text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
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
    let output = output.strip_prefix(BYTE_ORDER_MARK).unwrap_or(output);
    let output = output.trim_ascii_start();
    if !output.starts_with(b"{") {
        return no_object(output);
    }
    let object: Object = serde_json::from_slice(output)
        .map_err(|error| format!("its output begins like a JSON object, and is none: {error}"))?;
    check_fields(&object)?;
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

/// The answer of output that does not begin like an object.
fn no_object(output: &[u8]) -> Result<Verdict, String> {
    if serde_json::from_slice::<IgnoredAny>(output).is_ok() {
        let shown = clip(&String::from_utf8_lossy(output), MOST_SHOWN);
        return Err(format!(
            "its output is JSON, and no object: {shown}; allowed: an object, text, or nothing"
        ));
    }
    match has_answer(&String::from_utf8_lossy(output)) {
        false => Ok(Verdict::Proceed),
        true => Err(
            "its output has an answer after other text; print the answer alone, and the rest to standard error"
                .to_owned(),
        ),
    }
}

/// A line begins like an answer.
fn has_answer(text: &str) -> bool {
    let mut rest = text;
    loop {
        let line = rest.trim_start_matches([' ', '\t', '\r']);
        let inside = line.strip_prefix('{').map(str::trim_start);
        if inside.is_some_and(|inside| BEGINNINGS.iter().any(|it| inside.starts_with(it))) {
            return true;
        }
        let Some((_, after)) = line.split_once('\n') else {
            return false;
        };
        rest = after;
    }
}

/// # Errors
/// The object has fields, and none that means something here; or fields that do not belong here.
fn check_fields(object: &Object) -> Result<(), String> {
    // Added context decides nothing, so it may be anywhere.
    let mut decisive = ["permissionDecision", "updatedInput"].into_iter();
    if let Some(name) = decisive.find(|name| has(object, name)) {
        return Err(format!(
            "its output has \"{name}\", which belongs into \"hookSpecificOutput\""
        ));
    }
    let named = object.get("hookSpecificOutput").and_then(Value::as_object);
    for (fields, known) in [(Some(object), &FIELDS[..]), (named, &SPECIFIC[..])] {
        let names = fields.into_iter().flat_map(Map::keys);
        let mut names = names.filter(|name| *name != EVENT).peekable();
        let Some(first) = names.peek().map(|name| clip(name, MOST_SHOWN)) else {
            continue;
        };
        if !names.any(|name| known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Err(format!(
                "its output has \"{first}\", and none of the fields that mean something there: {known}"
            ));
        }
    }
    Ok(())
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
        let payload = PAYLOADS.iter().find(|name| has(object, name));
        return match payload {
            None => Ok(None),
            Some(name) => {
                let answer = if *name == RESULT { "skip" } else { "mutate" };
                Err(format!(
                    "its output has \"{name}\", but not \"answer\": \"{answer}\""
                ))
            }
        };
    };
    // A Block and a required approval hold as they are: without the rest, nothing happens unseen.
    let taken: &[&str] = match answer {
        "proceed" => &[],
        "mutate" => &CHANGES,
        "skip" => &[RESULT],
        _ => &PAYLOADS,
    };
    let mut payloads = PAYLOADS.iter().filter(|name| has(object, name));
    if let Some(name) = payloads.find(|name| !taken.contains(*name)) {
        return Err(format!(
            "its answer is {answer}, which does not take \"{name}\""
        ));
    }
    Ok(Some(match answer {
        "proceed" => Verdict::Proceed,
        "mutate" => Verdict::Mutate(mutation(object)?),
        "skip" => Verdict::Skip(text(object, RESULT)?.unwrap_or_default().to_owned()),
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
        .filter(|name| has(object, name))
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
    let context = specific
        .map(|specific| text(specific, "additionalContext"))
        .transpose()?;
    let Some(context) = context.flatten().filter(|context| !context.is_empty()) else {
        return Ok(None);
    };
    let mutation = match (point, result) {
        (Point::PreRequest, _) => Mutation::Ops(vec![Op::Notice(context.to_owned())]),
        (Point::PostToolCall, Some("")) => Mutation::Output(context.to_owned()),
        (Point::PostToolCall, Some(result)) => Mutation::Output(format!("{result}\n{context}")),
        // Scripts for Claude Code add context where no text of Cairn has room for it. The rest of the answer counts.
        _ => return Ok(None),
    };
    Ok(Some(Verdict::Mutate(mutation)))
}

/// One that is null counts as none.
fn has(object: &Object, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
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
            "[hook] done\n",
            "{}",
            " {} ",
            "\u{feff}",
            "\u{feff}{}",
        ] {
            assert_eq!(of_call(output), Ok(Verdict::Proceed), "{output}");
        }
        for output in ["{", "{block}", "{} {}", "{\"answer\": \"block\""] {
            let why = of_call(output).unwrap_err();
            assert!(why.contains("begins like a JSON object"), "{output}: {why}");
        }
    }

    #[test]
    fn what_looks_like_an_answer_and_is_none_is_wrong() {
        for (output, says) in [
            ("[1]", "no object: [1]"),
            ("\"block\"", "no object"),
            ("false\n", "no object: false"),
            (r#"{"anwser": "block"}"#, "has \"anwser\", and none"),
            (r#"{"ok": false}"#, "answer, decision, continue"),
            (r#"{"reason": "no"}"#, "has \"reason\", and none"),
            (
                r#"{"permissionDecision": "deny"}"#,
                "belongs into \"hookSpecificOutput\"",
            ),
            (
                r#"{"systemMessage": "no", "permissionDecision": "deny"}"#,
                "belongs into",
            ),
            (
                r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "decision": "deny"}}"#,
                "has \"decision\", and none",
            ),
            (
                r#"{"answer": "proceed", "arguments": {}}"#,
                "does not take \"arguments\"",
            ),
            (
                r#"{"answer": "mutate", "output": "o", "result": "r"}"#,
                "does not take \"result\"",
            ),
            (
                r#"{"answer": "skip", "output": "o"}"#,
                "does not take \"output\"",
            ),
            (r#"{"result": "r"}"#, "and none"),
            (
                r#"{"continue": true, "result": "r"}"#,
                "not \"answer\": \"skip\"",
            ),
            ("checked\n{\"answer\": \"block\"}", "after other text"),
            (
                "checked\r\n  { \"decision\": \"block\"}\nbye",
                "after other text",
            ),
            (
                "checked\n\n{\n  \"hookSpecificOutput\": {}}",
                "after other text",
            ),
        ] {
            let why = of_call(output).unwrap_err();
            assert!(why.contains(says), "{output}: {why}");
        }
    }

    #[test]
    fn an_answer_holds_beside_what_it_does_not_take() {
        let refused = r#"{"answer": "block", "reason": "no", "arguments": {}}"#;
        assert_eq!(of_call(refused), block("no"));
        let marked = "\u{feff}{\"answer\": \"block\", \"reason\": \"no\"}";
        assert_eq!(of_call(marked), block("no"));
        let text = "it printed {\"answer\": \"block\"}\n{\"other\": 1}";
        assert_eq!(of_call(text), Ok(Verdict::Proceed), "no line begins so");
        for output in [
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse"}}"#,
            r#"{"decision": null, "reason": null}"#,
            r#"{"answer": "proceed", "arguments": null}"#,
            r#"{"continue": true, "additionalContext": "more"}"#,
        ] {
            assert_eq!(of_call(output), Ok(Verdict::Proceed), "{output}");
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
        assert_eq!(of_call(output), Ok(Verdict::Proceed), "it is passed over");
        assert_eq!(at(Point::OnTurnStart, output), Ok(Verdict::Proceed));
        let allowed = r#"{"hookSpecificOutput": {"permissionDecision": "allow", "additionalContext": "more"}}"#;
        assert_eq!(of_call(allowed), Ok(Verdict::Proceed));
        let asks = r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no", "additionalContext": "more"}}"#;
        assert_eq!(of_call(asks), block("no"));
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
            (
                r#"{"continue": true, "arguments": {}}"#,
                "but not \"answer\"",
            ),
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
