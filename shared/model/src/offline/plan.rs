//! From a goal, an earlier plan and feedback to a plan.

use super::ask::{Ask, quote};
use super::words::has;
use crate::prompt::PLAN_REPAIR;
use cairn_engine::message::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;

const REMOVALS: &str = "without drop remove except skip ignore forget leave not don't no";

/// The plan as JSON text, for the planner's messages: a goal, then perhaps a plan with feedback on it.
pub(super) fn plan(messages: &[Arc<Message>]) -> String {
    let (mut ask, mut is_planned) = (None, false);
    for message in messages {
        let text = message.text();
        match (message.role, &mut ask) {
            (Role::User, None) => ask = Some(Ask::parse(&text)),
            (Role::User, Some(ask)) if is_planned => revise(ask, &text),
            (Role::Assistant, ask) => {
                let planned = read_plan(&text);
                is_planned = planned.is_some();
                *ask = planned.or(ask.take());
            }
            _ => {}
        }
    }
    format!("{:#}", json!({"steps": steps(&ask.unwrap_or_default())}))
}

/// Each description has all that its step needs, because a step sees nothing else of the plan.
fn steps(ask: &Ask) -> Vec<Value> {
    let (place, output) = (ask.place(), ask.report());
    let step = |title: &str, text: String| json!({"title": title, "description": text});
    let survey = match ask.path.as_str() {
        "" => "Survey the workspace".to_owned(),
        path => format!("Survey {path}"),
    };
    let mut steps = vec![step(
        &survey,
        format!("List the files {place} and count them."),
    )];
    for term in ask.terms.iter().map(|term| quote(term)) {
        let text = format!("Search the files {place} for {term}, and read around what is found.");
        steps.push(step(&format!("Search for {term}"), text));
    }
    if ask.terms.is_empty() {
        let text = format!("Read how the files {place} begin.");
        steps.push(step("Read how the files begin", text));
    }
    let text = format!("Write what was found to {output}.");
    steps.push(step("Write the report", text));
    steps
}

/// What the steps of a plan ask for.
fn read_plan(text: &str) -> Option<Ask> {
    let plan: Value = serde_json::from_str(text).ok()?;
    let mut ask = Ask::default();
    for step in plan["steps"].as_array()? {
        ask.add(Ask::parse(step["description"].as_str().unwrap_or_default()));
    }
    Some(ask)
}

/// Feedback adds words, removes words, or names another folder or file.
fn revise(ask: &mut Ask, feedback: &str) {
    // What the planner reports about a plan that it cannot read is no feedback.
    let repair = PLAN_REPAIR.split('{').next().unwrap_or(PLAN_REPAIR);
    if feedback.starts_with(repair) {
        return;
    }
    let mut change = Ask::parse(feedback);
    let lower = feedback.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '\'');
    if words.any(|word| has(REMOVALS, word)) {
        ask.terms.retain(|term| !change.has_term(term));
        change.terms.clear();
    }
    ask.add(change);
}
