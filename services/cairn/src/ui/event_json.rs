//! Events as JSON, for `--json` and `cairn export`.
//!
//! One object an event: `seq`, `at` (UTC), `kind`, and then the fields as the contract names them; see
//! [`cairn_proto::json`]. These names are stable. A field `kind` of an event itself is `compaction` or `shortage` here.

use super::time::utc;
use cairn_proto::event as wire;
use cairn_proto::json;
use serde_json::{Map, Value};

/// The names of a field `kind`, beside the kind of its event: of a compaction, and of what the pool lacks.
const OWN_KINDS: [&str; 2] = ["compaction", "shortage"];

/// An event with its number as a JSON object: `seq`, `at`, `kind`, the fields of its kind, and, where
/// they are set, `answers`, `principal`, `needs` and `blobs`.
pub fn event_json(seq: u64, event: &wire::Event) -> Value {
    let mut fields = json::fields("cairn.event.v1.Event", event);
    let mut object = Map::new();
    object.insert("seq".into(), seq.into());
    object.insert("at".into(), utc(event.at_unix_ms).into());
    let answers = fields.remove("answers").filter(|seq| *seq != 0);
    let principal = fields.remove("principal").filter(|it| !it.is_null());
    let needs = fields.remove("needs").filter(|level| *level != 0);
    let is_list = |blobs: &Value| blobs.as_array().is_some_and(|blobs| !blobs.is_empty());
    let blobs = fields.remove("blobs").filter(is_list);
    fields.remove("at_unix_ms");
    // What is left is the kind; nothing of one that a newer version has written.
    let kind = fields.into_iter().next();
    let (kind, fields) = kind.unwrap_or_else(|| ("unknown".to_owned(), Value::Null));
    let [compaction, shortage] = OWN_KINDS;
    let own_kind = match kind.as_str() {
        "capability_short" => shortage,
        _ => compaction,
    };
    object.insert("kind".into(), kind.into());
    object.extend(answers.map(|answers| ("answers".to_owned(), answers)));
    object.extend(principal.map(|principal| ("principal".to_owned(), principal)));
    object.extend(needs.map(|needs| ("needs".to_owned(), needs)));
    object.extend(blobs.map(|blobs| ("blobs".to_owned(), blobs)));
    if let Value::Object(fields) = fields {
        let named = fields.into_iter().map(|(name, value)| match name.as_str() {
            "kind" => (own_kind.to_owned(), value),
            _ => (name, value),
        });
        object.extend(named);
    }
    Value::Object(object)
}

/// A failure as JSON; `null` if there is none.
pub fn failure(failure: Option<&wire::Failure>) -> Value {
    json::value("cairn.event.v1.Failure", failure)
}

/// Usage as JSON; zeros if there is none.
pub fn usage(usage: Option<&wire::Usage>) -> Value {
    let usage = usage.copied().unwrap_or_default();
    json::value("cairn.event.v1.Usage", Some(&usage))
}

/// Who asked or decided, as JSON; `null` if it is not known.
pub fn principal(principal: Option<&wire::Principal>) -> Value {
    json::value("cairn.event.v1.Principal", principal)
}

/// A long result as JSON; `null` if there is none.
pub fn result_handle(whole: Option<&wire::ResultHandle>) -> Value {
    json::value("cairn.event.v1.ResultHandle", whole)
}

/// A step as it was planned.
pub fn plan_step(step: &wire::PlanStep) -> Value {
    json::value("cairn.event.v1.PlanStep", Some(step))
}

/// A plan as JSON, by the names of the contract; `null` if there is none.
pub fn plan(plan: Option<&wire::Plan>) -> Value {
    json::value("cairn.event.v1.Plan", plan)
}

/// What the pool lacks, as JSON; empty if it lacks nothing.
pub fn missing(missing: &[wire::MissingCapability]) -> Vec<Value> {
    let one =
        |it: &wire::MissingCapability| json::value("cairn.event.v1.MissingCapability", Some(it));
    missing.iter().map(one).collect()
}

/// How steps depend on each other: `chain`, `graph`.
pub fn order(number: i32) -> String {
    let order = wire::Order::try_from(number).unwrap_or_default();
    short(order.as_str_name(), "ORDER_")
}

/// What a run uses up: `turns`, `tokens`, `cost`, `time`, `calls`, `tool_turns`.
pub fn budget(number: i32) -> String {
    let budget = wire::Budget::try_from(number).unwrap_or_default();
    short(budget.as_str_name(), "BUDGET_")
}

/// What a run waits for: `in_doubt`, `budget`, `approval`, `question`, `plan_review`, `context`,
/// `capability`, `hook`.
pub fn wait_reason(number: i32) -> String {
    let reason = wire::WaitReason::try_from(number).unwrap_or_default();
    short(reason.as_str_name(), "WAIT_REASON_")
}

/// Why no compaction helps: `nothing_to_compact`, `does_not_shrink`, `no_summary`.
pub fn full_cause(number: i32) -> String {
    let cause = wire::FullCause::try_from(number).unwrap_or_default();
    short(cause.as_str_name(), "FULL_CAUSE_")
}

/// An enum value's name as programs read it here: in lower case, without the enum's name.
pub fn short(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix)
        .unwrap_or(name)
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
