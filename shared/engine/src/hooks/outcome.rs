//! What follows from the answers of several hooks to one question.

use super::{MAX_REASONS, Mutation, Point, Verdict, VerdictKind};

/// Why a hook did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Described in the contract.
pub enum HookFailure {
    Late,
    Wrong,
    Unreachable,
    Missing,
}

impl HookFailure {
    /// For people, where the hook says nothing.
    const fn words(self) -> &'static str {
        match self {
            Self::Late => "the hook did not answer in time",
            Self::Wrong => "the answer of the hook is wrong",
            Self::Unreachable => "the hook cannot be reached",
            Self::Missing => "the hook is not configured any more, or differently",
        }
    }
}

/// What one hook answered, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Its name.
    pub hook: String,
    /// What counts of the answer.
    pub verdict: VerdictKind,
    /// Its words, or why it failed.
    pub reason: String,
    /// Why there is no answer; none if there is one.
    pub failure: Option<HookFailure>,
    /// With all retries.
    pub duration_ms: u64,
}

/// What follows from all answers to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Position of the call of PreToolCall; else 0.
    pub index: u32,
    /// The strictest answer.
    pub verdict: VerdictKind,
    /// The first hook that gave it; empty for Proceed.
    pub hook: String,
    /// The reason of a Block or of a required approval, or the result of a Skip.
    pub text: String,
    /// What the hooks changed.
    pub mutation: Option<Mutation>,
    /// In the order of asking.
    pub answers: Vec<Answered>,
}

impl Outcome {
    /// Without an answer yet.
    pub fn new(index: u32) -> Self {
        Self {
            index,
            verdict: VerdictKind::Proceed,
            hook: String::new(),
            text: String::new(),
            mutation: None,
            answers: Vec::new(),
        }
    }

    /// Takes the answer of the next hook. The strictest counts, of equals the first; changes add up, and the next hook is
    /// asked about the payload with them ([`Question::with`](super::Question::with)). Returns whether further hooks are
    /// asked: not after a Block.
    pub fn take(
        &mut self,
        hook: &str,
        verdict: Verdict,
        failure: Option<HookFailure>,
        duration_ms: u64,
    ) -> bool {
        let kind = verdict.kind();
        let text = match verdict {
            Verdict::Proceed => String::new(),
            Verdict::Mutate(mutation) => {
                self.change(mutation);
                String::new()
            }
            Verdict::Skip(text) | Verdict::RequireApproval(text) | Verdict::Block(text) => text,
        };
        let text = match failure {
            Some(failure) if kind == VerdictKind::Block && text.is_empty() => {
                failure.words().to_owned()
            }
            _ => text,
        };
        let reason = match (failure, kind) {
            (Some(failure), _) if text.is_empty() => failure.words().to_owned(),
            // The result stands beside it.
            (_, VerdictKind::Skip) => String::new(),
            _ => text.clone(),
        };
        let reason = self.shortened(reason);
        self.answers.push(Answered {
            hook: hook.to_owned(),
            verdict: kind,
            reason,
            failure,
            duration_ms,
        });
        if kind > self.verdict {
            self.verdict = kind;
            hook.clone_into(&mut self.hook);
            self.text = text;
        }
        kind != VerdictKind::Block
    }

    /// The reason, as far as those before it leave room. The one that counts stands whole in the text.
    fn shortened(&self, reason: String) -> String {
        let known: usize = self.answers.iter().map(|it| it.reason.len()).sum();
        let room = MAX_REASONS.saturating_sub(known);
        match reason.len() <= room {
            true => reason,
            false => format!("{}…", &reason[..reason.floor_char_boundary(room)]),
        }
    }

    /// Each hook changes what those before it left.
    fn change(&mut self, mutation: Mutation) {
        match (&mut self.mutation, mutation) {
            (Some(Mutation::Ops(known)), Mutation::Ops(more)) => known.extend(more),
            (known, mutation) => *known = Some(mutation),
        }
    }

    /// A person is asked before the run or the step begins.
    pub(crate) fn asks_about(&self, point: Point) -> bool {
        let is_start = matches!(point, Point::OnRunStart | Point::OnStepStart);
        is_start && self.verdict == VerdictKind::RequireApproval
    }

    /// It is one that the point takes.
    pub(crate) fn fits(&self, point: Point) -> bool {
        let changes = self.mutation.as_ref().map(Mutation::changes);
        point.takes(self.verdict) && changes.is_none_or(|changes| changes == point.changes())
    }

    /// What was changed cannot count. It blocks for this reason, unless it did already.
    pub(crate) fn refuse(&mut self, reason: &str) {
        self.mutation = None;
        if self.verdict != VerdictKind::Block {
            self.verdict = VerdictKind::Block;
            reason.clone_into(&mut self.text);
        }
    }

    /// Continue, with nothing changed.
    pub fn is_proceed(&self) -> bool {
        self.verdict == VerdictKind::Proceed && self.mutation.is_none()
    }

    /// At [`Point::PreToolCall`]: the arguments that are sent in place of the model's. None if the model's are sent, or
    /// the call is not made.
    pub fn sent(&self) -> Option<&str> {
        match (self.verdict, &self.mutation) {
            (VerdictKind::Skip | VerdictKind::Block, _) => None,
            (_, Some(Mutation::Arguments(arguments))) => Some(arguments),
            _ => None,
        }
    }

    /// The hook that changed something last. A stricter answer of another one may count.
    pub(crate) fn changed_by(&self) -> &str {
        let mut answers = self.answers.iter().rev();
        let last = answers.find(|it| it.verdict == VerdictKind::Mutate);
        last.map_or(self.hook.as_str(), |it| it.hook.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Op;
    use crate::hooks::{MAX_HOOKS, MAX_REASON};

    fn arguments(json: &str) -> Verdict {
        Verdict::Mutate(Mutation::Arguments(json.to_owned()))
    }

    fn ops(ops: Vec<Op>) -> Verdict {
        Verdict::Mutate(Mutation::Ops(ops))
    }

    #[test]
    fn the_first_of_the_strictest_answers_counts() {
        let mut outcome = Outcome::new(2);
        assert!(outcome.take("a", Verdict::Proceed, None, 1));
        assert!(outcome.is_proceed());
        assert!(outcome.take("b", arguments("{}"), None, 1));
        assert_eq!(
            (outcome.verdict, &*outcome.hook),
            (VerdictKind::Mutate, "b")
        );
        let asks = |reason: &str| Verdict::RequireApproval(reason.to_owned());
        assert!(outcome.take("c", asks("one"), None, 1));
        assert!(outcome.take("d", asks("two"), None, 1));
        assert!(outcome.take("e", Verdict::Skip("skipped".to_owned()), None, 1));
        assert_eq!((&*outcome.hook, &*outcome.text), ("c", "one"));
        let late = Some(HookFailure::Late);
        assert!(!outcome.take("f", Verdict::Block(String::new()), late, 5_000));
        assert_eq!((outcome.verdict, &*outcome.hook), (VerdictKind::Block, "f"));
        assert_eq!(outcome.mutation, Some(Mutation::Arguments("{}".to_owned())));
        let reasons: Vec<_> = outcome.answers.iter().map(|it| &*it.reason).collect();
        let late = "the hook did not answer in time";
        assert_eq!(reasons, ["", "", "one", "two", "", late]);
    }

    #[test]
    fn reasons_of_many_hooks_are_cut_and_the_one_that_counts_is_whole() {
        let mut outcome = Outcome::new(0);
        let long = |letter: &str| letter.repeat(MAX_REASON / letter.len());
        for _ in 0..MAX_HOOKS {
            outcome.take("a", Verdict::RequireApproval(long("ä")), None, 1);
        }
        let first = &outcome.answers[0].reason;
        assert_eq!((first, &outcome.text), (&long("ä"), &long("ä")));
        outcome.take("b", Verdict::Block(long("b")), None, 1);
        assert_eq!(outcome.text, long("b"));
        let all: usize = outcome.answers.iter().map(|it| it.reason.len()).sum();
        assert!(all < MAX_REASONS + 4 * (MAX_HOOKS + 1), "{all} bytes");
        assert!(outcome.answers.iter().all(|it| !it.reason.is_empty()));
    }

    #[test]
    fn the_last_hook_that_changed_something_is_known_beside_a_stricter_one() {
        let mut outcome = Outcome::new(0);
        outcome.take("a", arguments("{}"), None, 1);
        outcome.take("b", arguments("{}"), None, 1);
        outcome.take("c", Verdict::RequireApproval(String::new()), None, 1);
        assert_eq!((outcome.changed_by(), &*outcome.hook), ("b", "c"));
    }

    #[test]
    fn changes_of_a_conversation_add_up_and_others_replace() {
        let mut outcome = Outcome::new(0);
        for text in ["one", "two"] {
            outcome.take("a", ops(vec![Op::Notice(text.to_owned())]), None, 1);
        }
        let all = outcome.mutation.as_ref().and_then(Mutation::ops);
        assert_eq!(all.map(<[Op]>::len), Some(2));
        let mut outcome = Outcome::new(0);
        for json in ["{}", r#"{"a":1}"#] {
            outcome.take("a", arguments(json), None, 1);
        }
        assert_eq!(outcome.sent(), Some(r#"{"a":1}"#));
    }
}
