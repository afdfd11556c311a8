//! Permissions of opencode: an answer for each tool, or for patterns of its arguments.

use crate::fault::{Found, shown};
use crate::fields::Item;
use crate::rights::{Draft, EVERY};
use crate::tools::{DELEGATE, bounded, named};
use crate::yaml::{Entry, Value};
use cairn_engine::rules::Answer;
use std::collections::BTreeSet;

const ALLOWED: &str = "allow, ask or deny, or a map of patterns to them";

/// Reads `permission`.
pub(crate) fn read(entry: &Entry, draft: &mut Draft, found: &mut Found) {
    match &entry.value {
        Value::Map(entries) => each(bounded(entries, found), &entry.name, draft, found),
        value => match answer(value) {
            Some(Answer::Allow) => {}
            Some(Answer::Ask) => draft.ask.extend([EVERY.to_owned()]),
            Some(Answer::Deny) => draft.restrict(BTreeSet::new()),
            None => found.error(entry.line, &entry.name, shown(value), ALLOWED),
        },
    }
}

fn each(entries: &[Entry], field: &str, draft: &mut Draft, found: &mut Found) {
    let (mut offered, mut is_limited) = (BTreeSet::new(), false);
    for entry in entries {
        let name = format!("{field}.{}", entry.name);
        let Some(answers) = answers(entry, &name, found) else {
            continue;
        };
        let item = Item {
            line: entry.line,
            text: entry.name.clone(),
        };
        let Some(patterns) = named(&item, field, found).map(|named| named.patterns) else {
            continue;
        };
        let Some(patterns) = patterns else {
            is_limited |= answers.all() == Answer::Deny;
            if answers.all() == Answer::Ask {
                draft.ask.extend([EVERY.to_owned()]);
            }
            continue;
        };
        let answer = match patterns == [DELEGATE] {
            true => agents(&answers, draft),
            false => answers.all(),
        };
        match answer {
            Answer::Allow => offered.extend(patterns),
            Answer::Deny => draft.denied.extend(patterns),
            Answer::Ask => {
                draft.ask.extend(patterns.iter().cloned());
                offered.extend(patterns);
            }
        }
        if answers.differ() && answer == Answer::Ask {
            let problem =
                "has several answers by arguments, which Cairn does not know: each call asks";
            found.warn(entry.line, &name, problem);
        }
    }
    if is_limited {
        draft.restrict(offered);
    }
}

/// The answers for one tool, with the patterns that they are for.
struct Answers<'a>(Vec<(&'a str, Answer)>);

impl Answers<'_> {
    /// One answer for all calls, as strict as can be told: if answers differ, each call asks.
    fn all(&self) -> Answer {
        match self.0.first() {
            None => Answer::Allow,
            Some(_) if self.differ() => Answer::Ask,
            Some((_, answer)) => *answer,
        }
    }

    fn differ(&self) -> bool {
        let mut answers = self.0.iter().map(|(_, answer)| answer);
        let first = answers.next();
        answers.any(|answer| Some(answer) != first)
    }
}

/// None after an error.
fn answers<'a>(entry: &'a Entry, name: &str, found: &mut Found) -> Option<Answers<'a>> {
    let Value::Map(entries) = &entry.value else {
        let answer = answer(&entry.value);
        if answer.is_none() {
            found.error(entry.line, name, shown(&entry.value), ALLOWED);
        }
        return Some(Answers(vec![(EVERY, answer?)]));
    };
    let mut answers = Vec::new();
    for entry in bounded(entries, found) {
        match answer(&entry.value) {
            Some(answer) => answers.push((entry.name.as_str(), answer)),
            None => {
                let name = format!("{name}.{}", entry.name);
                found.error(entry.line, &name, shown(&entry.value), "allow, ask or deny");
            }
        }
    }
    Some(Answers(answers))
}

fn answer(value: &Value) -> Option<Answer> {
    let Value::Text(text) = value else {
        return None;
    };
    let answers = [Answer::Allow, Answer::Ask, Answer::Deny];
    answers
        .into_iter()
        .find(|it| it.name().eq_ignore_ascii_case(text))
}

/// Who may be given tasks: if every other agent is denied, those that are not.
fn agents(answers: &Answers<'_>, draft: &mut Draft) -> Answer {
    let is_closed = answers.0.contains(&(EVERY, Answer::Deny));
    let named = || answers.0.iter().filter(|(name, _)| *name != EVERY);
    let open = named().filter(|(_, answer)| *answer != Answer::Deny);
    let open: BTreeSet<String> = open.map(|(name, _)| (*name).to_owned()).collect();
    if is_closed && !open.is_empty() {
        let asks = named().any(|(_, answer)| *answer == Answer::Ask);
        draft.restrict_agents(open);
        return if asks { Answer::Ask } else { Answer::Allow };
    }
    answers.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Tools;
    use crate::yaml;

    /// Tools that are offered, denied and ask; agents; and what was found.
    fn read_text(text: &str) -> (Draft, Vec<String>) {
        let (mut entries, _) = yaml::read(text, 0, &[]).unwrap();
        let (mut draft, mut found) = (Draft::default(), Found::default());
        read(&entries.remove(0), &mut draft, &mut found);
        let faults = found.errors.iter().chain(&found.warnings);
        (draft, faults.map(ToString::to_string).collect())
    }

    fn words(set: &BTreeSet<String>) -> String {
        let words: Vec<&str> = set.iter().map(String::as_str).collect();
        words.join(" ")
    }

    fn check(text: &str, denied: &str, ask: &str) -> Draft {
        let (draft, faults) = read_text(text);
        assert!(
            faults.iter().all(|fault| fault.contains("each call asks")),
            "{faults:?}"
        );
        assert_eq!(
            (words(&draft.denied), words(&draft.ask)),
            (denied.to_owned(), ask.to_owned()),
            "{text}"
        );
        draft
    }

    #[test]
    fn each_tool_has_an_answer() {
        check("permission: allow", "", "");
        check("permission: ask", "", "*");
        let draft = check("permission: deny", "", "");
        assert_eq!(draft.tools(), Tools::Only(Vec::new()));
        check(
            "permission: {edit: deny, bash: ask, read: allow}",
            "edit_file write_file",
            "shell_exec",
        );
        check("permission: {\"*\": ask, todowrite: deny}", "", "*");
        check("permission: {skill: {\"*\": allow}, bash: {}}", "", "");
        check(
            "permission: {bash: {\"*\": deny, \"x\": deny}}",
            "shell_exec",
            "",
        );
    }

    #[test]
    fn answers_that_differ_by_arguments_ask() {
        let (draft, faults) = read_text("permission:\n  bash:\n    \"*\": allow\n    rm *: deny\n");
        assert_eq!(words(&draft.ask), "shell_exec");
        let warning = "line 2: permission.bash has several answers by arguments, which Cairn does not know: \
            each call asks";
        assert_eq!(faults, [warning]);
    }

    #[test]
    fn what_is_left_after_a_denial_of_everything_is_offered() {
        let draft = check(
            "permission: {\"*\": deny, read: allow, bash: ask}",
            "",
            "shell_exec",
        );
        let only = ["read_file", "shell_exec"].map(str::to_owned).to_vec();
        assert_eq!(draft.tools(), Tools::Only(only));
    }

    #[test]
    fn tasks_go_to_the_agents_that_are_allowed() {
        let draft = check(
            "permission: {task: {\"*\": deny, worker: allow, other: deny}}",
            "",
            "",
        );
        assert_eq!(words(&draft.agents.unwrap()), "worker");
        check(
            "permission: {task: {\"*\": deny, worker: ask}}",
            "",
            "delegate",
        );
        check("permission: {task: {\"*\": deny}}", "delegate", "");
        let draft = check("permission: {task: {scout: allow}}", "", "");
        assert_eq!(draft.agents, None);
    }

    #[test]
    fn other_values_are_errors_with_their_lines() {
        for (text, error) in [
            ("permission: 5", "line 1: permission is 5"),
            (
                "permission:\n  edit: never",
                "line 2: permission.edit is \"never\"",
            ),
            (
                "permission:\n  bash:\n    ls: true",
                "line 3: permission.bash.ls is true",
            ),
        ] {
            let (_, faults) = read_text(text);
            assert!(faults[0].starts_with(error), "{faults:?}");
            assert!(
                faults[0].contains("(allowed: allow, ask or deny"),
                "{faults:?}"
            );
        }
    }
}
