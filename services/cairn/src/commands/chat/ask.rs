//! A question of a turn, and what a person types as its answer. Pure.

use crate::commands::approve::approval;
use crate::ui::live::wrap;
use crate::ui::questions::asked_lines;
use crate::ui::style::Style;
use cairn_proto::event::WaitReason;
use cairn_proto::event::settlement::{Answer, Approve, Deny, Done, Fail, Outcome, Retry, Skip};
use cairn_proto::orchestrator::Pending;

/// The lines that show the question, without the session, which the person is in.
pub(super) fn lines(style: Style, pending: &Pending, columns: usize) -> Vec<String> {
    let lines = asked_lines(style, pending, &[]).into_iter();
    let others = lines.filter(|line| !line.starts_with("  in  "));
    let broken = |line: String| match line.starts_with("  ") {
        true => wrap(&line, columns),
        false => vec![line],
    };
    others.flat_map(broken).collect()
}

/// What is asked in the line above the answer.
pub(super) fn prompt(pending: &Pending) -> &'static str {
    match pending.reason() {
        WaitReason::Approval => "approve? [y / a for always in this session / n, or n and why]",
        WaitReason::PlanReview => "carry it out? [y / n and what is to be different]",
        WaitReason::Question => "your answer:",
        WaitReason::Budget => "continue with as much again? [y / n]",
        WaitReason::Context => "try again? [r / f to fail the turn / the prompt of a summary]",
        WaitReason::InDoubt | WaitReason::Unspecified => {
            "how did it end? [done RESULT / retry / skip / fail]"
        }
    }
}

/// Reads an answer. `None` for one that does not fit the question.
pub(super) fn outcome(pending: &Pending, line: &str) -> Option<Outcome> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (word, rest) = (word.to_ascii_lowercase(), rest.trim().to_owned());
    match pending.reason() {
        WaitReason::Approval if rest.is_empty() && ["a", "always"].contains(&word.as_str()) => {
            Some(approval(true, Vec::new()))
        }
        WaitReason::Approval | WaitReason::PlanReview => match word.as_str() {
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
    fn the_question_is_shown_without_its_session() {
        let reasons = [
            WaitReason::Approval,
            WaitReason::PlanReview,
            WaitReason::Question,
            WaitReason::Budget,
            WaitReason::Context,
            WaitReason::InDoubt,
        ];
        let shown = reasons.map(|reason| {
            let question = asks(reason);
            let lines = lines(Style::new(false), &question, 80).join("\n");
            format!("---\n{lines}\n{}\n", prompt(&question))
        });
        let shown = shown.concat();
        assert!(!shown.contains("s-1"), "{shown}");
        insta::assert_snapshot!("questions_in_chat", shown);
    }
}
