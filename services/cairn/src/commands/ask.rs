//! A question of a run, and what a person types as its answer. Pure.

use super::approve::approval;
use crate::ui::approvals::{Wanted, change};
use crate::ui::diff::FIRST;
use crate::ui::live::wrap;
use crate::ui::questions::{Extent, asked_lines, change_lines, is_changed};
use crate::ui::scopes::further;
use crate::ui::style::Style;
use cairn_proto::event::WaitReason;
use cairn_proto::event::settlement::{Answer, Approve, Deny, Done, Fail, Outcome, Retry, Skip};
use cairn_proto::orchestrator::Pending;
use unicode_width::UnicodeWidthStr as _;

/// Columns before a text of a question: its name, or none.
const NAME: usize = BLANKS.len();
const BLANKS: &str = "            ";
/// The first line of a command begins so.
const COMMAND: &str = "  command   ";
/// Before what continues a line of a command.
const CONTINUES: &str = "↳ ";
/// Less room than this is broken by the terminal itself.
const NARROWEST: usize = 20;

/// What a person typed after a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// The answer.
    Outcome(Outcome),
    /// They want to see the whole change first.
    Whole,
}

/// The lines that show the question in so many columns, without the session, which the person is in.
pub(super) fn lines(style: Style, pending: &Pending, columns: usize) -> Vec<String> {
    let lines = asked_lines(style, pending, Wanted::Open).into_iter();
    // A key of 64 digits is for the records of a tool, which are looked up elsewhere.
    let left_out = |line: &String| {
        ["  in  ", "  call key "]
            .iter()
            .any(|it| line.starts_with(it))
    };
    let others = lines.filter(|line| !left_out(line));
    let mut is_command = false;
    let others = others.flat_map(|line| {
        is_command = match line.starts_with(BLANKS) {
            true => is_command,
            false => line.starts_with(COMMAND),
        };
        match is_command {
            true => broken_command(&line, columns),
            false => broken(line, columns),
        }
    });
    let mut lines: Vec<String> = others.collect();
    let rest = || "d shows all of it".to_owned();
    lines.extend(change_lines(style, pending, Extent::First, columns, rest));
    lines.extend(choice_lines(pending, columns));
    lines
}

/// The lines of the whole change that a write would make, and below it what each answer means.
pub(super) fn whole(style: Style, pending: &Pending, columns: usize) -> Vec<String> {
    let mut lines = change_lines(style, pending, Extent::Whole, columns, String::new);
    lines.extend(choice_lines(pending, columns));
    lines
}

fn choice_lines(pending: &Pending, columns: usize) -> impl Iterator<Item = String> {
    let choices = choices(pending).into_iter();
    choices.flat_map(move |line| broken(line, columns))
}

/// A line of a command in lines of so many columns. What continues a line is marked, because a line break is part of a
/// command.
fn broken_command(line: &str, columns: usize) -> Vec<String> {
    let (name, text) = line.split_at_checked(NAME).unwrap_or((line, ""));
    let text = text.replace('\t', "    ");
    let room = columns.saturating_sub(NAME).max(NARROWEST);
    if text.width() <= room {
        return vec![format!("{name}{text}")];
    }
    let pieces = wrap(&text, room.saturating_sub(CONTINUES.width()));
    let begins = [name.to_owned()].into_iter();
    let begins = begins.chain(std::iter::repeat(format!("{BLANKS}{CONTINUES}")));
    let lines = begins.zip(pieces);
    lines.map(|(begin, piece)| begin + &piece).collect()
}

/// A line of a question in lines of so many columns, which begin below its text.
fn broken(line: String, columns: usize) -> Vec<String> {
    let (name, text) = match line.split_at_checked(NAME) {
        Some((name, text)) if name.starts_with("  ") => (name, text),
        _ => return vec![line],
    };
    let names = std::iter::once(name).chain(std::iter::repeat(BLANKS));
    let texts = wrap(text, columns.saturating_sub(NAME).max(NARROWEST));
    let lines = names.zip(texts).map(|(name, text)| format!("{name}{text}"));
    lines.collect()
}

/// The answers about a call in doubt: what each says.
const IN_DOUBT: [(&str, &str); 4] = [
    ("done", "it ended, and what follows done is what it gave"),
    ("retry", "make it again"),
    ("skip", "go on without it"),
    ("fail", "it failed, and the step or the turn fails with it"),
];

/// What each answer about a call means: of one in doubt, and of one whose approval can cover further ones.
fn choices(pending: &Pending) -> Vec<String> {
    let shown = |key: &str, meaning: &str| format!("  {key:<10}{meaning}");
    if pending.reason() == WaitReason::InDoubt {
        let answers = IN_DOUBT.iter();
        return answers.map(|(key, meaning)| shown(key, meaning)).collect();
    }
    let further = further(pending).into_iter().zip(1..);
    let further = further.map(|(it, number): (_, usize)| (number.to_string(), it.covers));
    let further: Vec<(String, String)> = further.collect();
    if further.is_empty() {
        return Vec::new();
    }
    let once = ("y".to_owned(), "this call".to_owned());
    let always = further
        .into_iter()
        .map(|(number, covers)| (number, format!("this call, and in this session {covers}")));
    let none = (
        "n".to_owned(),
        "do not make it; the model reads what follows n".to_owned(),
    );
    let all = std::iter::once(once).chain(always).chain([none]);
    all.map(|(key, meaning)| shown(&key, &meaning)).collect()
}

/// Whether lines of the change are left out at first.
fn has_more(pending: &Pending) -> bool {
    let shown = change(Style::new(false), pending, FIRST, usize::MAX);
    shown.is_some_and(|shown| shown.left_out > 0)
}

/// What is asked in the line above the answer.
pub(super) fn prompt(pending: &Pending) -> String {
    let prompt = match pending.reason() {
        WaitReason::Approval => return approval_prompt(pending),
        WaitReason::PlanReview => "carry it out? [y / n and what is to be different]",
        WaitReason::Question => "your answer:",
        WaitReason::Budget => "continue with as much again? [y / n]",
        WaitReason::Capability => "it continues once a resource has it [f to fail it]",
        WaitReason::Hook if is_changed(pending) => {
            "continue with the present ones? [y / r to look again / f to fail the run]"
        }
        WaitReason::Hook => "let it begin? [y / n, or n and why]",
        WaitReason::Context => "try again? [r / f to fail the turn / the prompt of a summary]",
        WaitReason::InDoubt | WaitReason::Unspecified => {
            "how did it end? [done RESULT / retry / skip / fail]"
        }
    };
    prompt.to_owned()
}

fn approval_prompt(pending: &Pending) -> String {
    let mut answers = vec!["y".to_owned()];
    if pending.scopes.is_empty() {
        answers.push("a for always in this session".to_owned());
    }
    answers.extend(numbers(pending));
    if has_more(pending) {
        answers.push("d for the whole change".to_owned());
    }
    format!("approve? [{} / n, or n and why]", answers.join(" / "))
}

/// The answers that approve further calls.
fn numbers(pending: &Pending) -> impl Iterator<Item = String> {
    (1..=further(pending).len()).map(|number| number.to_string())
}

/// What is said of a line that does not fit the question: what is possible.
pub(super) fn refused(pending: &Pending) -> String {
    let possible = match pending.reason() {
        WaitReason::Approval => approvals(pending),
        WaitReason::PlanReview | WaitReason::Budget => "y or n".to_owned(),
        WaitReason::Question => "with a text".to_owned(),
        WaitReason::Capability => "f".to_owned(),
        WaitReason::Hook if is_changed(pending) => "y, r or f".to_owned(),
        WaitReason::Hook => "y or n".to_owned(),
        WaitReason::Context => "r, f, or the prompt of a summary".to_owned(),
        WaitReason::InDoubt | WaitReason::Unspecified => {
            "done and the result, retry, skip or fail".to_owned()
        }
    };
    format!("that is no answer to the question: answer {possible}")
}

/// The keys that answer a question for approval, and the one that shows the change.
fn approvals(pending: &Pending) -> String {
    let mut keys = vec!["y".to_owned()];
    if pending.scopes.is_empty() {
        keys.push("a".to_owned());
    }
    keys.extend(numbers(pending));
    if pending.preview.is_some() {
        keys.push("d".to_owned());
    }
    format!("{} or n", keys.join(", "))
}

/// Reads what a person typed. `None` if it does not fit the question.
pub(super) fn said(pending: &Pending, line: &str) -> Option<Said> {
    if line.trim().eq_ignore_ascii_case("d") && pending.preview.is_some() {
        return Some(Said::Whole);
    }
    outcome(pending, line).map(Said::Outcome)
}

fn outcome(pending: &Pending, line: &str) -> Option<Outcome> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (word, rest) = (word.to_ascii_lowercase(), rest.trim().to_owned());
    match pending.reason() {
        WaitReason::Approval if rest.is_empty() && is_further(&word) => always(pending, &word),
        WaitReason::Hook if is_changed(pending) => match word.as_str() {
            "y" | "yes" if rest.is_empty() => Some(Outcome::Approve(Approve {})),
            "r" | "retry" if rest.is_empty() => Some(Outcome::Retry(Retry {})),
            "f" | "fail" => Some(Outcome::Fail(Fail { reason: rest })),
            _ => None,
        },
        WaitReason::Approval | WaitReason::PlanReview | WaitReason::Hook => match word.as_str() {
            "y" | "yes" if rest.is_empty() => Some(Outcome::Approve(Approve {})),
            "n" | "no" => Some(Outcome::Deny(Deny { reason: rest })),
            _ => None,
        },
        WaitReason::Question => {
            let text = chosen(&pending.choices, line)?.to_owned();
            Some(Outcome::Answer(Answer { text }))
        }
        WaitReason::Budget => match word.as_str() {
            "y" | "yes" if rest.is_empty() => Some(Outcome::Retry(Retry {})),
            "n" | "no" => Some(Outcome::Fail(Fail { reason: rest })),
            _ => None,
        },
        WaitReason::Capability => match word.as_str() {
            "f" | "fail" => Some(Outcome::Fail(Fail { reason: rest })),
            _ => None,
        },
        WaitReason::Context => match word.as_str() {
            "" => None,
            "r" | "retry" if rest.is_empty() => Some(Outcome::Retry(Retry {})),
            "f" | "fail" => Some(Outcome::Fail(Fail { reason: rest })),
            _ => Some(Outcome::Answer(Answer {
                text: line.to_owned(),
            })),
        },
        WaitReason::InDoubt | WaitReason::Unspecified => match word.as_str() {
            "done" if !rest.is_empty() => Some(Outcome::Done(Done { output: rest })),
            "retry" if rest.is_empty() => Some(Outcome::Retry(Retry {})),
            "skip" => Some(Outcome::Skip(Skip { reason: rest })),
            "fail" => Some(Outcome::Fail(Fail { reason: rest })),
            _ => None,
        },
    }
}

/// The word may approve further calls.
fn is_further(word: &str) -> bool {
    matches!(word, "a" | "always") || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// An approval of further calls: those of a scope by its number, or where none is known those with the same values.
fn always(pending: &Pending, word: &str) -> Option<Outcome> {
    if pending.scopes.is_empty() {
        let is_word = matches!(word, "a" | "always");
        return is_word.then(|| approval(true, Vec::new(), None));
    }
    let place = word.parse::<usize>().ok()?.checked_sub(1)?;
    let scope = further(pending).into_iter().nth(place)?;
    Some(approval(true, Vec::new(), Some(scope.id)))
}

/// A choice by its number, or the text as it is.
fn chosen<'a>(choices: &'a [String], line: &'a str) -> Option<&'a str> {
    let number = line.parse::<usize>().ok();
    let choice = number.and_then(|number| choices.get(number.checked_sub(1)?));
    let text = choice.map_or(line, String::as_str);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::grant_scope::{Folder, Kind, Prefix, Tool};
    use cairn_proto::event::{CallPreview, GrantScope};
    use cairn_proto::orchestrator::ApprovalScope;

    fn asks(reason: WaitReason) -> Pending {
        Pending {
            id: "approval-1.1.1.0.0".to_owned(),
            session: "s-1".to_owned(),
            reason: reason.into(),
            tool: "record".to_owned(),
            choices: vec!["red".to_owned(), "blue".to_owned()],
            ..Pending::default()
        }
    }

    #[test]
    fn approvals_take_yes_or_no_with_a_reason() {
        let question = asks(WaitReason::Approval);
        let approved = Some(Outcome::Approve(Approve {}));
        assert_eq!(outcome(&question, " Y "), approved);
        assert_eq!(outcome(&question, "yes"), approved);
        for line in ["a", "Always"] {
            let always = outcome(&question, line);
            assert!(matches!(always, Some(Outcome::ApproveAlways(_))), "{line}");
            assert_eq!(outcome(&asks(WaitReason::PlanReview), line), None);
        }
        let denied = |reason: &str| {
            let reason = reason.to_owned();
            Some(Outcome::Deny(Deny { reason }))
        };
        assert_eq!(outcome(&question, "n"), denied(""));
        assert_eq!(
            outcome(&question, "no not on a Friday"),
            denied("not on a Friday")
        );
        for line in ["", "maybe", "yes please", "nein"] {
            assert_eq!(outcome(&question, line), None, "{line}");
        }
    }

    #[test]
    fn questions_take_a_text_or_the_number_of_a_choice() {
        let question = asks(WaitReason::Question);
        for (line, want) in [("2", "blue"), ("3", "3"), ("0", "0"), ("green", "green")] {
            let text = want.to_owned();
            let want = Some(Outcome::Answer(Answer { text }));
            assert_eq!(outcome(&question, line), want);
        }
        assert_eq!(outcome(&question, "  "), None);
    }

    #[test]
    fn budgets_and_calls_in_doubt_have_answers_of_their_own() {
        let budget = asks(WaitReason::Budget);
        assert_eq!(outcome(&budget, "y"), Some(Outcome::Retry(Retry {})));
        assert!(matches!(outcome(&budget, "n"), Some(Outcome::Fail(_))));
        let doubt = asks(WaitReason::InDoubt);
        let output = "sent to all".to_owned();
        assert_eq!(
            outcome(&doubt, "done sent to all"),
            Some(Outcome::Done(Done { output }))
        );
        assert_eq!(outcome(&doubt, "retry"), Some(Outcome::Retry(Retry {})));
        assert!(matches!(outcome(&doubt, "skip"), Some(Outcome::Skip(_))));
        assert!(matches!(outcome(&doubt, "fail"), Some(Outcome::Fail(_))));
        for line in ["done", "y", "n"] {
            assert_eq!(outcome(&doubt, line), None, "{line}");
        }
    }

    #[test]
    fn a_request_that_does_not_fit_takes_a_prompt_too() {
        let full = asks(WaitReason::Context);
        for line in ["r", " Retry "] {
            assert_eq!(outcome(&full, line), Some(Outcome::Retry(Retry {})));
        }
        let reason = "too dear".to_owned();
        let failed = Some(Outcome::Fail(Fail { reason }));
        assert_eq!(outcome(&full, "f too dear"), failed);
        for text in ["Keep the names of the files.", "retry with the names"] {
            let text = text.to_owned();
            let prompt = Some(Outcome::Answer(Answer { text: text.clone() }));
            assert_eq!(outcome(&full, &text), prompt);
        }
        assert_eq!(outcome(&full, "  "), None);
    }

    #[test]
    fn what_no_resource_has_is_waited_for_unless_the_step_is_to_fail() {
        let short = asks(WaitReason::Capability);
        let reason = "not today".to_owned();
        let failed = Some(Outcome::Fail(Fail { reason }));
        assert_eq!(outcome(&short, "f not today"), failed);
        for line in ["", "y", "retry"] {
            assert_eq!(outcome(&short, line), None, "{line}");
        }
    }

    #[test]
    fn a_hook_takes_an_approval_and_a_changed_one_a_choice() {
        let approve = Some(Outcome::Approve(Approve {}));
        let asking = asks(WaitReason::Hook);
        assert_eq!(outcome(&asking, "y"), approve);
        assert!(matches!(
            outcome(&asking, "n later"),
            Some(Outcome::Deny(_))
        ));
        assert_eq!(outcome(&asking, "r"), None);
        let changed = Pending {
            missing_hooks: vec!["guard".to_owned()],
            ..asking
        };
        assert_eq!(outcome(&changed, "y"), approve);
        assert_eq!(outcome(&changed, "r"), Some(Outcome::Retry(Retry {})));
        assert!(matches!(outcome(&changed, "f"), Some(Outcome::Fail(_))));
        assert_eq!(outcome(&changed, "n"), None);
        assert!(refused(&changed).ends_with("answer y, r or f"));
    }

    fn tool() -> ApprovalScope {
        let kind = Some(Kind::Tool(Tool {}));
        ApprovalScope {
            id: "tool".to_owned(),
            scope: Some(GrantScope { kind }),
        }
    }

    fn alone() -> ApprovalScope {
        ApprovalScope {
            id: "call".to_owned(),
            scope: None,
        }
    }

    /// A write of a file in `src`, which has so many new lines.
    fn write(added: u32) -> Pending {
        let folder = "src".to_owned();
        let below = ApprovalScope {
            id: "folder:src".to_owned(),
            scope: Some(GrantScope {
                kind: Some(Kind::Folder(Folder { folder })),
            }),
        };
        let text: String = (0..added).map(|n| format!("+line {n}\n")).collect();
        Pending {
            tool: "edit_file".to_owned(),
            choices: Vec::new(),
            scopes: vec![alone(), below, tool()],
            preview: Some(CallPreview {
                path: "src/a.rs".to_owned(),
                before_digest: "a".to_owned(),
                diff: format!("--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,0 +1,{added} @@\n{text}"),
                added,
                ..CallPreview::default()
            }),
            ..asks(WaitReason::Approval)
        }
    }

    #[test]
    fn scopes_are_numbered_and_granted_by_their_ids() {
        let question = write(2);
        for (line, scope) in [("1", "folder:src"), (" 2 ", "tool")] {
            let Some(Said::Outcome(Outcome::ApproveAlways(always))) = said(&question, line) else {
                panic!("{line}");
            };
            assert_eq!((always.scope.as_str(), always.when.len()), (scope, 0));
        }
        for line in ["0", "3", "1 2", "a", "always", "12345678901234567890123"] {
            assert_eq!(said(&question, line), None, "{line}");
        }
        let once = Some(Said::Outcome(Outcome::Approve(Approve {})));
        assert_eq!(said(&question, "y"), once);
    }

    #[test]
    fn a_call_that_is_approved_alone_has_no_other_choice() {
        let question = Pending {
            scopes: vec![alone()],
            ..write(2)
        };
        for line in ["1", "a"] {
            assert_eq!(said(&question, line), None, "{line}");
        }
        assert_eq!(prompt(&question), "approve? [y / n, or n and why]");
    }

    #[test]
    fn a_long_change_is_cut_until_a_person_asks_for_it() {
        let question = write(60);
        assert_eq!(said(&question, "d"), Some(Said::Whole));
        let shown = lines(Style::new(false), &question, 80);
        let cut = "    … 21 more lines; d shows all of it".to_owned();
        assert!(shown.contains(&cut), "{shown:?}");
        assert!(!shown.contains(&"    +line 59".to_owned()), "{shown:?}");
        let all = whole(Style::new(false), &question, 80);
        let last = all.iter().position(|line| line == "    +line 59").unwrap();
        assert!(all[last + 1].starts_with("  y "), "{all:?}");
        assert_eq!(all[last + 1..].len(), 4, "{all:?}");
    }

    #[test]
    fn a_short_change_is_shown_again() {
        let question = write(2);
        assert_eq!(said(&question, "D"), Some(Said::Whole));
        let again = whole(Style::new(false), &question, 120);
        assert_eq!(again[1..3], ["    +line 0", "    +line 1"]);
        assert!(again.last().unwrap().starts_with("  n "), "{again:?}");
    }

    #[test]
    fn a_line_that_does_not_fit_is_told_what_does() {
        let told = |question: &Pending| {
            let told = refused(question);
            told.split_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(told(&write(2)), "answer y, 1, 2, d or n");
        assert_eq!(told(&asks(WaitReason::Approval)), "answer y, a or n");
        assert_eq!(told(&asks(WaitReason::Budget)), "answer y or n");
        let alone = Pending {
            scopes: vec![alone()],
            ..asks(WaitReason::Approval)
        };
        assert_eq!(told(&alone), "answer y or n");
    }

    #[test]
    fn a_command_shows_its_own_line_breaks_and_marks_others() {
        let question = Pending {
            tool: "shell_exec".to_owned(),
            choices: Vec::new(),
            command: format!("if true\n\n    then {}\n\tfi", "echo ".repeat(12)),
            folder: "a".to_owned(),
            ..asks(WaitReason::Approval)
        };
        let shown = lines(Style::new(false), &question, 60);
        let from = shown.iter().position(|line| line.contains("if true"));
        let from = from.unwrap();
        let expected = [
            "  command   if true".to_owned(),
            BLANKS.to_owned(),
            format!("{BLANKS}    then {}echo", "echo ".repeat(6)),
            format!("{BLANKS}↳ {}echo", "echo ".repeat(4)),
            format!("{BLANKS}    fi"),
            "  folder    a".to_owned(),
        ];
        assert_eq!(shown[from..from + 6], expected);
    }

    #[test]
    fn a_command_in_doubt_is_shown_as_a_command() {
        let question = Pending {
            tool: "shell_exec".to_owned(),
            choices: Vec::new(),
            arguments_json: r#"{"command":"make it","cwd":"a/b"}"#.to_owned(),
            call_key: "0123456789abcdef".repeat(4),
            ..asks(WaitReason::InDoubt)
        };
        let shown = lines(Style::new(false), &question, 80);
        let expected = [
            "? approval-1.1.1.0.0  nobody knows how a call ended",
            "  tool      shell_exec",
            "  command   make it",
            "  folder    a/b",
            "  answer    takes effect at once",
            "  done      it ended, and what follows done is what it gave",
        ];
        assert_eq!(shown[..6], expected);
    }

    /// A command, a short write and a long one, and a write that is asked about each time.
    fn calls() -> [Pending; 4] {
        let words = ["cargo", "test"].map(str::to_owned).to_vec();
        let folder = ".".to_owned();
        let prefix = ApprovalScope {
            id: "prefix:cargo test".to_owned(),
            scope: Some(GrantScope {
                kind: Some(Kind::Prefix(Prefix { words, folder })),
            }),
        };
        let command = Pending {
            tool: "shell_exec".to_owned(),
            choices: Vec::new(),
            command: "cargo test --offline".to_owned(),
            folder: ".".to_owned(),
            opens: "confined".to_owned(),
            scopes: vec![alone(), prefix],
            ..asks(WaitReason::Approval)
        };
        let mut protected = write(1);
        protected.scopes = vec![alone()];
        if let Some(preview) = &mut protected.preview {
            preview.is_protected = true;
        }
        [command, write(2), write(60), protected]
    }

    #[test]
    fn the_question_is_shown_without_its_session() {
        let reasons = [
            WaitReason::Approval,
            WaitReason::PlanReview,
            WaitReason::Question,
            WaitReason::Budget,
            WaitReason::Context,
            WaitReason::InDoubt,
        ];
        let questions = reasons.into_iter().map(asks).chain(calls());
        let shown = questions.map(|question| {
            let lines = lines(Style::new(false), &question, 80).join("\n");
            format!("---\n{lines}\n{}\n", prompt(&question))
        });
        let shown = shown.collect::<String>();
        assert!(!shown.contains("s-1"), "{shown}");
        insta::assert_snapshot!("questions_in_chat", shown);
    }
}
