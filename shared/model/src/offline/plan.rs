//! Planning: from a goal to steps whose descriptions hold all that the rules need later.

use super::query::{MAX_TERMS, Query};
use super::refusal::is_about_plan;
use super::task::Task;
use cairn_engine::message::{Message, Role};
use serde_json::{Value, json};

/// The plan, as the JSON text of an answer, for the planning messages: the goal, then perhaps
/// earlier plans with what a person said to them.
pub(super) fn answer(messages: &[Message]) -> String {
    let mut said = messages.iter().filter(|message| message.role == Role::User);
    let goal = said.next().map_or_else(String::new, Message::text);
    let goal = goal.trim();
    let mut query = Query::parse(goal);
    let mut extra = None;
    for (at, message) in messages.iter().enumerate().skip(1) {
        // What follows a text that is no plan is the parser's complaint, not a wish.
        let after_plan = message.role == Role::User && is_plan(&messages[at - 1]);
        if after_plan {
            extra = revise(&mut query, &without_json(&message.text())).or(extra);
        }
    }
    let mut steps = tasks(&query);
    steps.extend(extra.map(|reason| Task::Refuse(reason.into())));
    let steps: Vec<Value> = steps
        .iter()
        .map(|task| json!({"title": task.title(), "description": task.description()}))
        .collect();
    format!("{:#}", json!({"steps": steps}))
}

fn tasks(query: &Query) -> Vec<Task> {
    if let Some(reason) = query.refusal {
        return vec![Task::Refuse(reason.into())];
    }
    let (scope, terms) = (&query.scope, &query.terms);
    let mut tasks = vec![Task::Survey(scope.clone())];
    for term in terms {
        tasks.push(Task::Search {
            scope: scope.clone(),
            term: term.clone(),
        });
    }
    if terms.is_empty() {
        tasks.push(Task::Outline(scope.clone()));
    } else {
        tasks.push(Task::Read {
            scope: scope.clone(),
            terms: terms.clone(),
        });
    }
    if terms.len() > 1 {
        tasks.push(Task::Compare {
            scope: scope.clone(),
            terms: terms.clone(),
        });
    }
    tasks.push(Task::Report {
        scope: scope.clone(),
        terms: terms.clone(),
        left_out: query.left_out.clone(),
    });
    tasks
}

fn is_plan(message: &Message) -> bool {
    let steps = json_in(&message.text()).and_then(|(_, value)| value.get("steps").cloned());
    message.role == Role::Assistant
        && steps.is_some_and(|steps| steps.as_array().is_some_and(|steps| !steps.is_empty()))
}

/// The first JSON object in `text`, with the bytes that it takes.
fn json_in(text: &str) -> Option<(std::ops::Range<usize>, Value)> {
    let starts = text.match_indices('{').take(20);
    starts.map(|(start, _)| start).find_map(|start| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        let value = values.next()?.ok()?;
        Some((start..start + values.byte_offset(), value))
    })
}

/// `text` without JSON objects: a plan that is shown beside a wish is no part of it.
fn without_json(text: &str) -> String {
    let mut plain = text.to_owned();
    while let Some((range, _)) = json_in(&plain) {
        plain.replace_range(range, "\n");
    }
    plain.replace("```json", "").replace("```", "")
}

const REMOVALS: [&str; 13] = [
    "without", "drop", "remove", "except", "skip", "ignore", "not", "don't", "no", "forget",
    "不要", "去掉", "删除",
];

/// Changes what is asked for by what a person said to the plan: further terms, fewer terms, another
/// folder. What the words ask for beyond the rules is returned.
fn revise(query: &mut Query, change: &str) -> Option<&'static str> {
    let lower = change.to_lowercase();
    let removes = REMOVALS.iter().any(|word| match word.is_ascii() {
        true => lower
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .any(|w| w == *word),
        false => lower.contains(word),
    });
    let new = Query::parse(change);
    let dropped: Vec<String> = new.terms.iter().map(|term| term.to_lowercase()).collect();
    if removes
        && query
            .terms
            .iter()
            .any(|term| dropped.contains(&term.to_lowercase()))
    {
        query
            .terms
            .retain(|term| !dropped.contains(&term.to_lowercase()));
        return None;
    }
    if let Some(reason) = new.refusal.filter(|reason| !is_about_plan(reason)) {
        return Some(reason);
    }
    if new.scope.path != "." {
        query.scope.path = new.scope.path;
    }
    if !new.scope.only.is_empty() {
        query.scope.only = new.scope.only;
    }
    for term in new.terms {
        let known = query
            .terms
            .iter()
            .any(|t| t.to_lowercase() == term.to_lowercase());
        match known {
            true => {}
            false if query.terms.len() < MAX_TERMS => query.terms.push(term),
            false => query.left_out.push(term),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "Plan.\n\nWorkspace: /w\n\nTools: list_files \"x\", read_file";

    fn titles(messages: &[Message]) -> Vec<String> {
        let plan: Value = serde_json::from_str(&answer(messages)).unwrap();
        let steps = plan["steps"].as_array().unwrap();
        steps
            .iter()
            .map(|step| step["title"].as_str().unwrap().to_owned())
            .collect()
    }

    fn goal(goal: &str) -> Vec<Message> {
        vec![Message::system(SYSTEM), Message::user(goal)]
    }

    #[test]
    fn a_goal_becomes_a_plan() {
        assert_eq!(
            titles(&goal("Which files under docs mention Redis?")),
            [
                "Survey docs",
                "Search for \"Redis\"",
                "Read the matches",
                "Write the report"
            ]
        );
        assert_eq!(
            titles(&goal("比较“甲方”和“乙方”")),
            [
                "Survey the workspace",
                "Search for \"甲方\"",
                "Search for \"乙方\"",
                "Read the matches",
                "Compare",
                "Write the report"
            ]
        );
        assert_eq!(
            titles(&goal("Summarize this project")),
            [
                "Survey the workspace",
                "Read how the files begin",
                "Write the report"
            ]
        );
        assert_eq!(
            titles(&goal("Run cargo test")),
            ["Say what cannot be rehearsed"]
        );
    }

    #[test]
    fn a_goal_may_have_blank_lines() {
        assert_eq!(
            titles(&goal("Look for these:\n\n\"Redis\"\n\n\"SQLite\"")).len(),
            6
        );
        // Whatever a paragraph begins with, it is a part of the goal.
        assert_eq!(
            titles(&goal("Look for these:\n\nTools: \"Redis\""))[1],
            "Search for \"Redis\""
        );
    }

    #[test]
    fn a_change_changes_the_plan_from_where_it_must() {
        let mut messages = goal("Find \"Redis\"");
        let first = titles(&messages);
        messages.push(Message::assistant(answer(&messages), vec![]));
        messages.push(Message::user(
            "Also search for \"Valkey\", please. Current plan: {\"a\":\"b\"}",
        ));
        let second = titles(&messages);
        assert_eq!(second[..2], first[..2]);
        assert_eq!(second[2], "Search for \"Valkey\"");
        messages.push(Message::assistant(answer(&messages), vec![]));
        messages.push(Message::user("drop \"Redis\""));
        assert_eq!(titles(&messages)[1], "Search for \"Valkey\"");
        messages.push(Message::assistant(answer(&messages), vec![]));
        messages.push(Message::user("and run the tests"));
        assert_eq!(
            titles(&messages).last().unwrap(),
            "Say what cannot be rehearsed"
        );
    }

    #[test]
    fn a_complaint_about_a_bad_answer_is_no_change() {
        let mut messages = goal("Find \"Redis\"");
        let plan = titles(&messages);
        messages.push(Message::assistant("no plan", vec![]));
        messages.push(Message::user("the plan is not JSON: missing 'steps' array"));
        assert_eq!(titles(&messages), plan);
    }
}
