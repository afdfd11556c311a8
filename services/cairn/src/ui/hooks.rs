//! What hooks answered, in words.

use super::event_line::failure_text;
use cairn_engine::hooks::Point;
use cairn_proto::event::hook_mutation::Change;
use cairn_proto::event::{
    HookAnswer, HookFailure, HookGate, HookOutcome, HookPoint, HookVerdict, HooksAsked,
};
use cairn_rpc::text::clip;

/// Most bytes of a name.
const NAME: usize = 128;
/// Most bytes of a reason or a result.
const WORDS: usize = 300;

/// The name of a point, as settings have it; `?` for one that this version does not know.
pub fn point_name(number: i32) -> &'static str {
    let known = HookPoint::try_from(number).unwrap_or_default();
    let mut points = Point::ALL.iter();
    let found = points.find(|point| HookPoint::from(**point) == known);
    found.map_or("?", |point| point.name())
}

fn point(gate: Option<&HookGate>) -> HookPoint {
    gate.map_or(HookPoint::Unspecified, HookGate::point)
}

/// The point of a question by its name, which stands for what it is about if that is no call.
pub fn subject(gate: Option<&HookGate>) -> &'static str {
    point_name(point(gate).into())
}

/// What came of the answers to one question: `hook guard blocked shell_exec: no force pushes`. None if nothing did and no
/// hook failed. Escaped; `subject` is, too.
pub fn outcome(outcome: &HookOutcome, subject: &str) -> Option<String> {
    let hook = format!("hook {}", clip(&outcome.hook, NAME));
    let words = after_colon(&outcome.text);
    let changed = changed(outcome, subject);
    let mut parts = Vec::new();
    match outcome.verdict() {
        HookVerdict::Proceed | HookVerdict::Unspecified => {}
        HookVerdict::Mutate => parts.push(format!("{hook} changed {changed}")),
        HookVerdict::Skip => parts.push(format!("{hook} skipped {subject}{words}")),
        HookVerdict::RequireApproval => {
            let with = match outcome.mutation {
                Some(_) => format!(", with {changed} changed"),
                None => String::new(),
            };
            parts.push(format!(
                "{hook} requires an approval of {subject}{with}{words}"
            ));
        }
        // The failure says it.
        HookVerdict::Block if outcome.answers.iter().any(|it| has_blocked(it, outcome)) => {}
        HookVerdict::Block => parts.push(format!("{hook} blocked {subject}{words}")),
    }
    let faults = outcome.answers.iter();
    parts.extend(faults.filter_map(|answer| fault(answer, outcome, subject)));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What the hooks changed of a subject.
fn changed(outcome: &HookOutcome, subject: &str) -> String {
    let change = outcome.mutation.as_ref();
    match change.and_then(|mutation| mutation.change.as_ref()) {
        Some(Change::ArgumentsJson(_)) => format!("the arguments of {subject}"),
        Some(Change::Output(_)) => format!("the result of {subject}"),
        Some(Change::Text(_)) => "the text of the reply".to_owned(),
        Some(Change::Ops(_)) => "the conversation".to_owned(),
        Some(Change::Plan(_)) => "the plan".to_owned(),
        Some(Change::Prompt(_)) => "the prompt of the summary".to_owned(),
        None => subject.to_owned(),
    }
}

/// The hook failed, and that is what blocks.
fn has_blocked(answer: &HookAnswer, outcome: &HookOutcome) -> bool {
    answer.failure() != HookFailure::Unspecified
        && answer.verdict() == HookVerdict::Block
        && answer.hook == outcome.hook
}

/// A hook that did not answer, and what counted in its place; none if it did.
fn fault(answer: &HookAnswer, outcome: &HookOutcome, subject: &str) -> Option<String> {
    let problem = match answer.failure() {
        HookFailure::Unspecified => return None,
        HookFailure::Late => "did not answer in time",
        HookFailure::Wrong => "gave a wrong answer",
        HookFailure::Unreachable => "could not be reached",
        HookFailure::Missing => "is not configured any more, or differently",
    };
    let instead = match answer.verdict() {
        HookVerdict::Block => format!("which blocks {subject}"),
        _ => "which counts as proceed".to_owned(),
    };
    // The reason that counts is whole in the text alone.
    let why = match has_blocked(answer, outcome) {
        true => after_colon(&outcome.text),
        false => after_colon(&answer.reason),
    };
    let name = clip(&answer.hook, NAME);
    Some(format!("hook {name} {problem}, {instead}{why}"))
}

/// The point at which hooks are asked, and the error if they are asked about one.
pub fn question(asked: &HooksAsked) -> String {
    let subject = subject(asked.gate.as_ref());
    match &asked.failure {
        Some(failure) => format!("{subject}: {}", failure_text(Some(failure))),
        None => subject.to_owned(),
    }
}

/// Names in a list, escaped.
pub fn names(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| clip(name, NAME)).collect();
    names.join(", ")
}

/// Why a run waits for hooks of its own: those that are missing, and those that changed.
pub fn changes(missing: &[String], changed: &[String]) -> String {
    let part = |hooks: &[String], what: &str| {
        let verb = if hooks.len() == 1 { "is" } else { "are" };
        (!hooks.is_empty()).then(|| format!("{} {verb} {what}", names(hooks)))
    };
    let parts = [
        part(missing, "not configured any more"),
        part(changed, "configured differently now"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn after_colon(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {}", clip(text, WORDS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::HookMutation;

    fn of(verdict: HookVerdict, hook: &str, text: &str) -> HookOutcome {
        HookOutcome {
            verdict: verdict.into(),
            hook: hook.to_owned(),
            text: text.to_owned(),
            ..HookOutcome::default()
        }
    }

    #[test]
    fn every_point_has_its_name_in_the_contract() {
        for point in Point::ALL {
            let number = HookPoint::from(*point);
            assert_ne!(number, HookPoint::Unspecified, "{point:?}");
            assert_eq!(point_name(number.into()), point.name());
            let name = number.as_str_name().replace("HOOK_POINT_", "");
            assert_eq!(
                name.replace('_', "").to_lowercase(),
                point.name().to_lowercase()
            );
        }
        assert_eq!(point_name(99), "?");
    }

    #[test]
    fn each_answer_has_its_words() {
        let told = |given: &HookOutcome| outcome(given, "shell_exec");
        assert_eq!(told(&of(HookVerdict::Proceed, "", "")), None);
        let blocked = of(HookVerdict::Block, "guard", "no force\npushes");
        let expected = "hook guard blocked shell_exec: no force\\npushes";
        assert_eq!(told(&blocked).as_deref(), Some(expected));
        let skipped = of(HookVerdict::Skip, "cache", "");
        assert_eq!(
            told(&skipped).as_deref(),
            Some("hook cache skipped shell_exec")
        );
        let mutation = Some(HookMutation {
            change: Some(Change::ArgumentsJson("{}".to_owned())),
        });
        let changed = HookOutcome {
            mutation: mutation.clone(),
            ..of(HookVerdict::Mutate, "paths", "")
        };
        let expected = "hook paths changed the arguments of shell_exec";
        assert_eq!(told(&changed).as_deref(), Some(expected));
        let asks = HookOutcome {
            mutation,
            ..of(HookVerdict::RequireApproval, "guard", "look first")
        };
        let expected = "hook guard requires an approval of shell_exec, with the arguments of \
                        shell_exec changed: look first";
        assert_eq!(told(&asks).as_deref(), Some(expected));
    }

    #[test]
    fn a_hook_that_fails_is_named_although_nothing_came_of_it() {
        let answer = |failure: HookFailure, verdict: HookVerdict| HookAnswer {
            hook: "audit".to_owned(),
            verdict: verdict.into(),
            reason: "5s".to_owned(),
            failure: failure.into(),
            ..HookAnswer::default()
        };
        let late = HookOutcome {
            answers: vec![answer(HookFailure::Late, HookVerdict::Proceed)],
            ..of(HookVerdict::Proceed, "", "")
        };
        let expected = "hook audit did not answer in time, which counts as proceed: 5s";
        assert_eq!(outcome(&late, "PreRequest").as_deref(), Some(expected));
        let gone = HookOutcome {
            answers: vec![answer(HookFailure::Unreachable, HookVerdict::Block)],
            ..of(HookVerdict::Block, "audit", "5s")
        };
        let expected = "hook audit could not be reached, which blocks PreRequest: 5s";
        assert_eq!(outcome(&gone, "PreRequest").as_deref(), Some(expected));
    }

    #[test]
    fn changed_hooks_are_named_with_what_became_of_them() {
        let texts = |texts: &[&str]| {
            let texts = texts.iter().map(|&text| text.to_owned());
            texts.collect::<Vec<_>>()
        };
        let told = changes(&texts(&["a", "b"]), &texts(&["c"]));
        let expected = "a, b are not configured any more; c is configured differently now";
        assert_eq!(told, expected);
        assert_eq!(changes(&[], &[]), "");
    }
}
