//! Compares what the journal, the model, the tool and the hook saw of a run with what follows by the table.

use super::cases::{Behaviour, CHANGED, Kind};
use super::follows::{End, Reaches, counted, follows, times_asked, words};
use super::played::RESULT;
use super::runs::{ENOUGH, SESSION, SHORT, Stage};
use super::seen::Seen;
use cairn_engine::hooks::{Point, VerdictKind};
use cairn_proto::event as wire;
use cairn_proto::event::HookFailure as Failure;
use serde_json::json;

/// How many milliseconds a hook is asked that cannot be reached. It is given up before a pause that would pass 30 s.
const TRIED_MS: std::ops::Range<u64> = 25_000..45_000;

impl Stage<'_> {
    /// The journal has the answer, with what counts of it.
    pub(super) fn check_answer(&self, seen: &Seen) -> Result<(), String> {
        let case = &self.case;
        let answered = seen.answered.as_ref().ok_or("no answer")?;
        let [outcome] = answered.outcomes.as_slice() else {
            return Err(format!("outcomes: {answered:?}"));
        };
        let [answer] = outcome.answers.as_slice() else {
            return Err(format!("answers: {answered:?}"));
        };
        let failure = match case.behaviour {
            Behaviour::Answers(_) | Behaviour::ComesBack(_) => Failure::Unspecified,
            Behaviour::Late => Failure::Late,
            Behaviour::Wrong | Behaviour::NotTaken => Failure::Wrong,
            Behaviour::Unreachable if case.kind == Kind::Program => Failure::Wrong,
            Behaviour::Unreachable => Failure::Unreachable,
        };
        let counted = counted(case);
        let verdict = wire::HookVerdict::from(counted);
        let found = (answer.failure(), answer.verdict(), outcome.verdict());
        if found != (failure, verdict, verdict) || answer.hook != self.hook {
            return Err(format!(
                "expected {failure:?} and {verdict:?}: {answered:?}"
            ));
        }
        let has_words = !matches!(counted, VerdictKind::Proceed | VerdictKind::Mutate);
        if has_words && !outcome.text.contains(words(case)) {
            return Err(format!("the words are lost: {answered:?}"));
        }
        let took = answer.duration_ms;
        let is_in_time = match case.behaviour {
            Behaviour::Late => u128::from(took) >= SHORT.as_millis(),
            Behaviour::Unreachable if case.kind != Kind::Program => TRIED_MS.contains(&took),
            _ => u128::from(took) < ENOUGH.as_millis(),
        };
        match is_in_time {
            true => Ok(()),
            false => Err(format!("it took {took} ms: {answered:?}")),
        }
    }

    /// What followed is what the table says.
    pub(super) fn check_end(&self, seen: &Seen) -> Result<End, String> {
        let expected = follows(self.case.point, counted(&self.case));
        let found = (
            seen.end(&self.hook),
            self.model.requests().len(),
            self.tool.calls().len(),
            seen.decisions,
        );
        let table = (
            Some(expected.end),
            expected.requests,
            expected.calls,
            expected.decisions,
        );
        if found != table {
            return Err(format!(
                "expected {table:?} (end, requests, calls, decisions), found {found:?}: {seen:?}"
            ));
        }
        self.check_requests(expected.reaches)?;
        let sent = match expected.reaches {
            Reaches::Arguments => json!({"changed": true}),
            _ => json!({}),
        };
        let calls = self.tool.calls();
        if calls.iter().any(|arguments| *arguments != sent) {
            return Err(format!("the tool is called with {calls:?}"));
        }
        let skipped = seen.skipped.as_ref();
        let is_skipped = skipped.is_some_and(|it| it.hook == self.hook && it.reason == CHANGED);
        let failure = seen.failure.as_ref();
        let fails_so = failure.is_some_and(|it| it.message.contains(words(&self.case)));
        let holds = match expected.reaches {
            Reaches::SkippedStep => is_skipped && !fails_so,
            Reaches::Failure => fails_so && skipped.is_none(),
            Reaches::Nothing | Reaches::Request(_) | Reaches::Arguments => {
                skipped.is_none() && !fails_so
            }
        };
        match holds {
            true => Ok(expected.end),
            false => Err(format!("expected {:?}: {seen:?}", expected.reaches)),
        }
    }

    /// The model reads what it has to, and nothing of the hook before or elsewhere.
    fn check_requests(&self, reaches: Reaches) -> Result<(), String> {
        let case = &self.case;
        let (requests, words) = (self.model.requests(), words(case));
        let expected = match reaches {
            Reaches::Request(number) => Some(number),
            _ => None,
        };
        let has_words = |text: &String| text.contains(words) || text.contains(CHANGED);
        let found = requests.iter().position(has_words);
        if found != expected {
            return Err(format!(
                "expected {words:?} in request {expected:?}, found it in {found:?}: {requests:?}"
            ));
        }
        // The model reads the result of the tool, unless the hook put something in its place.
        let is_kept = case.point != Point::PostToolCall || counted(case) == VerdictKind::Proceed;
        let has_result = requests.iter().any(|text| text.contains(RESULT));
        let is_expected = is_kept && !self.tool.calls().is_empty();
        match has_result == is_expected {
            true => Ok(()),
            false => Err(format!("the result of the tool: {requests:?}")),
        }
    }

    /// Each question came as often as it had to. Returns how many came once, and how many again.
    pub(super) fn check_questions(&self, seen: &Seen) -> Result<(usize, usize), String> {
        let asked = self.asked();
        let key = seen.key(SESSION, &self.hook).ok_or("no question")?;
        let (least, most) = times_asked(&self.case);
        let times = asked.get(&key).copied().unwrap_or_default();
        let mut others = asked.iter().filter(|(other, _)| **other != key);
        if !(least..=most).contains(&times) || others.any(|(_, times)| *times != 1) {
            return Err(format!(
                "expected {least} to {most} times {key}, and every other question once: {asked:?}"
            ));
        }
        let once = asked.values().filter(|times| **times == 1).count();
        Ok((once, asked.len() - once))
    }
}
